package analyze

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// ReportOptions say how samples are added up for a report. The zero value is the usual choice.
type ReportOptions struct {
	Goroutines bool   // records of different goroutines are kept apart
	Group      string // records have groups: one of ByEntry and ByObject, or ByLabel and a label's key
	Weight     string // one of Weights; "" is wall
	Idle       bool   // records have idle time; otherwise it is left out
	Series     bool   // records have series
	Window     bool   // the samples are of a part of a session: that a goroutine rests in it does not make it idle
}

// What a group can be.
const (
	ByEntry  = "entry"  // goroutines that were created at one place; a test
	ByObject = "object" // what goroutines wait for
	ByLabel  = "label:" // a value of the label whose key follows
)

// Weights list how a sample can be weighed.
//
//   - wall: by the time for which it stands.
//   - cpu: by the part of it on a CPU.
//   - latency: by its share of the time on the wall clock; see latency.
var Weights = []string{"wall", "cpu", "latency"}

// Stream returns what a source must read for a report.
func (o ReportOptions) Stream() stream.Options {
	return stream.Options{Labels: true, Creators: true, Objects: true}
}

// NewProfile adds up the samples of a source. Idle time is known in profiles that gotach recorded.
func NewProfile(src *stream.Source, o ReportOptions) (*profile.Profile, error) {
	p, _, err := newProfile(src, src.Samples(), o, nil)
	return p, err
}

// NewProfileEach is NewProfile. It also calls each with every sample that it adds up, weighed as the options say. What
// it returns tells, given the key of a sample, whether the sample is idle time.
func NewProfileEach(src *stream.Source, o ReportOptions, each func(*stream.Sample, WaitKey)) (*profile.Profile, func(WaitKey) bool, error) {
	p, idle, err := newProfile(src, src.Samples(), o, each)
	if idle == nil {
		return p, func(WaitKey) bool { return false }, err
	}
	return p, idle.Is, err
}

// A Survey is what one reading of the samples tells about a session.
type Survey struct {
	Profile *profile.Profile
	Leaks   *Leaks
	// Requests says whether FindRequests finds requests without being told what they are. If not, RequestFunc is a
	// function whose calls may be them, "" if there is none.
	Requests    bool
	RequestFunc string
	locks       *lockSums
	// Resting are the records of goroutines that waited at one place in the whole session; see Idle. If that is idle, and idle
	// time is left out, they are not in Profile.
	Resting []profile.Record
	idle    *Idle // nil: nothing is known about idle time
}

// Rests reports whether a record of the profile is one of Resting.
func (s *Survey) Rests(r *profile.Record) bool { return s.idle != nil && s.idle.Rests(WaitKey(r.Key)) }

// NewSurvey is NewProfile, FindLeaks and most of FindLocks in one reading. read is LockOptions.Source.
func NewSurvey(src *stream.Source, o ReportOptions, read func(name string) *source.File) (*Survey, error) {
	s := NewSamples("", src)
	several := src.Processes() != nil
	leaks, locks := newLeakCount(s), newLockSums(s, LockOptions{Source: read})
	leaks.idle = NewIdle(src)
	locks.idle = leaks.idle
	all := func(yield func(*stream.Sample, error) bool) {
		var out sample
		for x, err := range src.Samples() {
			if err == nil && !x.NotSeen {
				s.set(&out, x)
				if !several {
					leaks.add(&out)
				}
				locks.add(&out)
			}
			if err == nil && x.Unselected {
				continue
			}
			if !yield(x, err) {
				return
			}
		}
	}
	p, idle, err := sumUp(src, all, o, leaks.idle, nil)
	if err == nil {
		err = locks.finish()
	}
	if err != nil {
		return nil, err
	}
	found := leaks.result()
	if several {
		if found, err = FindLeaks(NewSamples("", src)); err != nil {
			return nil, err
		}
	}
	out := &Survey{Profile: p, Leaks: found, locks: locks, idle: idle}
	if out.Requests = knowsRequests(p); !out.Requests {
		out.RequestFunc = requestFunc(p, idle)
	}
	for i := range p.Records {
		if out.Rests(&p.Records[i]) {
			out.Resting = append(out.Resting, p.Records[i])
		}
	}
	leaveOut(p, idle, o)
	return out, nil
}

