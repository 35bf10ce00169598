package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/profile"
)

// A screen is what report prints of a session if nothing else is asked for: one screen that says what is worth
// a look, and what to type next.
type screen struct {
	*reportTable
	files   string // as they were typed
	leaks   *analyze.Leaks
	locks   *analyze.Locks
	blocked *profile.Report
	resting *profile.Report // what is not in blocked: goroutines that waited at one place in the whole session
	cpu     *profile.Report
	survey  *analyze.Survey
	// requests are nil if nothing in the profile is known to be a request.
	requests *analyze.Requests
	most     screenRows
}

// screenRows are the numbers of rows of a screen, at most.
type screenRows struct{ blocked, cpu, locks, leaks, requests int }

var mostScreenRows = screenRows{blocked: 7, cpu: 5, locks: 3, leaks: 3, requests: 2}

const (
	statesWidth = 40 // columns of a state over time
	// What the screen says has at most so many lines if that is possible. What to type next comes after that.
	screenLines = 40
	// leastResting is for how many rows of resting goroutines there is room.
	leastResting = 2
	// fewRequests is the number of requests below which slow ones say little.
	fewRequests = 20
)

// fewer returns the rows of a screen with one row less, in the section that has the most to spare. It returns false if
// none has.
func (r screenRows) fewer() (screenRows, bool) {
	switch {
	case r.blocked > 4 && r.blocked > r.cpu:
		r.blocked--
	case r.cpu > 3:
		r.cpu--
	case r.requests > 1:
		r.requests--
	case r.locks > 2:
		r.locks--
	case r.leaks > 2:
		r.leaks--
	default:
		return r, false
	}
	return r, true
}

// newScreen analyzes a profile.
func (e *env) newScreen(in *formats.Input, paths []string, ao analyze.ReportOptions) (*screen, error) {
	ao.Series = true
	so := ao.Stream()
	so.Unselected = true
	src, err := in.Source(so)
	if err != nil {
		return nil, err
	}
	s := &screen{files: strings.Join(paths, " ")}
	if len(s.files) > 40 && len(paths) > 1 {
		s.files = paths[0] + " …"
	}
	survey, err := analyze.NewSurvey(src, ao)
	if err != nil {
		return nil, err
	}
	// Who held locks may take another reading, and what requests do takes two.
	var readings sync.WaitGroup
	var failed error
	readings.Go(func() {
		if s.locks, failed = survey.Locks(); failed == nil {
			s.requests, failed = survey.FindRequests()
		}
	})
	err = s.reports(e, in, survey, ao)
	readings.Wait()
	return s, cmp.Or(err, failed)
}

// reports makes the tables of a screen.
func (s *screen) reports(e *env, in *formats.Input, survey *analyze.Survey, ao analyze.ReportOptions) error {
	p := survey.Profile
	s.leaks, s.survey = survey.Leaks, survey
	ro := profile.ReportOptions{By: profile.ByState, Sort: profile.SortSelf}
	states, err := profile.New(p, ro)
	if err != nil {
		return err
	}
	s.reportTable = e.newTable(in, states, ro, ao)
	if err := s.blocks(p); err != nil {
		return err
	}
	s.cpu, err = profile.New(p.Sums("", true), profile.ReportOptions{By: profile.ByFunction})
	return err
}

// blocks makes the tables of where goroutines were blocked. Percentages refer to both together.
func (s *screen) blocks(p *profile.Profile) (err error) {
	moving, resting := *p, *p
	moving.Records, resting.Records = nil, nil
	for i := range p.Records {
		to := &moving
		if s.survey.Rests(&p.Records[i]) {
			to = &resting
		}
		to.Records = append(to.Records, p.Records[i])
	}
	o := profile.ReportOptions{By: profile.ByBlocked}
	if s.blocked, err = profile.New(&moving, o); err != nil {
		return err
	}
	if s.resting, err = profile.New(&resting, o); err != nil {
		return err
	}
	all := s.blocked.Shown + s.resting.Shown
	s.blocked.Shown, s.resting.Shown = all, all
	return nil
}

