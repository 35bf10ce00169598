package stream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/tachyon"
)

// Samples yields all samples that stand for time, and the time of goroutines that has none. Markers
// are left out. With Options.Select only what is selected is yielded, and time that has no sample
// is not. Where files of a session are missing, its goroutines have a sample with the frame
// "[not recorded]" for that time. It may be called again, but not while it runs. An error comes
// with a nil sample, is that of the first file with one, and ends the iteration.
func (s *Source) Samples() iter.Seq2[*Sample, error] {
	return func(yield func(*Sample, error) bool) {
		r := newRun(s)
		defer r.pipes.close()
		for i := range s.parts {
			err := r.read(i, yield)
			if d := (damage{}); errors.As(err, &d) {
				d.error = named(s.parts[i].File, d.error)
				if err = d; s.o.Damaged != nil {
					s.o.Damaged(d.error)
					r.pipes.done(i)
					err = nil
				}
			}
			if err != nil {
				if err != errStop {
					yield(nil, err)
				}
				return
			}
			s.compact(s.parts[i].File)
		}
		s.metadata, s.end, s.count = s.join(), r.end, r.count
		if m := s.metadata.Session; m != nil && m.NotSeen > 0 && !s.o.Markers {
			s.notSeen(yield)
		}
	}
}

// notSeen yields the time without samples of each process. Nobody knows when it was, in what state,
// and of which goroutines.
func (s *Source) notSeen(yield func(*Sample, error) bool) {
	if c := s.chooser; c != nil && (c.Timed() || len(c.States) > 0 || len(c.Peers) > 0 || len(c.Goroutines) > 0 || c.Pick != nil) {
		return
	}
	latest := map[Process]int{} // the number of its last file
	for i, p := range s.parts {
		latest[p.Process] = i
	}
	sums := map[Process]time.Duration{}
	stack := s.push(0, s.frames.Intern(tachyon.Frame{Func: tachyon.FuncNotSeen}))
	for i, p := range s.parts {
		sums[p.Process] += p.Metadata.Session.NotSeen
		s.present = i
		wall := sums[p.Process]
		if wall <= 0 || latest[p.Process] != i || s.chooser != nil && !s.chooser.hasAll(nil) {
			continue
		}
		if !yield(&Sample{Interpreter: tachyon.Process, Stack: stack, Wall: wall, NotSeen: true}, nil) {
			return
		}
	}
}

// errStop says that the loop wants no more samples.
var errStop = errors.New("stop")

// A damage is an error of what is in a file.
type damage struct{ error }

// Unwrap returns the error without the kind.
func (d damage) Unwrap() error { return d.error }

// IsDamage reports whether an error of Samples is about what is in a file. The samples before it
// are right.
func IsDamage(err error) bool { return errors.As(err, &damage{}) }

// A run is one reading of all files.
type run struct {
	*Source
	pipes   pipes
	session *tachyon.Session // nil if gotach did not record all files; otherwise Process is no goroutine
	gap     uint32           // the stack of time that is in none of the files

	known       map[uint32]*idSet // counted goroutines, by interpreter; nil if there is one file
	seams       *seams            // nil if there is one file
	start       uint64            // µs
	limit       uint64            // the selected time ends here, µs
	end         uint64            // µs since start
	count       int               // goroutines
	done, total uint64            // samples

	slots []slot // memory of the previous file, which is used again
}

func newRun(s *Source) *run {
	r := &run{Source: s, start: s.Header().Start, limit: math.MaxUint64, pipes: pipes{parts: s.parts, o: &s.o, stop: make(chan struct{})}}
	r.session = s.metadata.Session
	if c := s.chooser; c != nil {
		if c.to < math.MaxUint64 {
			r.limit = s.parts[0].Header.Start + c.to
		}
		if c.Pick != nil {
			c.pick = c.Pick(s)
		}
	}
	for _, p := range s.parts {
		r.total += p.Header.Samples
	}
	if s.children == nil {
		s.children, s.stacks = map[uint64]uint32{}, []Stack{{}}
	}
	if len(s.parts) > 1 {
		r.gap = s.push(0, s.frames.Intern(tachyon.Frame{Func: "[not recorded]"}))
		r.known, r.seams = map[uint32]*idSet{}, newSeams()
	}
	return r
}

// A slot is the state of a thread of the present file. There may be very many, so it has no
// pointers.
type slot struct {
	id          uint64 // of the goroutine in the stream
	last        uint64 // time of the latest sample, shifted, µs
	span        int32  // number of the span with the present labels + 1; 0: none; -n: span n-1 is the first and has not begun
	creator     uint32
	interpreter uint32
	yielded     bool // has a sample that is no marker
	counted     bool // has one that is selected
}

