package analyze

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// Samples are the samples that an analysis reads. This file is all that knows where they come from.
type Samples struct {
	name  string
	src   *stream.Source
	start uint64 // of the profile, µs

	end uint64 // time of the latest sample, µs since the start
	to  uint64 // end of the selected time, µs since the start
}

// NewSamples returns the samples of a source, for one analysis. The name is for errors. If the source selects
// samples, its option Unselected must be set: to know when a wait ends or who holds a lock, an analysis has to
// see the others too.
func NewSamples(name string, src *stream.Source) *Samples {
	return &Samples{name: name, src: src, start: src.Header().Start, to: src.Limit()}
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
	end := s.end
	if m := s.src.Metadata().Session; m != nil && m.Duration > 0 {
		end = uint64(m.Duration.Microseconds())
	} else if end == 0 {
		for _, err := range s.all() {
			if err != nil {
				return 0, err
			}
		}
		end = s.end
	}
	return min(end, s.to), nil
}

// goVersion returns the Go version of the profiled program, "" if unknown.
func (s *Samples) goVersion() string {
	if m := s.src.Metadata().Session; m != nil {
		return m.GoVersion
	}
	return ""
}

// interval returns the time between two ticks in µs, at least 1.
func (s *Samples) interval() uint64 { return max(1, s.src.Header().Interval) }

// stacks returns the number of stacks so far.
func (s *Samples) stacks() int { return len(s.src.Stacks()) }

// caller returns the stack below the innermost frame of a stack. Stack 0 has no frames.
func (s *Samples) caller(stack uint32) uint32 { return s.src.Stacks()[stack].Caller }

// leaf returns the innermost frame of a stack, nil if it has none.
func (s *Samples) leaf(stack uint32) *tachyon.Frame {
	if stack == 0 {
		return nil
	}
	return &s.src.Frames()[s.src.Stacks()[stack].Frame]
}

// own returns the innermost frame of a stack that is the program's own code; if there is none, the
// innermost one that is a function; nil if there is none either.
func (s *Samples) own(stack uint32) *tachyon.Frame {
	for at := stack; at != 0; at = s.caller(at) {
		if f := s.leaf(at); isOwn(f) {
			return f
		}
	}
	return s.function(stack)
}

// function returns the innermost frame of a stack that is a function, nil if there is none.
func (s *Samples) function(stack uint32) *tachyon.Frame {
	for ; stack != 0; stack = s.caller(stack) {
		if f := s.leaf(stack); f.File != "" {
			return f
		}
	}
	return nil
}

// A sample is a sample that stands for time. It is valid until the next one.
type sample struct {
	*stream.Sample
	time uint64 // µs since the start; 0 if it is before it. The time for which the sample stands ends here.
	file int    // number of the file that it is in
}

// begin returns the time at which the time begins for which a sample stands.
func (s *sample) begin() uint64 { return s.time - min(s.time, uint64(s.Wall.Microseconds())) }

// all yields the samples. The samples of a goroutine are in order of time. Time without samples is left
// out.
func (s *Samples) all() iter.Seq2[*sample, error] {
	return func(yield func(*sample, error) bool) {
		var out sample
		for x, err := range s.src.Samples() {
			if err != nil {
				yield(nil, err)
				return
			}
			if x.NotSeen {
				continue
			}
			s.set(&out, x)
			if !yield(&out, nil) {
				return
			}
		}
	}
}

// set makes out of a sample of the source.
func (s *Samples) set(out *sample, x *stream.Sample) {
	out.Sample, out.time = x, uint64(max(0, int64(x.Time-s.start)))
	out.file, _ = s.src.File()
	s.end = max(s.end, out.time)
}

// A creation says where a goroutine was created.
type creation struct{ by, at string }

// creations know where the goroutines of the present file were created. Analyses that read the samples
// together share them.
type creations struct {
	src  *stream.Source
	file int // number of the file + 1
	ids  []created
	list []creation
}

type created struct {
	id     uint64
	number uint32 // index into list
}

// of returns where the goroutine of a sample was created. Both strings are empty if that is unknown.
func (c *creations) of(s *sample) (creation, error) {
	if c.file != s.file+1 {
		if err := c.load(s.file); err != nil {
			return creation{}, err
		}
	}
	id := stream.GoroutineInFile(s.Goroutine)
	i, ok := slices.BinarySearchFunc(c.ids, id, func(x created, id uint64) int { return cmp.Compare(x.id, id) })
	if !ok {
		return creation{}, nil
	}
	return c.list[c.ids[i].number], nil
}

// load reads the creations of a file.
func (c *creations) load(file int) error {
	c.file, c.ids, c.list = file+1, c.ids[:0], nil
	number := map[creation]uint32{}
	_, f := c.src.File()
	for g, err := range stream.Goroutines(f.Stream) {
		if err != nil {
			return err
		}
		key := creation{g.CreatedBy, g.CreatedAt}
		if key == (creation{}) {
			continue
		}
		n, ok := number[key]
		if !ok {
			n = uint32(len(c.list))
			number[key] = n
			c.list = append(c.list, key)
		}
		c.ids = append(c.ids, created{g.ID, n})
	}
	slices.SortStableFunc(c.ids, func(a, b created) int { return cmp.Compare(a.id, b.id) })
	return nil
}

// states have a T for each goroutine. From one file to the next only those are kept that keep says, and
// only for maxFiles files in which the goroutine has no sample.
type states[T any] struct {
	keep    func(*T) bool
	file    int
	slots   [][]state[T] // of the present file, in parts of slotsPart
	carried map[goroutine]carried[T]
}

// slotsPart is the number of slots that are allocated together. A slice that grows would need twice the memory, and
// be copied.
const slotsPart = 1 << 12

const maxFiles = 3

type carried[T any] struct {
	T    T
	file int // in which the goroutine had its latest sample
}

type state[T any] struct {
	goroutine
	used bool
	T    T
}

// A goroutine is the id of a goroutine or of a pseudo thread.
type goroutine struct {
	id          uint64
	interpreter uint32
}

// of returns the state of a sample's goroutine. It is valid until the next call.
func (st *states[T]) of(s *sample) *T {
	if s.file != st.file {
		st.next()
		st.file = s.file
	}
	for int(s.Slot/slotsPart) >= len(st.slots) {
		st.slots = append(st.slots, make([]state[T], slotsPart))
	}
	x := &st.slots[s.Slot/slotsPart][s.Slot%slotsPart]
	if !x.used {
		x.used, x.goroutine = true, goroutine{s.Goroutine, s.Interpreter}
		if t, ok := st.carried[x.goroutine]; ok {
			x.T = t.T
			delete(st.carried, x.goroutine)
		}
	}
	return &x.T
}

// next begins a file.
func (st *states[T]) next() {
	if st.carried == nil {
		st.carried = map[goroutine]carried[T]{}
	}
	for g, t := range st.carried {
		if st.file-t.file >= maxFiles {
			delete(st.carried, g)
		}
	}
	for _, part := range st.slots {
		for i := range part {
			if x := &part[i]; x.used && st.keep(&x.T) {
				st.carried[x.goroutine] = carried[T]{x.T, st.file}
			}
		}
		clear(part)
	}
}

// all yields the states of all goroutines that were kept or are in the last file.
func (st *states[T]) all() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, part := range st.slots {
			for i := range part {
				if part[i].used && !yield(&part[i].T) {
					return
				}
			}
		}
		for _, t := range st.carried {
			if !yield(&t.T) {
				return
			}
		}
	}
}