// Locks is FindLocks. It reads the samples once more if goroutines waited for locks.
func (s *Survey) Locks() (*Locks, error) {
	if err := s.locks.holders(); err != nil {
		return nil, err
	}
	return s.locks.result(), nil
}

// A survey finds what slow requests do if the profile has no more goroutines and samples than these. It takes two more
// readings: 0.25 s of CPU for 3.3 million samples of 2,600 goroutines, where all else took 0.5 s, but 1.3 s for 1.3 million
// samples of 273,000.
var (
	mostSurveyed           int64 = 5_000_000 // less in tests
	mostSurveyedGoroutines       = 50_000
)

// FindRequests is FindRequests with the source of NewSurvey, and no other options. It returns nil if Requests is false, or if the profile is too large to
// answer at once.
func (s *Survey) FindRequests() (*Requests, error) {
	if !s.Requests || s.Profile.Samples > mostSurveyed || s.Profile.Goroutines > mostSurveyedGoroutines {
		return nil, nil
	}
	return FindRequests(NewSamples("", s.locks.src), RequestOptions{Source: s.locks.o.Source})
}

// newProfile adds up samples. It returns nil for what tells idle time if there is none. each may be nil.
func newProfile(src *stream.Source, samples iter.Seq2[*stream.Sample, error], o ReportOptions, each func(*stream.Sample, WaitKey)) (*profile.Profile, *Idle, error) {
	p, idle, err := sumUp(src, samples, o, NewIdle(src), each)
	if err == nil {
		leaveOut(p, idle, o)
	}
	return p, idle, err
}

