package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/analyze/findings"
	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
)

// blockedAt prints where goroutines were blocked. Those that waited at one place in the whole
// session come last, as far as there is room: they have nothing to do, or hang.
func (s *screen) blockedAt() {
	if len(s.blocked.Rows) == 0 && (len(s.resting.Rows) == 0 || s.most.resting == 0) || s.most.blocked == 0 {
		return
	}
	s.title("OF WAIT", blockedAt)
	n, left := s.rows(s.blocked, s.most.blocked, true)
	s.others(left, s.blocked.Shown, len(s.blocked.Rows)-n, "--blocked")
	if len(s.resting.Rows) == 0 || s.most.resting == 0 {
		return
	}
	s.line(s.paint.dim(fmt.Sprintf("%7s %7s  %-*s  at one place from begin to end:", "", "", sparkWidth, "")))
	n, left = s.rows(s.resting, min(s.most.resting, max(1, s.most.blocked-n)), false)
	s.others(left, 0, len(s.resting.Rows)-n, "--blocked --idle")
}

// section prints the first rows of a report.
func (s *screen) section(of, title string, r *profile.Report, most int, flag string) {
	if len(r.Rows) == 0 || r.Shown == 0 || most == 0 {
		return
	}
	s.title(of, title)
	n, left := s.rows(r, most, true)
	s.others(left, r.Shown, len(r.Rows)-n, flag)
}

// title prints the head of a section; of says what a row's share is a part of.
func (s *screen) title(of, title string) {
	s.line("")
	s.line(s.paint.bold(fmt.Sprintf("%7s %7s  %-*s  %s", "TIME", of, sparkWidth, "WHEN", title)))
}

// rows prints the first rows of a report. It returns how many, and the time of the others.
func (s *screen) rows(r *profile.Report, most int, shares bool) (n int, left time.Duration) {
	room := s.width - 30
	t := *s.reportTable
	t.r, t.o.By = r, profile.ByFunction
	for i := range r.Rows {
		left += r.Rows[i].Self
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		// A row that has nearly all of the time, such as that of leaked goroutines, does not hide
		// what the others have.
		if i == most || row.Self < r.Shown/200 && row.Self < max(left/10, r.Duration/500) {
			break
		}
		n++
		left -= row.Self
		colour := s.paint.wait
		if row.SelfCPU > 0 {
			colour = s.paint.busy
		}
		share := fmt.Sprintf("%7s", "")
		if shares {
			share = t.share(row.Self)
		}
		printf(&s.b, "%7s %s  %s  %s\n", duration(row.Self), share, colour(sparkline(row.Series)), t.place(row, room))
	}
	return n, left
}

// others prints the time of the rows that are not printed, and its share of all. If all is 0 it
// prints no share.
func (s *screen) others(left, all time.Duration, rows int, flag string) {
	if left <= 0 {
		return
	}
	share := ""
	if all > 0 {
		share = percent(left, all)
	}
	s.line(s.paint.dim(fmt.Sprintf("%7s %7s  %-*s  in %s; %s shows all", duration(left), share, sparkWidth, "", plural(int64(rows), "more row"), flag)))
}

// contended prints, if no finding is of a lock, the locks for which goroutines waited the most, and
// what held them.
func (s *screen) contended() {
	if s.told(findings.Lock) {
		return
	}
	n := 0
	list := s.locks.Group().Locks
	slices.SortStableFunc(list, func(a, b locks.Lock) int { return cmp.Compare(b.Waited, a.Waited) })
	for i := range list {
		x := &list[i]
		if !x.LikeLock() || x.Waited < s.r.Duration/1000 || n == s.most.locks {
			continue
		}
		if n++; n == 1 {
			s.line("")
			s.line(s.paint.bold(fmt.Sprintf("%7s %7s  %-*s  %s", "WAITED", "WAITS", sparkWidth, "LONGEST", "LOCK")))
		}
		room := s.width - 30
		kind := x.Kind
		if x.Objects > 0 {
			kind += fmt.Sprintf(", %d objects", x.Objects)
		}
		printf(&s.b, "%7s %7s  %*s  %s  %s\n", duration(x.Waited), waitCount(x, x.Waits), sparkWidth, longestWait(x),
			shorten(x.Name, max(minName, room-len(kind)-2)), s.paint.dim(kind))
		h := x.Holder
		if h == nil || len(h.Lines) == 0 {
			continue
		}
		l := &h.Lines[0]
		how := fmt.Sprintf("%s held in [%s] ", percent(l.Time, x.Waited), l.State)
		printf(&s.b, "%*s%s%s\n", s.indent(), "", s.paint.busy(how), site(s.paint, l.Func, fileLine(l.File, l.Line), s.width-s.indent()-len(how)))
		if h.TooShort {
			printf(&s.b, "%*sholds are too short to tell one from the next\n", s.indent(), "")
		}
	}
}

