package spx

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// Timeline is a whole profile, in order of time for each goroutine: what it did, one thing after
// the other.
//
// A goroutine is a sequence of runs. A run is a stretch of successive samples with the same stack;
// its time is the sum of its samples' weights. So the runs of a goroutine lie end to end without a
// gap. Those of the runtime's own goroutines do so even though their waits are left out. Where the
// first weight reaches back to before the file's start, the time line begins earlier than the file.
//
// Stacks are paths in one tree that all goroutines share: a [Node] is a frame
// under its caller. A run takes 24 bytes, however many samples it has.
type Timeline struct {
	Start      time.Time     // wall clock; what Goroutine.Start counts from
	Interval   time.Duration // between two ticks, as asked
	Wall       time.Duration // sum over all goroutines
	Frames     []tachyon.Frame
	Nodes      []Node      // Nodes[0] is above all stacks and has no frame
	Goroutines []Goroutine // by their first sample
	Metadata   *tachyon.Metadata
}

// Node is a frame under its caller. A node and its callers up to the root are a stack.
type Node struct {
	Parent uint32 // index of the caller's node, less than this one's
	Frame  uint32 // index into Frames
	Depth  uint32 // frames from the root to this one; 0 is Nodes[0]
}

// Goroutine is one goroutine's life as far as it was sampled. If Interpreter is
// [tachyon.Process], it is no goroutine: it has CPU time that no goroutine used, or, with
// the frame [tachyon.FuncNotSeen], time of goroutines that has no sample.
type Goroutine struct {
	ID          uint64
	Interpreter uint32        // as in [tachyon.Sample]
	Start       time.Duration // of the first run, since Timeline.Start; never negative
	Runs        []Run
}

// Run is a stretch of time in which every sample had the same stack.
type Run struct {
	Node    uint32 // the stack's innermost frame; 0 is an empty stack
	Samples uint32
	Wall    time.Duration
	CPU     time.Duration // the part of Wall that was on CPU
}

// Path appends the nodes of a stack to path, outermost first.
func (t *Timeline) Path(path []uint32, node uint32) []uint32 {
	depth := int(t.Nodes[node].Depth)
	path = slices.Grow(path, depth)[:len(path)+depth]
	for i := len(path) - 1; node != 0; i-- {
		path[i] = node
		node = t.Nodes[node].Parent
	}
	return path
}

// thread identifies a goroutine.
type thread struct {
	id          uint64
	interpreter uint32
}

type builder struct {
	*Timeline
	src    *stream.Source
	start  uint64          // of the file, µs
	begins []time.Duration // of the goroutines' first runs, since the header's start; may be negative
	known  map[thread]int  // indices of goroutines
	slots  []int           // of the present file: indices of goroutines
}

// NewTimeline reads all samples of a source, and the goroutines' time that has no sample.
func NewTimeline(src *stream.Source) (*Timeline, error) {
	h, m := src.Header(), src.Metadata()
	b := &builder{
		Timeline: &Timeline{
			Start:    time.UnixMicro(int64(min(h.Start, math.MaxInt64))),
			Interval: reader.Micros(h.Interval),
		},
		src:   src,
		start: h.Start,
		known: map[thread]int{},
	}
	if m.Session != nil && !m.Session.Start.IsZero() {
		b.Start = m.Session.Start
	}
	for s, err := range src.Samples() {
		if err != nil {
			return nil, err
		}
		if err := b.add(s); err != nil {
			return nil, err
		}
	}
	b.Metadata, b.Frames = src.Metadata(), src.Frames()
	for _, s := range src.Stacks() {
		b.Nodes = append(b.Nodes, Node{Parent: s.Caller, Frame: s.Frame, Depth: s.Depth})
	}
	b.finish()
	return b.Timeline, nil
}

// farthest bounds the time between the file's start and a goroutine's first run,
// some 73 years, so that sums of such times fit a Duration.
const farthest = math.MaxInt64 / 4

// since returns the time from a to b, both µs, at most farthest in either direction.
func since(a, b uint64) time.Duration {
	if int64(b-a) < 0 {
		return -min(reader.Micros(a-b), farthest)
	}
	return min(reader.Micros(b-a), farthest)
}

func (b *builder) add(s *stream.Sample) error {
	if err := b.addWall(s.Wall); err != nil {
		return err
	}
	if s.NotSeen {
		b.begins = append(b.begins, 0)
		b.Goroutines = append(b.Goroutines, Goroutine{Interpreter: s.Interpreter, Runs: []Run{{Node: s.Stack, Wall: s.Wall}}})
		return nil
	}
	for len(b.slots) <= int(s.Slot) {
		b.slots = append(b.slots, 0)
	}
	if s.First {
		b.slots[s.Slot] = b.goroutine(s)
	}
	g := &b.Goroutines[b.slots[s.Slot]]
	if n := len(g.Runs); n > 0 && g.Runs[n-1].Node == s.Stack && g.Runs[n-1].Samples < math.MaxUint32 {
		run := &g.Runs[n-1]
		run.Samples++
		run.Wall += s.Wall
		run.CPU += s.CPU()
		return nil
	}
	g.Runs = append(g.Runs, Run{Node: s.Stack, Samples: 1, Wall: s.Wall, CPU: s.CPU()})
	return nil
}

// goroutine returns the index of the goroutine of a sample, which is the first one of its file.
func (b *builder) goroutine(s *stream.Sample) int {
	t := thread{s.Goroutine, s.Interpreter}
	n, ok := b.known[t]
	if !ok {
		n = len(b.Goroutines)
		b.known[t] = n
		b.begins = append(b.begins, since(b.start, s.Time)-min(s.Wall, farthest))
		b.Goroutines = append(b.Goroutines, Goroutine{ID: s.Goroutine, Interpreter: s.Interpreter})
	}
	return n
}

// addWall adds a time to the sum.
func (b *builder) addWall(d time.Duration) error {
	if b.Wall > math.MaxInt64-d {
		return fmt.Errorf("the times of the samples add up to more than %v", time.Duration(math.MaxInt64))
	}
	b.Wall += d
	return nil
}

// finish puts the goroutines in order. The time line begins with the first run of
// all, if that is before the start of the file.
func (b *builder) finish() {
	early := time.Duration(0)
	for _, begin := range b.begins {
		early = min(early, begin)
	}
	b.Start = b.Start.Add(early)
	for i := range b.Goroutines {
		g := &b.Goroutines[i]
		g.Start = b.begins[i] - early
		g.Runs = slices.Clip(g.Runs)
	}
	slices.SortStableFunc(b.Goroutines, func(x, y Goroutine) int {
		return cmp.Or(cmp.Compare(x.Start, y.Start), cmp.Compare(x.Interpreter, y.Interpreter), cmp.Compare(x.ID, y.ID))
	})
}
