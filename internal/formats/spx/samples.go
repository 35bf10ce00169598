package spx

import (
	"errors"
	"math"

	"github.com/gotach/profiler/internal/formats/tach"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// Samples reads all events and returns the stacks between them as samples. The
// functions must be those of the same report, read before. A stretch of time
// becomes a sample on CPU and one off it, as ct says; what is shorter than a
// microsecond goes to the stack after it. Of calls nested more than 256 deep the
// innermost are kept.
func (r *Reader) Samples(functions []Function) (*reader.Reader, error) {
	return tach.InMemory(func(create tach.Create) error { return r.samples(functions, create) })
}

func (r *Reader) samples(functions []Function, create tach.Create) error {
	start := uint64(max(r.meta.ExecTS, 0)) * 1e6
	w, err := create(start, 1)
	if err != nil {
		return err
	}
	s := sampling{
		w: w, start: start, apart: r.meta.sampled(),
		frames: make([]uint32, len(functions)), goroutines: make([]uint64, len(functions)),
	}
	for i, f := range functions {
		s.frames[i] = w.Intern(tachyon.Frame{Func: f.Name, File: f.File, Line: int32(f.Line)})
		if r.meta.sampled() {
			if id, ok := goroutine(f.Name); ok {
				s.goroutines[i] = id
			}
		}
	}
	var last [2]float64
	for e, err := range r.Events() {
		if err != nil {
			return err
		}
		if int(e.Function) >= len(functions) {
			return errors.New("the functions are not those of the report")
		}
		now := [2]float64{e.Values[r.wt], e.Values[r.wt]}
		if r.ct >= 0 {
			now[1] = e.Values[r.ct]
		}
		unit := 1e-3 // ns to µs
		if r.micros {
			unit = 1
		}
		wall := max(now[0]-last[0], 0) * unit
		cpu := min(max(now[1]-last[1], 0)*unit, wall)
		last = now
		if e.Enter { // as it was before the event
			s.open = r.open[:len(r.open)-1]
		} else {
			s.open = r.open[:len(r.open)+1]
		}
		if err := s.advance(cpu, tachyon.OnCPU|tachyon.HasGIL); err != nil {
			return err
		}
		if err := s.advance(wall-cpu, 0); err != nil {
			return err
		}
		if e.Enter && len(s.open) == 0 {
			s.roots++
		}
	}
	return nil
}

// unnumbered is the number after which ids begin for roots that name no goroutine.
const unnumbered = 1 << 48

// sampling makes samples of the time between events.
type sampling struct {
	w          *writer.Writer
	start      uint64
	frames     []uint32 // of each function
	goroutines []uint64 // that lie under each function, 0: none
	apart      bool     // each root is a thread of its own, as in gotach's reports
	roots      uint64   // seen so far
	open       []uint32 // functions of the open calls

	now     float64 // µs since start
	sampled uint64  // time of the last sample, µs since start
	thread  uint64  // of the last sample, + 1; 0: there is none
	stack   []uint32
}

// advance adds time to the innermost open call.
func (s *sampling) advance(d float64, status tachyon.Status) error {
	s.now += d
	at := uint64(min(math.Round(s.now), 1<<62))
	if at <= s.sampled || len(s.open) == 0 {
		return nil
	}
	open, thread := s.open, uint64(1)
	if id := s.goroutines[open[0]]; id != 0 {
		thread = id
		open = open[1:] // gotach put that one there
	} else if s.apart {
		thread = unnumbered + s.roots
	}
	s.stack = s.stack[:0]
	for i := len(open) - 1; i >= max(0, len(open)-tachyon.MaxDepth); i-- {
		s.stack = append(s.stack, s.frames[open[i]])
	}
	sample := tachyon.Sample{Thread: thread, Status: status, Stack: s.stack}
	if thread+1 != s.thread {
		// A thread's first sample weighs an interval, 1 µs; a second one has
		// the rest.
		s.thread = thread + 1
		sample.Time = s.start + s.sampled + 1
		if err := s.w.Write(&sample); err != nil {
			return err
		}
		if s.sampled++; s.sampled == at {
			return nil
		}
	}
	s.sampled = at
	sample.Time = s.start + at
	return s.w.Write(&sample)
}