// A file is the part that is being read.
type file struct {
	*Part
	facts    *facts
	slots    []slot
	frames   []uint32 // numbers in the stream
	stacks   []uint32 // numbers in the stream + 1; 0: not known yet
	creators []uint32 // numbers in the stream
}

// labels returns the present labels of a slot, nil if it has none.
func (f *file) labels(sl *slot) *Labels {
	if sl.span <= 0 {
		return nil
	}
	return f.facts.labels.get(f.facts.spans[sl.span-1].labels)
}

// read reads a part.
func (r *run) read(part int, yield func(*Sample, error) bool) error {
	p := r.parts[part]
	r.present = part
	var before *Part
	if part > 0 {
		before = r.parts[part-1]
	}
	p.Begin(before)
	pipe := r.pipes.open(part)
	facts := <-pipe.facts
	if facts == nil {
		return damage{pipe.factsErr}
	}
	f := &file{Part: p, facts: facts, creators: r.creators.add(facts.creators)}
	for _, frame := range p.Stream.Frames() {
		if frame.Line > 0 && reader.IsObject(&frame) {
			frame.Line = r.object(p, frame.Line)
		}
		f.frames = append(f.frames, r.frames.Intern(frame))
	}
	f.slots = r.slots[:0]
	if n := mostSlots(p); n > cap(f.slots) {
		f.slots = make([]slot, 0, n)
	}
	for b := range pipe.batches {
		if c := r.o.Context; c != nil && c.Err() != nil {
			return context.Cause(c)
		}
		if err := r.batch(f, b, yield); err != nil {
			return err
		}
		if c := r.chooser; c != nil && c.err != nil {
			return c.err
		}
		pipe.used.put(b)
		if r.o.Progress != nil {
			r.o.Progress(r.done, max(r.done, r.total))
		}
	}
	if pipe.err != nil {
		return damage{pipe.err}
	}
	r.pipes.done(part)
	r.slots = f.slots
	if part+1 < len(r.parts) {
		for i := range f.slots {
			sl := &f.slots[i]
			labels := f.labels(sl)
			if int64(f.End-sl.last) >= carryFor {
				labels = nil
			}
			r.seams.add(sl, labels)
		}
		r.seams.trim()
	}
	return nil
}

// batch yields the samples of a batch.
func (r *run) batch(f *file, b *reader.Batch, yield func(*Sample, error) bool) error {
	known := uint32(len(f.slots))
	for _, t := range b.Threads {
		f.slots = append(f.slots, slot{id: t.ID, interpreter: f.Interpreter(t.Interpreter)})
	}
	r.slotCount = len(f.slots)
	if n := len(b.Stacks) - len(f.stacks); n > 0 {
		f.stacks = append(f.stacks, make([]uint32, n)...)
	}
	r.done += uint64(len(b.Samples))
	var out Sample
	for i := range b.Samples {
		s := &b.Samples[i]
		sl := &f.slots[s.Thread]
		at := max(s.Time+f.Shift, sl.last) // in a damaged file time may go back
		weight := s.Weight(0, f.Header.Interval)
		if s.First {
			var before seamBefore
			weight, before = r.first(f, b.Threads[s.Thread-known].ID, s, sl, at)
			if before.missing > 0 {
				gap := Sample{Goroutine: sl.id, Interpreter: sl.interpreter, Slot: s.Thread, First: true, Creator: sl.creator, Time: at - weight}
				if !r.yieldGap(sl, &gap, before, yield) {
					return errStop
				}
			}
		}
		sl.last = at
		if int64(at-f.End) > 0 {
			f.End = at
		}
		if sl.span != 0 {
			f.label(sl, s.Time)
		}
		if out.Marker = r.session.Marker(sl.interpreter, s.Status); out.Marker && !r.o.Markers {
			continue
		}
		out.Goroutine, out.Interpreter, out.Slot, out.Status = sl.id, sl.interpreter, s.Thread, s.Status
		out.Labels, out.Creator, out.Time, out.Wall = f.labels(sl), sl.creator, at, reader.Micros(weight)
		if r.o.Markers {
			out.Time = s.Time + f.Shift // as it is
		}
		if stack := f.stacks[s.Stack]; stack != 0 {
			out.Stack = stack - 1
		} else {
			var err error
			if out.Stack, err = r.stack(f, b.Stacks, s.Stack); err != nil {
				return damage{err}
			}
		}
		if since := int64(min(at, r.limit) - r.start); since > int64(r.end) {
			r.end = uint64(since)
		}
		if r.chooser != nil && !r.chooser.yields(&out) {
			continue
		}
		if out.First = !sl.yielded; out.First || !sl.counted {
			r.countGoroutine(sl, &out)
		}
		if !yield(&out, nil) {
			return errStop
		}
	}
	return nil
}