// render returns the screen:
//
//	app.tach: app, 30.0s from 2026-11-21 07:20:45, 41980 samples of 14 goroutines
//	…
//	            OVER TIME                                 ON AVERAGE
//	on CPU      ▁▂▃▄▅▆▇█▇▆▅▄▃▂▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁  1.02 goroutines
//
//	BLOCKED AT
//	 12.5s  31.2 %  ▁▂▃▄▅▆▇█▁▁  [sync.Mutex.Lock] main.(*Cache).Get  cache.go:41
func (s *screen) render() []byte {
	s.header()
	if len(s.r.Rows) == 0 && s.r.Idle == 0 {
		s.b.WriteByte('\n')
		s.empty()
		return s.b.Bytes()
	}
	s.states()
	head := s.b.Len()
	s.most = mostScreenRows
	for left := true; left; {
		s.b.Truncate(head)
		s.blockedAt()
		s.section("ON CPU IN", s.cpu, s.most.cpu, "--weight cpu")
		s.contended()
		s.growing()
		s.slow()
		if bytes.Count(s.b.Bytes(), []byte("\n")) <= screenLines {
			break
		}
		s.most, left = s.most.fewer()
	}
	s.next()
	return s.b.Bytes()
}

// A stateLine is a kind of state over time.
type stateLine struct {
	name   string
	paint  func(paint, string) string
	states []string // none: all others
}

var stateLines = []stateLine{
	{"on CPU", paint.busy, []string{profile.Running, profile.SyscallOnCPU, profile.OnCPUInC}},
	{"no core", paint.late, []string{profile.NoCore}},
	{"runnable", paint.late, []string{profile.Runnable}},
	{"in syscalls", paint.wait, []string{profile.Syscall, profile.InC}},
	{"blocked", paint.wait, nil},
	{"not recorded", paint.dim, []string{"not recorded"}}, // a file is missing
	{"not seen", paint.dim, []string{profile.NotSeen}},
}

// states prints how many goroutines were in each kind of state over time.
func (s *screen) states() {
	fmt.Fprintf(&s.b, "\n%s\n", s.paint.bold(fmt.Sprintf("%-14s%-*s  %8s %8s", "", statesWidth, "GOROUTINES OVER TIME", "AVERAGE", "MOST")))
	for _, a := range stateAmounts(s.r) {
		s.stateLine(a.name, a.all, a.series, a.paint)
	}
}

// A stateAmount is the time of a kind of state.
type stateAmount struct {
	stateLine
	all    time.Duration
	series []float32
}

// stateAmounts returns the times of all kinds of states, idle last, given a report by state.
func stateAmounts(r *profile.Report) (list []stateAmount) {
	known := map[string]bool{}
	for _, l := range stateLines {
		for _, name := range l.states {
			known[name] = true
		}
	}
	p := r.Profile
	for _, l := range stateLines {
		a := stateAmount{stateLine: l}
		for i := range r.Rows {
			row := &r.Rows[i]
			if slices.Contains(l.states, row.Name) || l.states == nil && !known[row.Name] {
				a.series = profile.Plus(a.series, row.Series)
				a.all += row.Self
			}
		}
		if l.states == nil && p.HasIdle {
			a.all -= r.Idle
			for i := range p.IdleSeries {
				a.series[i] -= p.IdleSeries[i]
			}
		}
		list = append(list, a)
	}
	return append(list, stateAmount{stateLine{"idle", paint.dim, nil}, r.Idle, p.IdleSeries})
}

func (s *screen) stateLine(name string, all time.Duration, series []float32, colour func(paint, string) string) {
	if all <= 0 || s.r.Duration <= 0 {
		return
	}
	average := float64(all) / float64(s.r.Duration)
	if average < 0.005 {
		return
	}
	if len(series) == 0 { // nobody knows when
		fmt.Fprintf(&s.b, "%-14s%*s  %s\n", name, statesWidth, "", number(average))
		return
	}
	most := float64(slices.Max(series)) / float64(s.r.Duration) * float64(len(series))
	fmt.Fprintf(&s.b, "%-14s%s  %s %s\n", name, colour(s.paint, sparks(series, statesWidth)), number(average), number(max(most, average)))
}

