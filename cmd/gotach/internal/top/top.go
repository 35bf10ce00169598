// Package top is what gotach top shows, without the terminal: it follows the file of a running
// session, the file of a finished one, or the handler of package httpprof, keeps the latest samples
// in memory, and analyzes those of a window of time.
//
// The numbers are those of the other commands: a window is a stream of samples like a file, and
// packages profile and analyze read it. Memory is bounded: at most three million samples are kept,
// 32 bytes each, and what the reader of a file keeps: its different stacks and its goroutines.
package top

import (
	"context"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/findings"
	"github.com/gotach/profiler/internal/analyze/leaks"
	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/analyze/report"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// A Watch has the latest samples of a program. Its methods may be called from several goroutines.
type Watch struct {
	source source
	done   atomic.Int64 // bytes read by the present Poll
	all    atomic.Int64 // that it will read

	mu     sync.Mutex // guards what follows
	recent *recent
	state  State
}

// A source is where samples come from.
type source interface {
	// poll adds what is new. It takes lock while it uses the samples.
	poll(ctx context.Context, w *Watch) error
	close() error
}

// A State says what is known about the program that is watched.
type State struct {
	Name   string // of the file, or the URL
	Live   bool   // more samples may come
	Ended  string // why no more samples come, "": they do, or the file was finished from the beginning
	Notice string // what is wrong at present; "": nothing
}

// A View is one of the tables.
type View int

// The tables.
const (
	Functions View = iota
	Blocked
	Locks
	Groups
)

// A Query says what to look at.
type Query struct {
	At     time.Time // end of the window; zero: the latest sample
	Window time.Duration
	Views  []View
	Sort   profile.Sort   // of functions
	CPU    bool           // functions by CPU time only
	Idle   bool           // idle time counts
	Apart  bool           // what is set apart counts, such as clients of the program's own server
	Focus  *regexp.Regexp // functions, lines and groups: only stacks that match; nil: all
	Locks  locks.Options
	// Findings asks for what is wrong. It takes about as long as all tables.
	Findings bool
}

// A Look is what was seen in a window.
type Look struct {
	State
	Session     *tachyon.Session // of the program; nil: unknown
	First, Last time.Time        // of the samples that are kept
	From, To    time.Time        // of the window
	Goroutines  int              // that have samples in the window
	// MostGoroutines is how many were alive at one tick, at most, as the session says; 0 if it does
	// not.
	MostGoroutines int

	States    *profile.Report // by state, with series
	Functions *profile.Report // nil: not asked for; likewise the others
	Blocked   *profile.Report
	Groups    *profile.Report // by the place where goroutines were created
	Leaks     *leaks.Leaks    // with Groups
	Locks     *locks.Locks
	// Findings are what is wrong with the program in the window, without notes; empty: nothing;
	// nil: they were not asked for, or nobody knows yet which goroutines have ended.
	Findings []findings.Finding
}

// Close ends the watch.
func (w *Watch) Close() error { return w.source.close() }

// Waits reports whether Poll waits for new samples, as it does for a URL. Then the next one should
// follow at once.
func (w *Watch) Waits() bool {
	_, is := w.source.(*urlSource)
	return is
}

// Poll reads what is new. For a URL it takes as long as the profile that it asks for.
func (w *Watch) Poll(ctx context.Context) error { return w.source.poll(ctx, w) }

// Progress returns how many bytes of a file the running Poll has read, and how many it will read.
func (w *Watch) Progress() (done, all int64) { return w.done.Load(), w.all.Load() }

// State returns the present state.
func (w *Watch) State() State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

// Look analyzes a window. It returns nil if there are no samples yet.
func (w *Watch) Look(q Query) (*Look, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.recent
	if r.count == 0 {
		return nil, nil
	}
	to := r.to
	if w.state.Live && r.parts[len(r.parts)-1].running {
		to = r.end()
	}
	if !q.At.IsZero() {
		to = uint64(max(0, q.At.UnixMicro()))
	}
	from := max(to-min(to, uint64(q.Window.Microseconds())), r.from, r.cut)
	to = max(to, from+1)
	l := &Look{State: w.state, First: microTime(max(r.from, r.cut)), Last: microTime(r.to), From: microTime(from), To: microTime(to)}
	l.Session = r.parts[len(r.parts)-1].session
	if l.Session != nil {
		l.MostGoroutines = l.Session.MaxGoroutines
	}
	q.Findings = q.Findings && !(w.state.Live && r.unsure(to))
	files := r.window(from, to)
	return l, l.analyze(files, q)
}

func microTime(us uint64) time.Time { return time.UnixMicro(int64(us)).UTC() }

// analyze fills in what is asked for.
func (l *Look) analyze(files []stream.File, q Query) error {
	want := map[View]bool{}
	for _, v := range q.Views {
		want[v] = true
	}
	of := func(o report.Options, leaks bool) (p *profile.Profile, err error) {
		src, err := stream.New(files, stream.Options{Creators: true, Objects: true})
		if err != nil {
			return nil, err
		}
		if o.Series, o.Window, o.Apart = true, true, q.Apart || leaks; leaks {
			survey, err := report.NewSurvey(src, o, nil) // of which the locks are not asked for
			if err != nil {
				return nil, err
			}
			l.Leaks = survey.Leaks
			return survey.Profile, nil
		}
		return report.NewProfile(src, o)
	}
	p, err := of(report.Options{}, false)
	if err != nil {
		return err
	}
	l.Goroutines = p.Goroutines
	if l.States, err = profile.New(p, profile.ReportOptions{By: profile.ByState}); err != nil {
		return err
	}
	if want[Functions] || want[Blocked] {
		if q.Idle {
			p, err = of(report.Options{Idle: true}, false)
		}
		if want[Blocked] && err == nil {
			l.Blocked, err = profile.New(p, profile.ReportOptions{By: profile.ByBlocked, Focus: q.Focus})
		}
		if q.CPU && err == nil {
			p = p.OnlyCPU()
		}
		if want[Functions] && err == nil {
			l.Functions, err = profile.New(p, profile.ReportOptions{By: profile.ByFunction, Sort: q.Sort, Focus: q.Focus})
		}
	}
	if want[Groups] && err == nil {
		// Whether a goroutine waits in vain does not matter for how many there are.
		if p, err = of(report.Options{Idle: true, Group: report.ByEntry}, true); err == nil {
			l.Groups, err = profile.New(p, profile.ReportOptions{By: profile.ByGroup, Sort: profile.SortTotal, Focus: q.Focus})
		}
	}
	if want[Locks] && err == nil {
		var src *stream.Source
		if src, err = stream.New(files, stream.Options{Objects: true, Labels: true, Creators: true}); err == nil {
			l.Locks, err = locks.Find(analyze.NewSamples("", src), q.Locks)
		}
	}
	if q.Findings && err == nil {
		l.Findings, err = find(files, q)
	}
	return err
}

// mostSearched is the number of samples up to which findings look at stragglers and at those that
// have a connection of a pool: these take two more readings.
const mostSearched = 500_000

// find finds what is wrong.
func find(files []stream.File, q Query) ([]findings.Finding, error) {
	open := func(o stream.Options) (*stream.Source, error) { return stream.New(files, o) }
	survey, err := report.OpenSurvey(open, report.Options{Series: true, Window: true}, q.Locks.Source)
	if err != nil {
		return nil, err
	}
	list, err := findings.OfSurvey(survey, "FILE", mostSearched)
	return slices.DeleteFunc(list, func(x findings.Finding) bool { return x.Note && !x.Leads() }), err
}

// news returns what a follower tells about a part.
func (w *Watch) news(p *part) reader.News {
	return reader.News{
		Batch:     func(b *reader.Batch) { w.recent.add(p, b) },
		Goroutine: p.goroutine,
		Object:    p.object,
		Progress: func(done, all int64) {
			w.done.Store(done)
			w.all.Store(all)
		},
	}
}
