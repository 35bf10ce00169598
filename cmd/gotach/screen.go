package main

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gotach/profiler/internal/analyze/findings"
	"github.com/gotach/profiler/internal/analyze/leaks"
	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/analyze/report"
	"github.com/gotach/profiler/internal/analyze/requests"
	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
)

// A screen is what report prints of a session if nothing else is asked for: one screen that says
// what is worth a look, and what to type next.
type screen struct {
	*reportTable
	files   string // as they can be typed
	leaks   *leaks.Leaks
	locks   *locks.Locks
	blocked *profile.Report
	resting *profile.Report // the same of goroutines that waited at one place in the whole session, which blocked does not have
	cpu     *profile.Report
	survey  *report.Survey
	// requests are nil if nothing in the profile is known to be a request.
	requests *requests.Requests
	// found are the findings, nil if they are not asked for.
	found []findings.Finding
	most  screenRows
	quiet bool // nothing is wrong
}

// screenRows are the numbers of rows of a screen, at most. Hints is the number of commands.
type screenRows struct{ found, blocked, resting, cpu, locks, leaks, requests, hints int }

var mostScreenRows = screenRows{found: 5, blocked: 7, resting: 3, cpu: 5, locks: 3, leaks: 3, requests: 2, hints: 6}

const (
	statesWidth = 40 // columns of a state over time
	// screenLines is the number of lines of a screen, if that is possible; quietLines that of a
	// program in which nothing is wrong.
	screenLines = 40
	quietLines  = 24
	// fewRequests is the number of requests below which slow ones say little.
	fewRequests = 20
)

// fewer returns the rows of a screen with one row less, in the section that has the most to spare.
// It returns false if none has.
func (r screenRows) fewer() (screenRows, bool) {
	for _, x := range []struct {
		rows  *int
		least int
	}{
		{&r.hints, 5}, {&r.resting, 1}, {&r.blocked, 4}, {&r.cpu, 3}, {&r.requests, 1}, {&r.locks, 1}, {&r.leaks, 1}, // nothing is gone
		{&r.locks, 0}, {&r.leaks, 0}, {&r.hints, 3}, {&r.blocked, 2}, {&r.cpu, 1},
		{&r.found, 3}, {&r.blocked, 1}, {&r.hints, 2}, {&r.cpu, 0}, {&r.resting, 0}, {&r.requests, 0}, {&r.blocked, 0},
	} {
		if *x.rows > x.least {
			*x.rows--
			return r, true
		}
	}
	return r, false
}

// newScreen analyzes a profile. whole says that it is asked for all of it, so that it has findings.
func (e *env) newScreen(in *formats.Input, paths []string, ao report.Options, whole bool) (*screen, error) {
	ao.Series = true
	s := &screen{files: typed(paths)}
	survey, err := report.OpenSurvey(in.Source, ao, source.Usual().Read)
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
	if err = cmp.Or(err, failed); err == nil && whole {
		s.found, err = findings.Of(findings.Input{Survey: survey, Locks: s.locks, Requests: s.requests, Files: s.files, Fast: true})
	}
	return s, err
}

