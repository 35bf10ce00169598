package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gotach/profiler/internal/analyze/report"
	"github.com/gotach/profiler/internal/profile"
)

// rows writes the table.
func (t *reportTable) rows() {
	// For goroutines and states self is the same as total, so there is one column.
	one := false
	switch t.o.By {
	case profile.ByGoroutine, profile.ByState, profile.ByGroup, profile.ByBlocked:
		one = true
	}
	byTotal := t.o.Sort == profile.SortTotal
	called := false
	most := time.Duration(0)
	for i := range t.r.Rows {
		row := &t.r.Rows[i]
		called = called || row.Called != nil
		wall, _ := t.ordered(row)
		most = max(most, wall)
	}
	legend, amount, ran := legend, "TIME", "CPU"
	if t.instant() {
		legend, amount, ran = "█ran ░wait", "COUNT", "RAN"
	}
	if !t.knowsCPU() {
		legend = ""
	}
	head := fmt.Sprintf("%7s %7s  %-*s  ", "SELF", "", barWidth, legend)
	if byTotal {
		head = fmt.Sprintf("%7s %7s  %-*s  ", "TOTAL", "", barWidth, legend)
	}
	switch {
	case t.heading() == blockedAt:
		head = fmt.Sprintf("%7s %7s  %-*s  ", amount, "OF WAIT", barWidth, legend)
	case one:
		head = fmt.Sprintf("%7s %7s  %-*s  ", amount, "", barWidth, legend)
	case byTotal:
		head += fmt.Sprintf("%7s %7s  ", "SELF", "")
	default:
		head += fmt.Sprintf("%7s %7s  ", "TOTAL", "")
	}
	if called {
		head += fmt.Sprintf("%8s  ", "CALLED")
	}
	if t.knowsCPU() {
		head += fmt.Sprintf("%7s  ", ran)
	}
	if t.spark {
		head += fmt.Sprintf("%-*s  ", sparkWidth, "WHEN")
	}
	room := t.width - utf8.RuneCountInString(head)
	t.line(t.paint.bold(head + t.heading()))
	for i := range t.r.Rows {
		row := &t.r.Rows[i]
		first, cpu := t.ordered(row)
		noCore := row.SelfNoCore
		if byTotal {
			noCore = row.TotalNoCore
		}
		second := row.Total
		if byTotal {
			second = row.Self
		}
		printf(&t.b, "%7s %7s  %s  ", t.amount(first), t.share(first), t.bar(first, cpu, noCore, most))
		if !one {
			printf(&t.b, "%7s %7s  ", t.amount(second), t.share(second))
		}
		if called {
			n := ""
			if row.Called != nil {
				n = fmt.Sprint(*row.Called)
			}
			printf(&t.b, "%8s  ", n)
		}
		if t.knowsCPU() {
			printf(&t.b, "%7s  ", t.amount(cpu))
		}
		if t.spark {
			line := sparkline(row.Series)
			if 2*cpu > first {
				line = t.paint.busy(line)
			} else {
				line = t.paint.wait(line)
			}
			printf(&t.b, "%s  ", line)
		}
		printf(&t.b, "%s\n", t.place(row, room))
	}
}

const blockedAt = "BLOCKED AT"

// heading is what a row is.
func (t *reportTable) heading() string {
	switch key, isLabel := strings.CutPrefix(t.group, report.ByLabel); {
	case isLabel:
		return "LABEL " + key
	case t.group == report.ByEntry:
		return "CREATED BY"
	case t.group == report.ByRan:
		return "HAD THE CORES MEANWHILE"
	case t.group != "":
		return strings.ToUpper(t.group)
	case t.o.By == profile.ByBlocked:
		return blockedAt
	}
	return strings.ToUpper(string(t.o.By))
}

// ordered returns the wall and CPU time of a row, self or total.
func (t *reportTable) ordered(row *profile.Row) (wall, cpu time.Duration) {
	if t.o.Sort == profile.SortTotal {
		return row.Total, row.TotalCPU
	}
	return row.Self, row.SelfCPU
}

// share returns d as a percentage of what is shown, in bold from 10 % on.
func (t *reportTable) share(d time.Duration) string {
	s := fmt.Sprintf("%7s", percent(d, t.r.Shown))
	if t.r.Shown > 0 && d >= t.r.Shown/10 {
		return t.paint.bold(s)
	}
	return s
}

// bar returns a bar for a time, relative to the longest time. The part on CPU comes first, then
// the part without a core.
func (t *reportTable) bar(wall, cpu, noCore, most time.Duration) string {
	if most <= 0 {
		return strings.Repeat(" ", barWidth)
	}
	cells := func(d time.Duration) int { return int(float64(d)/float64(most)*barWidth + 0.5) }
	all := cells(wall)
	on := min(cells(cpu), all)
	if !t.knowsCPU() {
		on = all
	}
	late := max(on, min(cells(cpu+noCore), all)) - on
	return t.paint.busy(strings.Repeat("█", on)) + t.paint.late(strings.Repeat("▒", late)) +
		t.paint.wait(strings.Repeat("░", all-on-late)) + strings.Repeat(" ", barWidth-all)
}

// place returns a row's name and place in the source in at most room columns. For rows by
// line the place comes first.
func (t *reportTable) place(row *profile.Row, room int) string {
	name, at := row.Name, ""
	if row.File != "" && t.o.By != profile.ByFile {
		at = baseName(row.File)
		if row.Line > 0 {
			at += fmt.Sprintf(":%d", row.Line)
		}
	}
	if row.FirstLine > 0 {
		lines := at + fmt.Sprintf(" (%d–%d)", row.FirstLine, row.LastLine)
		if utf8.RuneCountInString(name+lines)+2 <= room {
			at = lines
		}
	}
	if t.o.By != profile.ByLine {
		at = shortenPlace(at, name, room)
	}
	left := room - utf8.RuneCountInString(at) - 2
	switch {
	case at == "":
		name = shorten(name, room)
		if row.File == "" && strings.HasPrefix(name, "[") {
			return t.paint.wait(name)
		}
		return name
	case t.o.By == profile.ByLine && left < minName/2:
		return shorten(at, room)
	case t.o.By == profile.ByLine:
		return at + "  " + t.paint.dim(shorten(name, left))
	case left < min(minName, least(name)):
		return shorten(name, room)
	}
	return shorten(name, left) + "  " + t.paint.dim(at)
}

// instant reports whether the profile is that of one instant: its amounts are numbers of goroutines.
func (t *reportTable) instant() bool {
	return t.p.Metadata != nil && t.p.Metadata.Session != nil && t.p.Metadata.Session.Instant
}

func (t *reportTable) amount(d time.Duration) string { return unitless(d, t.r.Unitless) }

// unitless returns a time as text, or a plain number if it has no unit.
func unitless(d time.Duration, is bool) string {
	if !is {
		return duration(d)
	}
	n := d / time.Microsecond
	if n < 100_000 {
		return strconv.FormatInt(int64(n), 10)
	}
	f, unit := float64(n)/1e3, 0
	for ; f >= 999.5 && unit < len(powers)-1; unit++ {
		f /= 1e3
	}
	return digits(f) + powers[unit:unit+1]
}