// sumUp is newProfile with all idle records. It uses a new Idle, to which no samples were added.
func sumUp(src *stream.Source, samples iter.Seq2[*stream.Sample, error], o ReportOptions, unused *Idle, each func(*stream.Sample, WaitKey)) (*profile.Profile, *Idle, error) {
	if !src.KnowsCreators() {
		return nil, nil, errNoCreators
	}
	d := profile.Detail{Goroutines: o.Goroutines, Series: o.Series}
	var idle *Idle
	switch {
	case o.Weight == "cpu":
		samples = onCPU(samples)
	case o.Weight == "latency":
		l, err := newLatency(src)
		if err != nil {
			return nil, nil, err
		}
		samples = l.samples()
	case src.Metadata().Session != nil:
		idle = unused
		idle.window = o.Window
		d.Key = func(s *stream.Sample) uint32 { return uint32(idle.Add(s)) }
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
	if idle != nil {
		idle.Finish()
	}
	return p, idle, nil
}

// leaveOut leaves out the idle records of a profile.
func leaveOut(p *profile.Profile, idle *Idle, o ReportOptions) {
	if idle == nil {
		return
	}
	p.HasIdle = o.Idle
	p.Records = slices.DeleteFunc(p.Records, func(r profile.Record) bool {
		if !idle.Is(WaitKey(r.Key)) {
			return false
		}
		p.Idle += r.Wall
		p.IdleSeries = profile.Plus(p.IdleSeries, r.Series)
		return !o.Idle
	})
}

// telling returns samples, and a function that tells their keys, both of which call each. key may be nil.
func telling(samples iter.Seq2[*stream.Sample, error], key func(*stream.Sample) uint32, each func(*stream.Sample, WaitKey)) (iter.Seq2[*stream.Sample, error], func(*stream.Sample) uint32) {
	all := func(yield func(*stream.Sample, error) bool) {
		for s, err := range samples {
			if err == nil && s.NotSeen { // it gets no key
				each(s, NotIdle)
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
		each(s, WaitKey(k))
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

// grouped returns the function that names the group of a sample, nil if there are no groups. Time of no goroutine has
// the name "", if it is not known by its process.
func grouped(src *stream.Source, by string) (func(*stream.Sample) string, error) {
	group, err := groupOfGoroutine(src, by)
	if group == nil || err != nil {
		return nil, err
	}
	key, isLabel := strings.CutPrefix(by, ByLabel)
	session := src.Metadata().Session != nil
	return func(s *stream.Sample) string {
		if !s.NotSeen && !(session && s.Interpreter == tachyon.Process) {
			return group(s)
		}
		if isLabel {
			name, _ := src.Label(nil, key)
			return name
		}
		return ""
	}, nil
}

// groupOfGoroutine is grouped for samples of goroutines.
func groupOfGoroutine(src *stream.Source, by string) (func(*stream.Sample) string, error) {
	key, isLabel := strings.CutPrefix(by, ByLabel)
	switch {
	case by == "":
		return nil, nil
	case isLabel:
		return func(s *stream.Sample) string {
			if value, ok := src.Label(s.Labels, key); ok {
				return value
			}
			return "[no label " + key + "]"
		}, nil
	case by == ByObject:
		names, err := objectNames(src)
		return func(s *stream.Sample) string {
			if f := leafOf(src, s.Stack); waits(s.Status) && f.File == "" && f.Line > 0 {
				if name, ok := names[f.Line]; ok {
					return name
				}
				return "object " + strconv.Itoa(int(f.Line))
			}
			return "[" + src.State(s.Status, s.Stack) + "]"
		}, err
	case by == ByEntry:
		return (&entries{src}).name, nil
	}
	return nil, fmt.Errorf("no groups by %q", by)
}

// leafOf returns the innermost frame of a stack. Stack 0 has an empty one.
func leafOf(src *stream.Source, stack uint32) *tachyon.Frame {
	if stack == 0 {
		return &tachyon.Frame{}
	}
	return &src.Frames()[src.Stacks()[stack].Frame]
}

// objectNames returns the names of objects by number.
func objectNames(src *stream.Source) (map[int32]string, error) {
	list, err := src.Objects()
	if err != nil {
		return nil, err
	}
	names := make(map[int32]string, len(list))
	for n, o := range list {
		name := o.Kind
		switch {
		case o.Symbol != "" && o.Offset > 0:
			name += fmt.Sprintf(" %s+%d", o.Symbol, o.Offset)
		case o.Symbol != "":
			name += " " + o.Symbol
		case o.Addr != 0:
			name += fmt.Sprintf(" %#x", o.Addr)
		case len(o.Members) > 0:
			name += fmt.Sprintf(" of %d channels", len(o.Members))
		}
		names[n] = fmt.Sprintf("%s (object %d)", name, n)
	}
	return names, nil
}

// entries name the groups of goroutines that were created at one place.
type entries struct{ src *stream.Source }

// name returns the name of a sample's group: the function that created its goroutine and, after a tab, where.
// Goroutines of a test have the name of the test.
func (e *entries) name(s *stream.Sample) string {
	if test := e.test(s.Stack); test != "" {
		return test
	}
	return e.creator(s)
}

// creator is name for a goroutine that is in no test.
func (e *entries) creator(s *stream.Sample) string {
	by := e.src.Creators()[s.Creator]
	switch {
	case by.Func != "":
		return by.Func + "\t" + by.At
	case s.Status&tachyon.MainThread != 0:
		return "[main goroutine]"
	}
	return "[creator unknown]"
}

// test returns the name of the test in which a stack is, "" if it is in none.
func (e *entries) test(stack uint32) string {
	callee := ""
	for list := e.src.Stacks(); stack != 0; stack = list[stack].Caller {
		f := &e.src.Frames()[list[stack].Frame]
		if f.Func == "testing.tRunner" {
			return callee
		}
		callee = f.Func
	}
	return ""
}
