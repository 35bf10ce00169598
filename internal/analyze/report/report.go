// Package report adds up samples by function, goroutine, label and so on. [NewSurvey] is what
// command and page show first: in one reading it also finds leaks, locks and what requests are.
//
// # Files
//
//   - surveyed.go: what a survey knows of its records, for package findings
//   - all.go: all samples one by one, and what is known of them after one reading
//   - report.go: profiles and surveys
//   - latency.go: shares of the time on the wall clock
//   - ran.go: who had the cores while goroutines waited for one
//   - groups.go: groups of records, and of goroutines
//   - apart.go: what is set apart, as idle time is: leaks, the program's own clients, and what
//     serves profiles
package report

import (
	"iter"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/idle"
	"github.com/gotach/profiler/internal/analyze/leaks"
	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/analyze/requests"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// Options say how samples are added up for a report. The zero value is the usual choice.
type Options struct {
	Goroutines bool   // records of different goroutines are kept apart
	Group      string // records have groups: one of ByEntry, ByObject, ByPeer and ByRan, or ByLabel and a label's key
	Weight     string // one of Weights; "" is wall
	Idle       bool   // records have idle time; otherwise it is left out
	Apart      bool   // records have what is set apart; otherwise it is left out
	Series     bool   // records have series
	Window     bool   // the samples are of a part of a session: that a goroutine rests in it does not make it idle

	Source func(name string) *source.File // as idle.New has it; may be nil
}

// What a group can be.
const (
	ByEntry  = "entry"       // goroutines that were created at one place; a test
	ByObject = "object"      // what goroutines wait for
	ByRan    = "ran-instead" // who had the cores while goroutines waited for one
	ByPeer   = "peer"        // the connection or file that goroutines in [IO wait] wait for
	ByLabel  = "label:"      // a value of the label whose key follows
)

// Weights list how a sample can be weighed.
//
//   - wall: by the time for which it stands.
//   - cpu: by the part of it on a CPU.
//   - latency: by its share of the time on the wall clock; see latency.
var Weights = []string{"wall", "cpu", "latency"}

// Stream returns what a source must read for a report.
func (o Options) Stream() stream.Options {
	return stream.Options{Labels: true, Creators: true, Objects: true, Unselected: o.Group == ByRan}
}

// NewProfile adds up the samples of a source. Idle time is known in profiles that gotach recorded.
func NewProfile(src *stream.Source, o Options) (*profile.Profile, error) {
	p, _, err := newProfile(src, src.Samples(), o, nil)
	return p, err
}

// A Survey is what one reading of the samples tells about a session.
type Survey struct {
	Profile *profile.Profile
	Leaks   *leaks.Leaks
	// Requests says whether Find finds requests without being told what they are. If not,
	// RequestFunc is a function whose calls may be them, "" if there is none.
	Requests    bool
	RequestFunc string
	src         *stream.Source
	read        func(name string) *source.File
	locks       *locks.Sums
	// Resting are the records of goroutines that waited at one place in the whole session; see
	// Idle. If that is idle, and idle time is left out, they are not in Profile.
	Resting []profile.Record
	// Busiest is the CPU time of the goroutine that has the most of it.
	Busiest time.Duration
	// Apart are the records that are set apart, by Leaked and so on.
	Apart [apartKind][]profile.Record
	apart *apart
	idle  *idle.Idle // nil: nothing is known about idle time
}

// Rests reports whether a record of the profile is one of Resting.
func (s *Survey) Rests(r *profile.Record) bool { return s.idle != nil && s.idle.Rests(idle.Key(r.Key)) }

// IsApart reports whether a record of the profile is one of Apart, of which there are none unless
// it has them.
func (s *Survey) IsApart(r *profile.Record) bool {
	return s.Profile.HasApart && !s.Rests(r) && s.apart.ofRecord(r) != NotApart
}

// OpenSurvey is NewSurvey of a source that open returns.
func OpenSurvey(open func(stream.Options) (*stream.Source, error), o Options, read func(name string) *source.File) (*Survey, error) {
	so := o.Stream()
	so.Unselected = true
	src, err := open(so)
	if err != nil {
		return nil, err
	}
	return NewSurvey(src, o, read)
}

// NewSurvey is NewProfile, Find and most of Find in one reading. read is Options.Source.
func NewSurvey(src *stream.Source, o Options, read func(name string) *source.File) (*Survey, error) {
	o.Source = read
	s := analyze.NewSamples("", src)
	several := src.Processes() != nil
	unused := idle.New(src, o.Source)
	growth := leaks.NewCount(s, unused)
	blocked, err := locks.NewSums(s, locks.Options{Source: read}, unused)
	if err != nil {
		return nil, err
	}
	key := idle.NotIdle // of the latest sample
	used := analyze.NewStates(src, func(t *time.Duration) bool { return *t > 0 })
	busiest := time.Duration(0)
	all := func(yield func(*stream.Sample, error) bool) {
		var out analyze.Sample
		for x, err := range src.Samples() {
			if err == nil && !x.NotSeen {
				s.Set(&out, x)
				if !several {
					growth.Add(&out)
				}
				key = blocked.Add(&out)
			}
			if err == nil && x.Unselected {
				continue
			}
			if err == nil && !x.NotSeen && x.Interpreter == tachyon.User && x.CPU() > 0 {
				mine := used.Of(&out)
				*mine += x.CPU()
				busiest = max(busiest, *mine)
			}
			if !yield(x, err) {
				return
			}
		}
	}
	p, idles, err := sumUp(src, all, o, unused, func(*stream.Sample) idle.Key { return key }, nil)
	if err == nil {
		err = blocked.Finish()
	}
	if err != nil {
		return nil, err
	}
	found := growth.Result()
	if several {
		if found, err = leaks.Find(analyze.NewSamples("", src)); err != nil {
			return nil, err
		}
	}
	out := &Survey{src: src, read: read, Profile: p, Leaks: found, Busiest: busiest, locks: blocked, idle: idles}
	if out.Requests = requests.Has(p); !out.Requests {
		out.RequestFunc = requests.LikelyFunc(p, idles)
	}
	for i := range p.Records {
		if out.Rests(&p.Records[i]) {
			out.Resting = append(out.Resting, p.Records[i])
		}
	}
	if out.apart, err = newApart(src, p, idles, found); err != nil {
		return nil, err
	}
	leaveOut(p, idles, o)
	out.Apart = out.apart.setApart(p, idles, o.Apart)
	return out, nil
}

// Locks is Find. It reads the samples once more if goroutines waited for locks.
func (s *Survey) Locks() (*locks.Locks, error) {
	return s.locks.Locks()
}

// A survey finds what slow requests do if the profile has no more goroutines and samples than
// these. It takes two more readings: 0.25 s of CPU for 3.3 million samples of 2,600 goroutines,
// where all else took 0.5 s, but 1.3 s for 1.3 million samples of 273,000.
var (
	mostSurveyed           int64 = 5_000_000 // less in tests
	mostSurveyedGoroutines       = 50_000
)

// FindRequests returns the requests of the profile, without options. It returns nil if Requests is
// false, or if the profile is too large to answer at once.
func (s *Survey) FindRequests() (*requests.Requests, error) {
	if !s.Requests || s.Profile.Samples > mostSurveyed || s.Profile.Goroutines > mostSurveyedGoroutines {
		return nil, nil
	}
	return requests.Find(analyze.NewSamples("", s.src), requests.Options{Source: s.read})
}

// newProfile adds up samples. It returns nil for what tells idle time if there is none. each may be
// nil.
func newProfile(src *stream.Source, samples iter.Seq2[*stream.Sample, error], o Options, each func(*stream.Sample, idle.Key)) (*profile.Profile, *idle.Idle, error) {
	if !src.KnowsCreators() {
		return nil, nil, analyze.ErrNoCreators
	}
	if o.Group == ByRan {
		p, err := ranInstead(src)
		return p, nil, err
	}
	var a *apart
	var idles *idle.Idle
	if !o.Apart && src.Metadata().Session != nil {
		all := o
		if !o.isWall() {
			all = Options{Window: o.Window, Source: o.Source}
		}
		var p *profile.Profile
		var err error
		if p, idles, a, err = withApart(src, samples, all, each); err != nil || o.isWall() {
			return p, idles, err
		}
	}
	samples, err := weighted(src, samples, o, idles, a)
	if err != nil {
		return nil, nil, err
	}
	unused := idle.New(src, o.Source)
	p, idles, err := sumUp(src, samples, o, unused, unused.Add, each)
	if err == nil {
		leaveOut(p, idles, o)
		a.setApart(p, idles, o.Apart)
	}
	return p, idles, err
}

// withApart is newProfile with the samples as they are. It also returns what is set apart.
func withApart(src *stream.Source, samples iter.Seq2[*stream.Sample, error], o Options, each func(*stream.Sample, idle.Key)) (*profile.Profile, *idle.Idle, *apart, error) {
	unused := idle.New(src, o.Source)
	several := src.Processes() != nil
	s := analyze.NewSamples("", src)
	growth := leaks.NewCount(s, unused)
	counted := func(yield func(*stream.Sample, error) bool) {
		var out analyze.Sample
		for x, err := range samples {
			if err == nil && !x.NotSeen && !several {
				s.Set(&out, x)
				growth.Add(&out)
			}
			if !yield(x, err) {
				return
			}
		}
	}
	p, idles, err := sumUp(src, counted, o, unused, unused.Add, each)
	if err != nil {
		return nil, nil, nil, err
	}
	found := growth.Result()
	if several {
		if found, err = leaks.Find(analyze.NewSamples("", src)); err != nil {
			return nil, nil, nil, err
		}
	}
	a, err := newApart(src, p, idles, found)
	if err == nil {
		leaveOut(p, idles, o)
		a.setApart(p, idles, o.Apart)
	}
	return p, idles, a, err
}

// isWall reports whether samples count with the time for which they stand.
func (o *Options) isWall() bool { return o.Weight == "" || o.Weight == Weights[0] }

// weighted returns samples with other weights. What is set apart has no part of the latency. idles
// are nil if nothing is known.
func weighted(src *stream.Source, samples iter.Seq2[*stream.Sample, error], o Options, idles *idle.Idle, a *apart) (iter.Seq2[*stream.Sample, error], error) {
	switch o.Weight {
	case "cpu":
		return onCPU(samples), nil
	case "latency":
		l, err := newLatency(src, o, idles, a)
		if err != nil {
			return nil, err
		}
		return l.samples(), nil
	}
	return samples, nil
}

// sumUp adds up all samples, also those that are idle. It uses a new Idle, to which no samples were
// added. keyOf adds them and returns their keys.
func sumUp(src *stream.Source, samples iter.Seq2[*stream.Sample, error], o Options, unused *idle.Idle, keyOf func(*stream.Sample) idle.Key, each func(*stream.Sample, idle.Key)) (*profile.Profile, *idle.Idle, error) {
	if !src.KnowsCreators() {
		return nil, nil, analyze.ErrNoCreators
	}
	d := profile.Detail{Goroutines: o.Goroutines, Series: o.Series}
	var idles *idle.Idle
	if o.isWall() && src.Metadata().Session != nil {
		idles = unused
		idles.Window = o.Window
		d.Key = func(s *stream.Sample) uint32 { return uint32(keyOf(s)) }
	}
	if each != nil {
		samples, d.Key = telling(samples, d.Key, each)
	}
	var err error
	if d.Group, err = grouped(src, o.Group); err != nil {
		return nil, nil, err
	}
	p, err := profile.FromSamples(src, samples, d)
	if err != nil {
		return nil, nil, err
	}
	p.Frames = slices.Clone(p.Frames)
	for i := range p.Frames {
		if f := &p.Frames[i]; f.File == "" {
			f.Line = 0 // the number of an object
		}
	}
	if idles != nil {
		idles.Finish()
	}
	return p, idles, nil
}

// leaveOut leaves out the idle records of a profile.
func leaveOut(p *profile.Profile, idles *idle.Idle, o Options) {
	if idles == nil {
		return
	}
	p.HasIdle = o.Idle
	p.Records = slices.DeleteFunc(p.Records, func(r profile.Record) bool {
		if !idles.Is(idle.Key(r.Key)) {
			return false
		}
		p.Idle += r.Wall
		p.IdleSeries = profile.Plus(p.IdleSeries, r.Series)
		return !o.Idle
	})
}

// telling returns samples, and a function that tells their keys, both of which call each. key may
// be nil.
func telling(samples iter.Seq2[*stream.Sample, error], key func(*stream.Sample) uint32, each func(*stream.Sample, idle.Key)) (iter.Seq2[*stream.Sample, error], func(*stream.Sample) uint32) {
	all := func(yield func(*stream.Sample, error) bool) {
		for s, err := range samples {
			if err == nil && s.NotSeen { // it gets no key
				each(s, idle.NotIdle)
			}
			if !yield(s, err) {
				return
			}
		}
	}
	return all, func(s *stream.Sample) (k uint32) {
		if key != nil {
			k = key(s)
		}
		each(s, idle.Key(k))
		return k
	}
}

// onCPU yields the samples that were on a CPU.
func onCPU(samples iter.Seq2[*stream.Sample, error]) iter.Seq2[*stream.Sample, error] {
	return func(yield func(*stream.Sample, error) bool) {
		for s, err := range samples {
			if err == nil && (s.NotSeen || s.CPU() == 0) {
				continue
			}
			if !yield(s, err) {
				return
			}
		}
	}
}