// number returns a number of goroutines in 8 columns.
func number(f float64) string {
	if f < 999.5 {
		return fmt.Sprintf("%8s", digits(f))
	}
	return fmt.Sprintf("%8.0f", f)
}

// blockedAt prints where goroutines were blocked. Those that waited at one place in the whole session come last: most of them
// have nothing to do.
func (s *screen) blockedAt() {
	rest := len(s.resting.Rows)
	if len(s.blocked.Rows) == 0 || rest == 0 {
		all := s.blocked
		if rest > 0 {
			all = s.resting
		}
		s.section("BLOCKED AT", all, s.most.blocked, "--blocked")
		return
	}
	s.title("BLOCKED AT")
	n, left := s.rows(s.blocked, s.most.blocked-min(rest, leastResting))
	s.line(s.paint.dim(fmt.Sprintf("%7s %7s  %-*s  at one place from begin to end:", "", "", sparkWidth, "")))
	m, more := s.rows(s.resting, s.most.blocked-n)
	s.others(left+more, s.blocked.Shown, len(s.blocked.Rows)-n+rest-m, "--blocked")
}

// section prints the first rows of a report.
func (s *screen) section(title string, r *profile.Report, most int, flag string) {
	if len(r.Rows) == 0 || r.Shown == 0 {
		return
	}
	s.title(title)
	n, left := s.rows(r, most)
	s.others(left, r.Shown, len(r.Rows)-n, flag)
}

func (s *screen) title(title string) {
	s.line("")
	s.line(s.paint.bold(fmt.Sprintf("%7s %7s  %-*s  %s", "TIME", "", sparkWidth, "WHEN", title)))
}

// rows prints the first rows of a report. It returns how many, and the time of the others.
func (s *screen) rows(r *profile.Report, most int) (n int, left time.Duration) {
	room := s.width - 30
	t := *s.reportTable
	t.r, t.o.By = r, profile.ByFunction
	for i := range r.Rows {
		left += r.Rows[i].Self
	}
	least := left / 200
	for i := range r.Rows {
		row := &r.Rows[i]
		// A row that has nearly all of the time, such as that of leaked goroutines, does not hide what the others have.
		if i == most || row.Self < least && row.Self < max(left/10, r.Duration/500) {
			break
		}
		n++
		left -= row.Self
		colour := s.paint.wait
		if row.SelfCPU > 0 {
			colour = s.paint.busy
		}
		fmt.Fprintf(&s.b, "%7s %s  %s  %s\n", duration(row.Self), t.share(row.Self), colour(sparkline(row.Series)), t.place(row, room))
	}
	return n, left
}

// others prints the time of the rows that are not printed.
func (s *screen) others(left, all time.Duration, rows int, flag string) {
	if left > 0 {
		s.line(s.paint.dim(fmt.Sprintf("%7s %7s  %-*s  in %s; %s shows all", duration(left), percent(left, all), sparkWidth, "", plural(int64(rows), "more row"), flag)))
	}
}

// contended prints the locks for which goroutines waited the most, and what held them.
func (s *screen) contended() {
	n := 0
	list := s.locks.Group().Locks
	slices.SortStableFunc(list, func(a, b analyze.Lock) int { return cmp.Compare(b.Waited, a.Waited) })
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
		kind := printable(x.Kind)
		if x.Objects > 0 {
			kind += fmt.Sprintf(", %d objects", x.Objects)
		}
		fmt.Fprintf(&s.b, "%7s %7d  %*s  %s  %s\n", duration(x.Waited), x.Waits, sparkWidth, duration(x.Longest),
			shorten(printable(x.Name), max(minName, room-len(kind)-2)), s.paint.dim(kind))
		h := x.Holder
		if h == nil || len(h.Lines) == 0 {
			continue
		}
		l := &h.Lines[0]
		how := fmt.Sprintf("%s held in [%s] ", strings.TrimSpace(percent(l.Time, x.Waited)), printable(l.State))
		fmt.Fprintf(&s.b, "%*s%s%s\n", s.indent(), "", s.paint.busy(how), site(s.paint, l.Func, fmt.Sprintf("%s:%d", baseName(l.File), l.Line), s.width-s.indent()-len(how)))
		if h.TooShort {
			fmt.Fprintf(&s.b, "%*sholds are too short to tell one from the next\n", s.indent(), "")
		}
	}
}