// indent is the number of columns before a line that belongs to the one above. It is small on a
// narrow terminal.
func (s *screen) indent() int {
	if s.width < 100 {
		return 10
	}
	return 30
}

// slow prints how long requests took, and what the slow ones did more.
func (s *screen) slow() {
	r := s.requests
	if r == nil || r.Count < fewRequests {
		return
	}
	s.line("")
	s.line(s.paint.bold(fmt.Sprintf("%7s %7s  %*s  %s", "P50", "P90", sparkWidth, "P99", "REQUESTS")))
	p, count := percentiles(r), shortCount(r.Number)
	printf(&s.b, "%7s %7s  %*s  %s %s\n", p[0], p[1], sparkWidth, p[2], count, shorten(r.What, max(minName, s.width-31-len(count))))
	if r.Oldest > 0 { // the percentiles are not of these
		printf(&s.b, "%*s%s\n", s.indent(), "", s.paint.busy(unfinished(r)))
	}
	for i, d := range r.Difference {
		if i == s.most.requests || d.Time <= 0 || d.Time < r.Difference[0].Time/4 {
			break
		}
		how := fmt.Sprintf("%s in the slowest 1 %%: [%s] ", more(d.Time), d.State)
		if d.Peer != "" {
			how += "on " + stream.PeerText(d.Peer) + " "
		}
		at := ""
		if d.Line > 0 {
			at = fileLine(d.File, int(d.Line))
		}
		printf(&s.b, "%*s%s%s\n", s.indent(), "", s.paint.busy(how), site(s.paint, d.Name, at, s.width-s.indent()-len(how)))
		if text := ranInstead(&d); text != "" {
			printf(&s.b, "%*s%s\n", s.indent(), "", s.paint.dim(cut(text, s.width-s.indent())))
		}
	}
}

// growing prints the groups of goroutines that grow, if no finding says so.
func (s *screen) growing() {
	if s.told(findings.Leak) {
		return
	}
	// Suspects are first. If there are any, the others hardly matter.
	n := 0
	for n < min(s.most.leaks, len(s.leaks.Groups)) && s.leaks.Groups[n].Suspect == s.leaks.Groups[0].Suspect {
		n++
	}
	if n == 0 {
		return
	}
	s.line("")
	s.line(s.paint.bold(fmt.Sprintf("%7s %7s  %-*s  %s", "START", "END", sparkWidth, "WHEN", "GOROUTINES THAT GROW IN NUMBER, WHICH WAIT AT")))
	for i := range n {
		g := &s.leaks.Groups[i]
		spark, note := s.paint.wait(sparkline(g.Alive)), ""
		if g.Suspect {
			spark, note = s.paint.busy(sparkline(g.Alive)), "LEAK? "
		}
		if g.Proven > 0 { // by the runtime
			spark, note = s.paint.busy(sparkline(g.Alive)), "LEAK "
		}
		text := site(s.paint, g.Function, fileLine(g.File, g.Line), s.width-30-len(note)-len(g.Reason)-3)
		printf(&s.b, "%7d %7d  %s  %s%s %s\n", g.Start, g.End, spark, s.paint.busy(note), s.paint.wait("["+g.Reason+"]"), text)
	}
}
