// Package instant finds what every goroutine did at an instant. The command and httpprof call
// [Find], the command also [FindBusiest].
//
// # Files
//
//   - text.go: as runtime.Stack prints it
//   - busiest.go: which instant, if nobody asks for one
//   - instant.go: the goroutines of an instant
package instant

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// Options say which instant to show, and of which goroutines.
type Options struct {
	At     stream.Moment
	States []string // only goroutines in one of these states; none: all
}

// An Instant is what every goroutine did at an instant.
type Instant struct {
	At         time.Duration `json:"at_ns"` // since the start of the profile
	Time       time.Time     `json:"time"`
	Busiest    bool          `json:"busiest,omitempty"` // nobody asked for this instant: the most goroutines wait for something
	Goroutines []Goroutine   `json:"goroutines"`        // in ascending order of ids
}

// A Goroutine is a goroutine that was there.
type Goroutine struct {
	ID     uint64 `json:"id"`
	Parent uint64 `json:"parent,omitempty"` // 0: unknown
	State  string `json:"state"`            // as in stream.Source.State
	// Waited is how long it had waited there, as far as the samples tell.
	Waited time.Duration `json:"waited_ns"`
	// Seen is when the goroutine was seen with this stack, from the instant on. It is 0 if it had
	// this stack from before the instant until after it, else the nearest sample's time, negative
	// before the instant.
	Seen      time.Duration     `json:"seen_ns"`
	Labels    map[string]string `json:"labels,omitempty"`
	CreatedBy string            `json:"created_by,omitempty"`
	CreatedAt string            `json:"created_at,omitempty"`
	Frames    []Frame           `json:"frames"` // innermost first
}

// A Frame is a call.
type Frame struct {
	Func string `json:"func"`
	File string `json:"file"`
	Line int32  `json:"line"`
}

// Find returns what goroutines did at an instant. If the source selects, the others are left out.
func Find(s *analyze.Samples, o Options) (*Instant, error) {
	at, err := s.Source.At(o.At)
	if err != nil {
		return nil, err
	}
	return find(s, at, o.States)
}

// find returns what goroutines in some states did at a time in µs since the start.
func find(s *analyze.Samples, at uint64, in []string) (*Instant, error) {
	out := &Instant{Goroutines: []Goroutine{}}
	out.At, out.Time = analyze.Micros(at), time.UnixMicro(int64(s.Start+at))
	f := &instantFinder{Samples: s, at: at, tail: math.MaxUint64, out: out, index: map[uint64]int{}}
	f.of = analyze.NewStates(s.Source, func(l *lastSeen) bool { return l.until > 0 })
	if length, err := s.Length(); err != nil {
		return nil, err
	} else if at+lastLook > length {
		f.tail = length - min(length, lastLook)
	}
	for x, err := range s.All() {
		if err == nil {
			err = f.add(x)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := f.parents(); err != nil {
		return nil, err
	}
	want := stream.Selection{States: in}
	out.Goroutines = slices.DeleteFunc(out.Goroutines, func(g Goroutine) bool { return !want.Has(nil, g.State, 0) })
	slices.SortFunc(out.Goroutines, func(a, b Goroutine) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

// lastLook is the time in µs, before the end of a profile, in which goroutines have their last
// samples.
const lastLook = 100_000

// An instantFinder finds the goroutines of an instant.
type instantFinder struct {
	*analyze.Samples
	at    uint64 // µs since the start
	tail  uint64 // a sample between this time and the instant may be the goroutine's last one, though the goroutine lived on
	out   *Instant
	of    analyze.States[lastSeen]
	index map[uint64]int // into out.Goroutines, by id
	file  []int          // by index: in which file the sample is
	files []stream.File
}

// lastSeen is a goroutine's latest sample before the instant. Times are in µs since the start.
type lastSeen struct {
	stack  uint32
	status tachyon.Status
	since  uint64 // when it came to this stack
	until  uint64 // of the sample
}

// add adds a sample. It ends a time in which the goroutine had the stack of this sample, or of the
// one before.
func (f *instantFinder) add(x *analyze.Sample) error {
	if x.Interpreter != tachyon.User || gap(f.Samples, x.Stack) {
		return nil
	}
	l := f.of.Of(x)
	before := *l
	same := l.until > 0 && l.stack == x.Stack && analyze.Waits(l.status) && analyze.Waits(x.Status)
	if !same {
		l.since = x.Begin()
	}
	l.stack, l.status, l.until = x.Stack, x.Status, max(1, x.At)
	seen, shown := Goroutine{ID: x.Goroutine, Frames: []Frame{}}, *l
	switch {
	case x.Unselected:
		return nil
	case x.At < f.at: // perhaps the last one, of a goroutine that lived on
		if x.At < f.tail {
			return nil
		}
		seen.Seen = -analyze.Micros(f.at - x.At)
	case x.Begin() > f.at:
		return nil
	case same:
	case before.until > 0 && f.at-before.until <= x.At-f.at:
		shown, seen.Seen = before, -analyze.Micros(f.at-before.until)
	default:
		seen.Seen = analyze.Micros(x.At - f.at)
	}
	seen.State = f.Source.State(shown.status, shown.stack)
	if analyze.Waits(shown.status) {
		seen.Waited = analyze.Micros(f.at - min(f.at, shown.since))
	}
	if x.Labels != nil {
		seen.Labels = x.Labels.Map()
	}
	c := f.Source.Creators()[x.Creator]
	seen.CreatedBy, seen.CreatedAt = c.Func, c.At
	for at := shown.stack; at != 0; at = f.Caller(at) {
		if frame := f.Leaf(at); analyze.Reason(frame) == "" {
			seen.Frames = append(seen.Frames, Frame{frame.Func, frame.File, frame.Line})
		}
	}
	f.put(x, seen)
	return nil
}

// put puts a goroutine into the list, or replaces what an earlier sample said.
func (f *instantFinder) put(x *analyze.Sample, seen Goroutine) {
	for len(f.files) <= x.File {
		f.files = append(f.files, stream.File{})
	}
	_, f.files[x.File] = f.Source.File()
	n, ok := f.index[x.Goroutine]
	if !ok {
		n = len(f.out.Goroutines)
		f.index[x.Goroutine] = n
		f.out.Goroutines, f.file = append(f.out.Goroutines, seen), append(f.file, x.File)
	}
	f.out.Goroutines[n], f.file[n] = seen, x.File
}

// gap reports whether a stack stands for time of which nothing is known.
func gap(s *analyze.Samples, stack uint32) bool { return stack != 0 && analyze.IsGap(s.Leaf(stack)) }

// parents reads who started the goroutines.
func (f *instantFinder) parents() error {
	for i, file := range f.files {
		if file.Stream == nil {
			continue
		}
		of := map[uint64]*Goroutine{} // by id in the file
		for n := range f.out.Goroutines {
			if g := &f.out.Goroutines[n]; f.file[n] == i {
				of[stream.GoroutineInFile(g.ID)] = g
			}
		}
		for g, err := range file.Stream.Goroutines() {
			if err != nil {
				return f.Named(err)
			}
			if x := of[g.ID]; x != nil && g.Parent != 0 {
				x.Parent = x.ID - g.ID + g.Parent
			}
		}
	}
	return nil
}