// indent is the number of columns before a line that belongs to the one above. It is small on a narrow terminal.
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
	p50, p90, p99 := percentiles(r)
	fmt.Fprintf(&s.b, "%7s %7s  %*s  %d %s\n", p50, p90, sparkWidth, p99, r.Count, shorten(printable(r.What), max(minName, s.width-40)))
	for i, d := range r.Difference {
		if i == s.most.requests || d.Time <= 0 || d.Time < r.Difference[0].Time/4 {
			break
		}
		how := fmt.Sprintf("%s in the slowest 1 %%: [%s] ", more(d.Time), printable(d.State))
		at := ""
		if d.Line > 0 {
			at = fmt.Sprintf("%s:%d", baseName(d.File), d.Line)
		}
		fmt.Fprintf(&s.b, "%*s%s%s\n", s.indent(), "", s.paint.busy(how), site(s.paint, d.Name, at, s.width-s.indent()-len(how)))
	}
}

// growing prints the groups of goroutines that grow.
func (s *screen) growing() {
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
		text := site(s.paint, g.Function, fmt.Sprintf("%s:%d", baseName(g.File), g.Line), s.width-30-len(note)-len(g.Reason)-3)
		fmt.Fprintf(&s.b, "%7d %7d  %s  %s%s %s\n", g.Start, g.End, spark, s.paint.busy(note), s.paint.wait(printable("["+g.Reason+"]")), text)
	}
}

// next prints what to type next.
func (s *screen) next() {
	type hint struct{ command, what string }
	hints := []hint{{"report %s --by function", "every function and wait"}}
	if len(s.cpu.Rows) > 0 {
		hints = append(hints, hint{"report %s --weight latency", "what to make faster, to be done sooner"})
	}
	switch {
	case slices.ContainsFunc(s.locks.Locks, func(x analyze.Lock) bool { return x.LikeLock() && x.Waited > s.r.Duration/1000 }):
		hints = append(hints, hint{"locks %s", "locks, and who held them"})
	case slices.ContainsFunc(s.locks.Locks, func(x analyze.Lock) bool {
		return x.Sites[0].Reason == "chan send" && x.Waited > s.r.Duration/20
	}):
		hints = append(hints, hint{"locks %s", "channels, and who was on the other side"})
	}
	if len(s.leaks.Groups) > 0 {
		hints = append(hints, hint{"leaks %s", "goroutines that grow in number"})
	}
	switch f := s.survey.RequestFunc; {
	case s.survey.Requests:
		hints = append(hints, hint{"requests %s", "how long requests take, and why"})
	case f != "":
		hints = append(hints, hint{"requests %s --func " + funcFlag(f), "how long its calls take, and why"})
	}
	hints = append(hints, hint{"view %s", "look at all of it in a browser"})
	hints = append(hints, hint{"convert %s -o app.pb.gz", "for go tool pprof"})
	width := 0
	for i := range hints {
		hints[i].command = "gotach " + strings.Replace(hints[i].command, "%s", printable(s.files), 1)
		width = max(width, len(hints[i].command))
	}
	var b bytes.Buffer
	for _, h := range hints {
		if width+len(h.what)+6 > s.width {
			fmt.Fprintf(&b, "  %s\n", h.command)
			continue
		}
		fmt.Fprintf(&b, "  %-*s  %s\n", width, h.command, s.paint.dim("# "+h.what))
	}
	fmt.Fprintf(&s.b, "\n%s\n%s", s.paint.bold("WHAT TO TYPE NEXT"), b.Bytes())
}