// reports makes the tables of a screen.
func (s *screen) reports(e *env, in *formats.Input, survey *report.Survey, ao report.Options) error {
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
	s.cpu, err = profile.New(p.OnlyCPU(), profile.ReportOptions{By: profile.ByFunction})
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

// render returns the screen. What is said of the program comes first, of the recording last:
//
//	app.tach: app, 30.0s from 2026-11-21 07:20:45, 41980 samples of 14 goroutines
//	…
//	1. lock, 49 %: Requests wait for the lock c.mu …
//
//	            OVER TIME                                 ON AVERAGE
//	on CPU      ▁▂▃▄▅▆▇█▇▆▅▄▃▂▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁  1.02 goroutines
//
//	BLOCKED AT
//	 12.5s  31.2 %  ▁▂▃▄▅▆▇█▁▁  [sync.Mutex.Lock] main.(*Cache).Get  cache.go:41
func (s *screen) render() []byte {
	s.sourceLast = true
	s.header()
	if len(s.r.Rows) == 0 && s.r.Idle == 0 {
		s.b.WriteByte('\n')
		s.empty()
		return s.b.Bytes()
	}
	head := s.b.Len()
	s.most = mostScreenRows
	limit := screenLines
	if s.quiet = s.found != nil && findings.Problems(s.found) == 0; s.quiet {
		limit = quietLines
	}
	for left := true; left; {
		s.b.Truncate(head)
		s.findings()
		s.states()
		s.blockedAt()
		s.section("OF CPU", "ON CPU IN", s.cpu, s.most.cpu, "--weight cpu")
		s.contended()
		s.growing()
		s.slow()
		s.recording()
		s.next()
		if bytes.Count(s.b.Bytes(), []byte("\n")) <= limit {
			break
		}
		s.most, left = s.most.fewer()
	}
	return s.b.Bytes()
}

// findings prints what is wrong, in sentences.
func (s *screen) findings() {
	if s.found == nil {
		return
	}
	s.line("")
	if s.quiet {
		s.line(s.paint.bold(nothingWrong))
	}
	for i := range s.found {
		x := &s.found[i]
		if i == s.most.found {
			s.line(s.paint.dim(fmt.Sprintf("… and %d more: gotach why %s", len(s.found)-i, s.files)))
			break
		}
		for _, l := range findingLines(findingHead(i+1, x, false), x, s.paint, min(s.width, whyWidth)) {
			s.line(l)
		}
	}
}

// told reports whether a finding has one of the kinds.
func (s *screen) told(kinds ...string) bool {
	return slices.ContainsFunc(s.found, func(x findings.Finding) bool { return slices.Contains(kinds, x.Kind) })
}

// recording prints how the session sampled.
func (s *screen) recording() {
	if m := s.p.Metadata; m != nil && m.Session != nil && m.Session.Source != "" {
		if !s.quiet {
			s.line("")
		}
		s.source()
	}
}

// A stateLine is a kind of state over time.
type stateLine struct {
	name  string
	paint func(paint, string) string
}

var stateLines = []stateLine{
	{"on CPU", paint.busy},
	{profile.NoCore, paint.late},
	{profile.Runnable, paint.late},
	{"in syscalls", paint.wait},
	{stream.Blocked, paint.wait},
	{"not recorded", paint.dim}, // a file is missing
	{profile.NotSeen, paint.dim},
}

// states prints how many goroutines were in each kind of state over time.
func (s *screen) states() {
	printf(&s.b, "\n%s\n", s.paint.bold(fmt.Sprintf("%-14s%-*s  %8s %8s", "", statesWidth, "GOROUTINES OVER TIME UP TO THE MOST", "AVERAGE", "MOST")))
	for _, a := range stateAmounts(s.r) {
		s.stateLine(&a)
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
	p := r.Profile
	for _, l := range stateLines {
		a := stateAmount{stateLine: l}
		for i := range r.Rows {
			row := &r.Rows[i]
			if stream.HasState([]string{l.name}, row.Name) {
				a.series = profile.Plus(a.series, row.Series)
				a.all += row.Self
			}
		}
		if l.name == stream.Blocked && p.HasIdle {
			a.all -= r.Idle
			for i := range p.IdleSeries {
				a.series[i] -= p.IdleSeries[i]
			}
		}
		list = append(list, a)
	}
	if !p.HasApart {
		a := stateAmount{stateLine: stateLine{"set apart", paint.dim}}
		for i := range p.Apart {
			a.all += p.Apart[i].Wall
			a.series = profile.Plus(a.series, p.Apart[i].Series)
		}
		list = append(list, a)
	}
	return append(list, stateAmount{stateLine{"idle", paint.dim}, r.Idle, p.IdleSeries})
}

// numbers returns how many goroutines were in these states in a time, on average and at most.
func (a *stateAmount) numbers(in time.Duration) (average, most float64) {
	average = float64(a.all) / float64(in)
	if len(a.series) == 0 { // nobody knows when
		return average, average
	}
	return average, max(average, float64(slices.Max(a.series))/float64(in)*float64(len(a.series)))
}

func (s *screen) stateLine(a *stateAmount) {
	if a.all <= 0 || s.r.Duration <= 0 {
		return
	}
	average, most := a.numbers(s.r.Duration)
	if average < 0.005 || s.quiet && average < 0.05 {
		return
	}
	if len(a.series) == 0 {
		printf(&s.b, "%-14s%*s  %s\n", a.name, statesWidth, "", number(average))
		return
	}
	printf(&s.b, "%-14s%s  %s %s\n", a.name, a.paint(s.paint, sparks(a.series, statesWidth)), number(average), number(most))
}

// number returns a number of goroutines in 8 columns.
func number(f float64) string {
	if f < 999.5 {
		return fmt.Sprintf("%8s", digits(f))
	}
	return fmt.Sprintf("%8.0f", f)
}

// A hint is a command, and what it shows.
type hint struct{ command, what string }

// hints returns what to type next: first what shows more of the findings.
func (s *screen) hints() (list []hint) {
	if len(s.found) > 0 {
		list = append(list, hint{"gotach why " + s.files, "all findings, with evidence"})
	}
	for i := range s.found[:min(len(s.found), s.most.found)] {
		if command := s.found[i].Command; !slices.ContainsFunc(list, func(h hint) bool { return h.command == command }) {
			list = append(list, hint{command, "more of: " + s.found[i].Kind})
		}
	}
	add := func(command, what string) {
		command = "gotach " + strings.Replace(command, "%s", s.files, 1)
		if !slices.ContainsFunc(list, func(h hint) bool { return h.command == command }) {
			list = append(list, hint{command, what})
		}
	}
	switch f := s.survey.RequestFunc; {
	case s.survey.Requests:
		add("requests %s", "how long requests take, and why")
	case f != "":
		add("requests %s --func "+quoted(regexp.QuoteMeta(f)+"$"), "how long its calls take, and why")
	}
	switch {
	case slices.ContainsFunc(s.locks.Locks, func(x locks.Lock) bool { return x.LikeLock() && x.Waited > s.r.Duration/1000 }):
		add("locks %s", "locks, and who held them")
	case slices.ContainsFunc(s.locks.Locks, func(x locks.Lock) bool {
		return x.Sites[0].Reason == "chan send" && x.Waited > s.r.Duration/20
	}):
		add("locks %s", "channels, and who was on the other side")
	}
	if len(s.leaks.Groups) > 0 {
		add("leaks %s", "goroutines that grow in number")
	}
	add("view %s", "look at all of it in a browser")
	add("report %s --by function", "every function and wait")
	if len(s.cpu.Rows) > 0 {
		add("report %s --weight latency", "what to make faster, to be done sooner")
	}
	add("convert %s -o app.pb.gz", "for go tool pprof")
	return list
}

// next prints what to type next.
func (s *screen) next() {
	list := s.hints()
	list = list[:min(len(list), s.most.hints)]
	width := 0
	for _, h := range list {
		width = max(width, utf8.RuneCountInString(h.command))
	}
	var b bytes.Buffer
	for _, h := range list {
		if width+len(h.what)+6 > s.width {
			printf(&b, "  %s\n", h.command)
			continue
		}
		printf(&b, "  %-*s  %s\n", width, h.command, s.paint.dim("# "+h.what))
	}
	printf(&s.b, "\n%s\n%s", s.paint.bold("WHAT TO TYPE NEXT"), b.Bytes())
}
