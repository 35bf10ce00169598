package top

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/tachyon"
)

// A window is the samples of a part in some time, as a stream.
type window struct {
	*part
	first    *part
	number   int
	from, to uint64               // µs
	waits    []reader.BatchSample // at the end, of goroutines that have no sample there
}

// Header implements reader.Stream.
func (w *window) Header() tachyon.Header {
	return tachyon.Header{Layout: tachyon.Document, Start: w.from, Interval: w.header.Interval}
}

// Frames implements reader.Stream.
func (w *window) Frames() []tachyon.Frame { return w.frames }

// Overview returns what is known about the session as a whole.
func (w *window) Overview() (*tachyon.Metadata, error) {
	if w.session == nil {
		return &tachyon.Metadata{}, nil
	}
	s := *w.session
	s.Start, s.Duration = microTime(w.from), reader.Micros(w.to-min(w.to, w.from))
	s.Part, s.SessionStart = w.number, microTime(w.first.header.Start)
	s.Counts = tachyon.Counts{TicksAsked: s.TicksAsked, TicksReached: s.TicksReached} // nobody knows the others for the window
	s.ThrottledPeriods, s.Throttled = w.throttled(w.from, w.to)
	return &tachyon.Metadata{Session: &s}, nil
}

// each calls use with the samples in the window. Of their time only what is in the window is left:
// the weight in µs, which ends at the given time.
func (w *window) each(use func(s *reader.BatchSample, at, weight uint64) bool) {
	for _, c := range w.chunks {
		if c.to > w.from && c.from < w.to && !w.some(c.list, use) {
			return
		}
	}
	w.some(w.waits, use)
}

// some is each for some samples. It returns false if no more are wanted.
func (w *window) some(list []reader.BatchSample, use func(s *reader.BatchSample, at, weight uint64) bool) bool {
	for i := range list {
		s := &list[i]
		if s.Time <= w.from {
			continue
		}
		weight := w.weight(s)
		begin, at := max(w.from, s.Time-min(s.Time, weight)), min(s.Time, w.to)
		if begin < w.to && !use(s, at, at-begin) {
			return false
		}
	}
	return true
}

// Batches yields the samples as reader.Reader does.
func (w *window) Batches(get func() *reader.Batch, _ uint64) iter.Seq2[*reader.Batch, error] {
	if get == nil {
		get = func() *reader.Batch { return &reader.Batch{} }
	}
	return func(yield func(*reader.Batch, error) bool) {
		numbers := make([]uint32, len(w.threads)) // in the window, + 1
		next := uint32(0)
		var b *reader.Batch
		begin := func() {
			b = get()
			b.Samples, b.Threads, b.Stacks = b.Samples[:0], b.Threads[:0], w.stacks
		}
		begin()
		stopped := false
		w.each(func(s *reader.BatchSample, at, weight uint64) bool {
			n := numbers[s.Thread]
			first := n == 0
			if first {
				next++
				n = next
				numbers[s.Thread] = n
				b.Threads = append(b.Threads, w.threads[s.Thread])
			}
			b.Samples = append(b.Samples, reader.BatchSample{Time: at, Since: weight, Thread: n - 1, Stack: s.Stack, Status: s.Status, First: first})
			if len(b.Samples) < 2048 {
				return true
			}
			if !yield(b, nil) {
				stopped = true
				return false
			}
			begin()
			return true
		})
		if !stopped && len(b.Samples) > 0 {
			yield(b, nil)
		}
	}
}

// A lifetime is when a thread has samples in a window.
type lifetime struct {
	thread      uint32
	weight      uint64 // of the first one
	first, last uint64 // since the beginning of the window
}

// lifetimes returns those of all threads in the window.
func (w *window) lifetimes() (list []lifetime) {
	number := make([]uint32, len(w.threads)) // index into list + 1
	w.each(func(s *reader.BatchSample, at, weight uint64) bool {
		n := number[s.Thread]
		if n == 0 {
			list = append(list, lifetime{thread: s.Thread, weight: weight, first: at - w.from})
			n = uint32(len(list))
			number[s.Thread] = n
		}
		list[n-1].last = at - w.from
		return true
	})
	return list
}

// FirstWeights returns the weights of the first samples in the window, by goroutine.
func (w *window) FirstWeights() ([]reader.FirstWeight, error) {
	var list []reader.FirstWeight
	for _, x := range w.lifetimes() {
		list = append(list, reader.FirstWeight{Goroutine: w.threads[x.thread].ID, Weight: x.weight})
	}
	slices.SortStableFunc(list, func(a, b reader.FirstWeight) int { return cmp.Compare(a.Goroutine, b.Goroutine) })
	return list, nil
}

// Goroutines yields when goroutines were seen in the window, the weights of their first samples in
// it, and who created them where. There are no labels.
func (w *window) Goroutines() iter.Seq2[*tachyon.Goroutine, error] {
	return func(yield func(*tachyon.Goroutine, error) bool) {
		for _, x := range w.lifetimes() {
			f := w.goroutines[w.threads[x.thread].ID]
			g := tachyon.Goroutine{ID: w.threads[x.thread].ID, Parent: f.parent, First: x.first, Last: x.last, FirstWeight: x.weight}
			if f.creation > 0 {
				c := &w.creations[f.creation-1]
				g.CreatedBy, g.CreatedAt = c.by, c.at
			}
			if !yield(&g, nil) {
				return
			}
		}
	}
}

// Objects yields the objects so far.
func (w *window) Objects() iter.Seq2[*tachyon.Object, error] {
	return func(yield func(*tachyon.Object, error) bool) {
		for _, n := range slices.Sorted(maps.Keys(w.objects)) {
			if !yield(w.objects[n], nil) {
				return
			}
		}
	}
}

// Stops yields nothing: top does not count stops.
func (w *window) Stops() iter.Seq2[*tachyon.Stops, error] {
	return func(func(*tachyon.Stops, error) bool) {}
}

// Size implements reader.Stream: what is in memory was counted when it was read.
func (w *window) Size() int64 { return math.MaxInt64 }

// Compact implements reader.Stream.
func (w *window) Compact() {}
