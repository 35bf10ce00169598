package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/profile"
)

// lockIndent is the number of columns before a line that says more of a lock.
const lockIndent = 23

func (m *topModel) locks(l *locks.Locks) (string, []string) {
	what := "LOCK, CHANNEL OR GROUP"
	if m.width < 62 {
		what = "LOCK OR CHANNEL"
	}
	head := fmt.Sprintf(" %7s  %6s  %7s  %10s  %s", "WAITED", "WAITS", "LONGEST", "GOROUTINES", what)
	list := slices.DeleteFunc(slices.Clone(l.Locks), func(x locks.Lock) bool { return m.focus != nil && !m.matches(&x) })
	if m.view == 3 {
		switch m.sorts[m.view] {
		case 1:
			slices.SortStableFunc(list, func(a, b locks.Lock) int { return cmp.Compare(b.Waits, a.Waits) })
		case 2:
			slices.SortStableFunc(list, func(a, b locks.Lock) int { return cmp.Compare(b.Longest, a.Longest) })
		}
	}
	var lines []string
	for i := range list {
		if m.view == 3 && m.sorts[m.view] == 0 && i > 0 && list[i-1].IsLock() && !list[i].IsLock() {
			lines = append(lines, "", m.paint.bold(fmt.Sprintf("%*s%s", lockIndent+13, "", "CHANNEL OR GROUP"))) // they have an order of their own
		}
		lines = append(lines, m.lock(&list[i], l.Tick)...)
	}
	if len(list) == 0 {
		lines = m.none("wait for a lock or channel")
	}
	return m.paint.bold(head), lines
}

// lock returns the lines of a lock: where goroutines waited for it, and what those did that held
// it.
func (m *topModel) lock(x *locks.Lock, tick time.Duration) (lines []string) {
	const indent = lockIndent
	kind := x.Kind
	if x.Object > 0 {
		kind += fmt.Sprintf(" %d", x.Object)
	}
	room := max(minName, m.width-41-utf8.RuneCountInString(kind))
	lines = append(lines, fmt.Sprintf(" %7s  %6s  %7s  %10d  %s  %s", duration(x.Waited), waitCount(x, x.Waits), longestWait(x), x.Goroutines,
		m.paint.bold(shorten(x.Name, room)), m.paint.dim(kind)))
	line := func(number, what, state, function, file string, line int, colour func(string) string) {
		state = "[" + state + "] "
		room := m.width - indent - 6 - utf8.RuneCountInString(state)
		lines = append(lines, fmt.Sprintf("%-*s%-4s  %s%s", indent, number, what, colour(state), site(m.paint, function, fileLine(file, line), room)))
	}
	for i, s := range x.Sites[:min(len(x.Sites), mostSites)] {
		what := ""
		if i == 0 {
			what = "at"
		}
		line(fmt.Sprintf(" %7s  %6s", duration(s.Waited), waitCount(x, s.Waits)), what, s.Reason, s.Func, s.File, s.Line, m.paint.wait)
	}
	h := x.Holder
	if h == nil {
		return lines
	}
	has, role := "held", "holder"
	if h.Role == locks.RoleOtherSide {
		has, role = "side", "other side"
	}
	for i, l := range h.Lines {
		if i == mostSites || i > 0 && l.Time < h.Lines[0].Time/100 {
			break
		}
		what := ""
		if i == 0 {
			what = has
		}
		line(fmt.Sprintf(" %7s", duration(l.Time)), what, l.State, l.Func, l.File, l.Line, m.paint.busy)
	}
	known := fmt.Sprintf("%s %s seen, %s inferred, %s unknown", role, percent(h.Seen, x.Waited), percent(h.Inferred, x.Waited), percent(h.Unknown, x.Waited))
	if h.TooShort {
		known = fmt.Sprintf("most holds are too short for ticks of %s", duration(tick))
	}
	return append(lines, fmt.Sprintf("%*s%s", max(1, min(indent+6, m.width-len(known))), "", m.paint.dim(known)))
}

// matches reports whether a lock matches the filter.
func (m *topModel) matches(x *locks.Lock) bool {
	any := func(list ...string) bool { return slices.ContainsFunc(list, m.focus.MatchString) }
	if any(x.Name, x.Kind) {
		return true
	}
	for _, s := range x.Sites {
		if any(profile.FuncName(s.Func), s.File, s.Reason) {
			return true
		}
	}
	if x.Holder != nil {
		for _, h := range x.Holder.Lines {
			if any(profile.FuncName(h.Func), h.File) {
				return true
			}
		}
	}
	return false
}
