// Package timeline is the profile in order of time: for each goroutine, what it did
// one thing after the other. Formats that hold calls in order, such as SPX, are made
// from it. Formats that only count are made from package profile.
//
// A goroutine is a sequence of runs. A run is a stretch of successive samples with
// the same stack; its time is the sum of its samples' weights, which come from
// [reader.Weighted]. So the runs of a goroutine lie end to end without a gap. Those of
// the runtime's own goroutines do so even though their waits are left out. Where
// the first weight reaches back to before the file's start, the time line begins
// earlier than the file.
//
// Stacks are paths in one tree that all goroutines share: a [Node] is a frame
// under its caller. A run takes 24 bytes, however many samples it has.
package timeline

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
)

// Frame is a place in the source.
type Frame = tachyon.Frame

// Timeline is a whole profile, in order of time for each goroutine.
type Timeline struct {
	Start      time.Time     // wall clock; what Goroutine.Start counts from
	Interval   time.Duration // between two ticks, as asked
	Wall       time.Duration // sum over all goroutines
	Frames     []Frame
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

// track is the state of a goroutine while its samples come in.
type track struct {
	begin time.Duration // of its first run, since the header's start; may be negative
	stack []uint32      // the last sample's, innermost first
	path  []uint32      // its nodes, outermost first
}

type builder struct {
	*Timeline
	children map[uint64]uint32 // parent node << 32 | frame -> node
	tracks   []track           // beside Goroutines
	start    uint64            // of the file, µs
}

// FromTachyon reads all samples of a file or another stream.
func FromTachyon(s reader.Stream) (*Timeline, error) {
	s = reader.WithoutObjects(s)
	m, err := s.Metadata()
	if err != nil {
		return nil, err
	}
	h := s.Header()
	b := &builder{
		Timeline: &Timeline{
			Start:    time.UnixMicro(int64(min(h.Start, math.MaxInt64))),
			Interval: reader.Micros(h.Interval),
			Frames:   s.Frames(),
			Nodes:    make([]Node, 1),
			Metadata: m,
		},
		children: map[uint64]uint32{},
		start:    h.Start,
	}
	if m.Session != nil && !m.Session.Start.IsZero() {
		b.Start = m.Session.Start
	}
	for s, err := range reader.Weighted(s) {
		if err != nil {
			return nil, err
		}
		if err := b.add(s); err != nil {
			return nil, err
		}
	}
	if m.Session != nil && m.Session.NotSeen > 0 {
		if err := b.addNotSeen(m.Session.NotSeen); err != nil {
			return nil, err
		}
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

func (b *builder) add(s *reader.WeightedSample) error {
	weight, cpu := s.Wall(), s.CPU()
	if s.First {
		b.tracks = append(b.tracks, track{begin: since(b.start, s.Time) - min(weight, farthest)})
		b.Goroutines = append(b.Goroutines, Goroutine{ID: s.Thread, Interpreter: s.Interpreter})
	}
	t, g := &b.tracks[s.Index], &b.Goroutines[s.Index]
	if err := b.addWall(weight); err != nil {
		return err
	}
	if n := len(g.Runs); n > 0 && slices.Equal(s.Stack, t.stack) && g.Runs[n-1].Samples < math.MaxUint32 {
		run := &g.Runs[n-1]
		run.Samples++
		run.Wall += weight
		run.CPU += cpu
		return nil
	}
	node, err := b.enter(t, s.Stack)
	if err != nil {
		return err
	}
	g.Runs = append(g.Runs, Run{Node: node, Samples: 1, Wall: weight, CPU: cpu})
	return nil
}

// addNotSeen adds the goroutines' time that has no sample.
func (b *builder) addNotSeen(d time.Duration) error {
	if err := b.addWall(d); err != nil {
		return err
	}
	// The frames of a stream must not be changed.
	frame := uint32(len(b.Frames))
	b.Frames = append(slices.Clip(b.Frames), Frame{Func: tachyon.FuncNotSeen})
	node, err := b.enter(&track{}, []uint32{frame})
	if err != nil {
		return err
	}
	b.tracks = append(b.tracks, track{})
	b.Goroutines = append(b.Goroutines, Goroutine{Interpreter: tachyon.Process, Runs: []Run{{Node: node, Wall: d}}})
	return nil
}

// addWall adds a time to the sum.
func (b *builder) addWall(d time.Duration) error {
	if b.Wall > math.MaxInt64-d {
		return fmt.Errorf("the times of the samples add up to more than %v", time.Duration(math.MaxInt64))
	}
	b.Wall += d
	return nil
}

// enter returns the node of a stack. It looks up only the frames that the stack does
// not share with the goroutine's last stack.
func (b *builder) enter(t *track, stack []uint32) (uint32, error) {
	shared := 0
	for shared < len(stack) && shared < len(t.stack) &&
		stack[len(stack)-1-shared] == t.stack[len(t.stack)-1-shared] {
		shared++
	}
	t.path = t.path[:shared]
	node := uint32(0)
	if shared > 0 {
		node = t.path[shared-1]
	}
	for i := len(stack) - 1 - shared; i >= 0; i-- {
		k := uint64(node)<<32 | uint64(stack[i])
		child, ok := b.children[k]
		if !ok {
			if uint64(len(b.Nodes)) >= math.MaxUint32 {
				return 0, fmt.Errorf("more than %d different stacks", len(b.Nodes))
			}
			child = uint32(len(b.Nodes))
			b.children[k] = child
			b.Nodes = append(b.Nodes, Node{Parent: node, Frame: stack[i], Depth: b.Nodes[node].Depth + 1})
		}
		node = child
		t.path = append(t.path, node)
	}
	t.stack = append(t.stack[:0], stack...)
	return node, nil
}

// finish puts the goroutines in order. The time line begins with the first run of
// all, if that is before the start of the file.
func (b *builder) finish() {
	early := time.Duration(0)
	for i := range b.tracks {
		early = min(early, b.tracks[i].begin)
	}
	b.Start = b.Start.Add(early)
	for i := range b.Goroutines {
		g := &b.Goroutines[i]
		g.Start = b.tracks[i].begin - early
		g.Runs = slices.Clip(g.Runs)
	}
	slices.SortStableFunc(b.Goroutines, func(x, y Goroutine) int {
		return cmp.Or(cmp.Compare(x.Start, y.Start), cmp.Compare(x.Interpreter, y.Interpreter), cmp.Compare(x.ID, y.ID))
	})
}
