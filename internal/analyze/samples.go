package analyze

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
)

// Samples are the samples that an analysis reads. This file is all that knows where they come from.
type Samples struct {
	name     string
	stream   reader.Stream
	metadata *tachyon.Metadata

	stacks   []stack
	children map[uint64]uint32 // caller << 32 | frame: the stack
	end      uint64            // µs since the start

	from, to uint64 // see Between
}

// NewSamples returns the samples of a stream, for one analysis. The name is for errors.
func NewSamples(name string, s reader.Stream) (*Samples, error) {
	s = reader.WithoutObjects(s)
	m, err := s.Metadata()
	if err != nil {
		return nil, err
	}
	return &Samples{name: name, stream: s, metadata: m, stacks: make([]stack, 1), children: map[uint64]uint32{}, to: math.MaxUint64}, nil
}

// Between leaves only the time between two times since the start. Times of samples count from the
// first then.
func (s *Samples) Between(from, to time.Duration) {
	s.from, s.to = uint64(from.Microseconds()), uint64(to.Microseconds())
}

// named puts the profile's name before an error, for analyses of several profiles.
func (s *Samples) named(err error) error {
	if strings.HasPrefix(err.Error(), s.name+": ") {
		return err
	}
	return fmt.Errorf("%s: %w", s.name, err)
}

// length returns how long the profile is, in µs.
func (s *Samples) length() (uint64, error) {
	if m := s.metadata.Session; m != nil && m.Duration > 0 {
		s.end = uint64(m.Duration.Microseconds())
	} else if s.end == 0 {
		for _, err := range s.all() {
			if err != nil {
				return 0, err
			}
		}
	}
	return min(s.end, s.to) - min(s.end, s.from), nil
}

// A stack is a frame on top of its caller's stack. Number 0 has no frames.
type stack struct{ caller, frame uint32 }

// A sample is a sample that stands for time. It is valid until the next one.
type sample struct {
	goroutine   uint64
	interpreter uint32
	status      tachyon.Status
	slot        uint32        // numbers the goroutines from 0
	stack       uint32        // in Samples.stacks
	time        uint64        // µs since the start; 0 if it is before it. The time for which the sample stands ends here.
	wall        time.Duration // how much time that is
}

// begin returns the time at which the time begins for which a sample stands.
func (s *sample) begin() uint64 { return s.time - min(s.time, uint64(s.wall.Microseconds())) }

// frames returns the frames so far, by number.
func (s *Samples) frames() []tachyon.Frame { return s.stream.Frames() }

// interval returns the time between two ticks in µs, at least 1.
func (s *Samples) interval() uint64 { return max(1, s.stream.Header().Interval) }

// leaf returns the innermost frame of a stack, nil if it has none.
func (s *Samples) leaf(stack uint32) *tachyon.Frame {
	if stack == 0 {
		return nil
	}
	return &s.frames()[s.stacks[stack].frame]
}

// own returns the innermost frame of a stack that is the program's own code; if there is none, the
// innermost one that is a function; nil if there is none either.
func (s *Samples) own(stack uint32) (found *tachyon.Frame) {
	for ; stack != 0; stack = s.stacks[stack].caller {
		f := &s.frames()[s.stacks[stack].frame]
		if isOwn(f) {
			return f
		}
		if found == nil && f.File != "" {
			found = f
		}
	}
	return found
}

// function returns the innermost frame of a stack that is a function, nil if there is none.
func (s *Samples) function(stack uint32) *tachyon.Frame {
	for ; stack != 0; stack = s.stacks[stack].caller {
		if f := s.leaf(stack); f.File != "" {
			return f
		}
	}
	return nil
}

// A creation says where a goroutine was created.
type creation struct{ by, at string }

// creations returns the creations of goroutines, by id.
func (s *Samples) creations() map[uint64]creation {
	out := make(map[uint64]creation, len(s.metadata.Goroutines))
	for i := range s.metadata.Goroutines {
		g := &s.metadata.Goroutines[i]
		out[g.ID] = creation{g.CreatedBy, g.CreatedAt}
	}
	return out
}

// all yields the samples. The samples of a goroutine are in order of time.
func (s *Samples) all() iter.Seq2[*sample, error] {
	type latest struct {
		frames []uint32
		stack  uint32
	}
	return func(yield func(*sample, error) bool) {
		var threads []latest
		var out sample
		start := s.stream.Header().Start
		for w, err := range reader.Weighted(s.stream) {
			if err != nil {
				yield(nil, err)
				return
			}
			if w.Index == len(threads) {
				threads = append(threads, latest{})
			}
			t := &threads[w.Index]
			if !slices.Equal(t.frames, w.Stack) {
				t.frames = append(t.frames[:0], w.Stack...)
				t.stack = 0
				for _, f := range slices.Backward(w.Stack) {
					t.stack = s.push(t.stack, f)
				}
			}
			out = sample{
				goroutine: w.Thread, interpreter: w.Interpreter, status: w.Status, slot: uint32(w.Index),
				stack: t.stack, time: uint64(max(0, int64(w.Time-start))), wall: w.Wall(),
			}
			s.end = max(s.end, out.time)
			if begin := out.begin(); out.time <= s.from || begin >= s.to {
				continue
			} else {
				begin, out.time = max(begin, s.from)-s.from, min(out.time, s.to)-s.from
				out.wall = time.Duration(out.time-begin) * time.Microsecond
			}
			if !yield(&out, nil) {
				return
			}
		}
	}
}

// push returns the stack with a frame on top of another stack.
func (s *Samples) push(caller, frame uint32) uint32 {
	key := uint64(caller)<<32 | uint64(frame)
	n, ok := s.children[key]
	if !ok {
		n = uint32(len(s.stacks))
		s.children[key] = n
		s.stacks = append(s.stacks, stack{caller, frame})
	}
	return n
}
