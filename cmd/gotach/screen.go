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
	"github.com/gotach/profiler/internal/source"
)

// A screen is what report prints of a session if nothing else is asked for: one screen that says what is worth
// a look, and what to type next.
type screen struct {
	*reportTable
	files   string // as they can be typed
	leaks   *analyze.Leaks
	locks   *analyze.Locks
	blocked *profile.Report
	resting *profile.Report // the same of goroutines that waited at one place in the whole session, which blocked does not have
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
	words := make([]string, len(paths))
	for i, path := range paths {
		words[i] = quoted(path)
	}
	s := &screen{files: strings.Join(words, " ")}
	if len(s.files) > 40 && len(paths) > 1 {
		s.files = words[0] + " …"
	}
	survey, err := analyze.NewSurvey(src, ao, source.Usual().Read)
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

// blocks makes the tables of where goroutines were blocked, and where they rested.
func (s *screen) blocks(p *profile.Profile) (err error) {
	moving, resting := *p, *p
	moving.Records, resting.Records = nil, s.survey.Resting
	for i := range p.Records {
		if !s.survey.Rests(&p.Records[i]) {
			moving.Records = append(moving.Records, p.Records[i])
		}
	}
	o := profile.ReportOptions{By: profile.ByBlocked}
	if s.blocked, err = profile.New(&moving, o); err != nil {
		return err
	}
	s.resting, err = profile.New(&resting, o)
	return err
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
	printf(&s.b, "\n%s\n", s.paint.bold(fmt.Sprintf("%-14s%-*s  %8s %8s", "", statesWidth, "GOROUTINES OVER TIME", "AVERAGE", "MOST")))
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
		printf(&s.b, "%-14s%*s  %s\n", name, statesWidth, "", number(average))
		return
	}
	most := float64(slices.Max(series)) / float64(s.r.Duration) * float64(len(series))
	printf(&s.b, "%-14s%s  %s %s\n", name, colour(s.paint, sparks(series, statesWidth)), number(average), number(max(most, average)))
}

// number returns a number of goroutines in 8 columns.
func number(f float64) string {
	if f < 999.5 {
		return fmt.Sprintf("%8s", digits(f))
	}
	return fmt.Sprintf("%8.0f", f)
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
		hints[i].command = "gotach " + strings.Replace(hints[i].command, "%s", s.files, 1)
		width = max(width, len(hints[i].command))
	}
	var b bytes.Buffer
	for _, h := range hints {
		if width+len(h.what)+6 > s.width {
			printf(&b, "  %s\n", h.command)
			continue
		}
		printf(&b, "  %-*s  %s\n", width, h.command, s.paint.dim("# "+h.what))
	}
	printf(&s.b, "\n%s\n%s", s.paint.bold("WHAT TO TYPE NEXT"), b.Bytes())
}