// yieldGap yields a sample for time before a slot's first sample in the file that is in none of the
// files. It reports false if the loop wants no more samples.
func (r *run) yieldGap(sl *slot, s *Sample, before seamBefore, yield func(*Sample, error) bool) bool {
	s.Stack, s.Labels, s.Wall, s.Marker = r.gap, before.labels, reader.Micros(before.missing), r.session.Marker(sl.interpreter, 0)
	if s.Marker && !r.o.Markers || r.chooser != nil && !r.chooser.yields(s) {
		return true
	}
	r.countGoroutine(sl, s)
	return yield(s, nil)
}

// countGoroutine counts a goroutine at its first sample that is no marker and is selected.
func (r *run) countGoroutine(sl *slot, s *Sample) {
	sl.yielded = true
	if s.Unselected || s.Marker || sl.counted {
		return
	}
	sl.counted = true
	if r.session != nil && sl.interpreter == tachyon.Process {
		return
	}
	if r.known != nil {
		set := r.known[sl.interpreter]
		if set == nil {
			set = &idSet{}
			r.known[sl.interpreter] = set
		}
		if !set.add(sl.id) {
			return
		}
	}
	r.count++
}

// A seamBefore is the time between a thread's last sample in an earlier file and its first one in
// this file, as far as it is in none of the files.
type seamBefore struct {
	missing uint64 // µs
	labels  *Labels
}

// first begins a slot with the first sample of a thread in the file, which is at a time. raw is the
// thread's id in the file. It returns the sample's weight in µs, and what is missing before that.
func (r *run) first(f *file, raw uint64, s *reader.BatchSample, sl *slot, at uint64) (weight uint64, before seamBefore) {
	weight = s.Weight(0, f.Header.Interval)
	said, told := false, false
	if fact := f.facts.find(raw); fact != nil {
		weight, said = s.Weight(fact.weight, f.Header.Interval), fact.weight > 0
		fact.weight = 0 // a thread of another interpreter may have the same id
		told = fact.labels != 0
		sl.span, sl.creator = -max(0, fact.labels), f.creators[fact.creator]
	}
	if r.seams == nil {
		return weight, before
	}
	sl.id = r.Goroutine(raw)
	seam, ok := r.seams.find(sl.id, sl.interpreter)
	if !ok {
		return weight, before
	}
	if seam.labels != nil && !told { // the file says nothing about its labels
		f.facts.spans = append(f.facts.spans, span{labels: f.facts.labels.carry(seam.labels)})
		sl.span = int32(len(f.facts.spans))
	}
	begin := at - weight
	missing := f.missing(seam.last, begin, said)
	if missing == 0 {
		return (&reader.BatchSample{Since: at - seam.last}).Weight(0, 0), before
	}
	before = seamBefore{missing, seam.labels}
	if int64(begin-f.Header.Start-f.Shift) >= 0 {
		f.label(sl, begin-f.Shift)
		before.labels = f.labels(sl)
	}
	return weight, before
}

// label sets the labels that a slot has at a time of the file.
func (f *file) label(sl *slot, at uint64) {
	since := uint64(max(0, int64(at-f.Header.Start)))
	next := -sl.span
	if sl.span > 0 {
		next = f.facts.spans[sl.span-1].next
	}
	for next != 0 && f.facts.spans[next-1].from <= since {
		sl.span = next
		next = f.facts.spans[next-1].next
	}
}

// stack returns the number in the stream of a stack of the file.
func (r *run) stack(f *file, stacks []Stack, stack uint32) (uint32, error) {
	var path []uint32 // stacks that are not known yet, innermost first
	on := uint32(0)
	for ; stack != 0; stack = stacks[stack].Caller {
		if f.stacks[stack] != 0 {
			on = f.stacks[stack] - 1
			break
		}
		path = append(path, stack)
	}
	for _, stack := range slices.Backward(path) {
		frame := stacks[stack].Frame
		if uint64(frame) >= uint64(len(f.frames)) {
			return 0, fmt.Errorf("the stack refers to frame %d, but there are %d frames", frame, len(f.frames))
		}
		on = r.push(on, f.frames[frame])
		f.stacks[stack] = on + 1
	}
	return on, nil
}
