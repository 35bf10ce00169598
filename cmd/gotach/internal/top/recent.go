package top

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

const (
	// maxRecent is the number of samples that are kept, 32 bytes each.
	maxRecent = 3 << 20
	chunkSize = 1 << 13 // samples
)

// recent has the latest samples of a session, as many as fit into maxRecent. Older ones are dropped.
type recent struct {
	parts []*part // files of the session, or pieces of it, in order of time; at least one after the first sample
	count int     // samples in all parts
	most  int
	cut   uint64 // µs; samples up to this time were dropped for want of room
	from  uint64 // of the earliest file, µs
	to    uint64 // of the latest sample, µs

	behind uint64 // µs; see behind
}

// behind is how far the window of a running program is behind its latest sample, in µs. Goroutines that wait may
// be sampled only every few seconds. A window must not lose them after their latest sample, nor keep
// those that have ended. The end of a goroutine is in the file up to two seconds later.
const behind = 2_100_000

// A part has the latest samples of one file.
type part struct {
	header  tachyon.Header
	session *tachyon.Session // may be nil
	frames  []tachyon.Frame
	stacks  []reader.Stack
	threads []reader.Thread
	latest  []latest // by thread
	chunks  []*chunk
	running bool // the file is being written

	goroutines map[uint64]fact
	kept       int // how many goroutines forget kept
	creations  []creation
	number     map[creation]uint32
	objects    map[int32]*tachyon.Object
	marks      []mark // in order of time
}

// A fact is what is known about a goroutine.
type fact struct {
	parent   uint64 // goroutine that created it; 0: unknown
	creation uint32 // index into creations + 1; 0: unknown
	weight   uint32 // µs, of its first sample in the file; 0: unknown
	last     uint64 // µs since the start of the file: its latest sample when the sampler told about it for the last time
}

// A mark is what the CPU quota had taken from the program at a time.
type mark struct {
	at      uint64 // µs since the start of the file
	periods int64
	time    time.Duration
}

const (
	maxMarks = 1 << 12
	// nearMarks is the time between marks, in µs, for which what the quota took may be spread evenly.
	nearMarks = 5_000_000
	// mostMarks is the part of a longer time that must be in the window for that.
	mostMarks = 0.9
)

// mark notes what the session says now.
func (p *part) mark() {
	if p.session == nil {
		return
	}
	at := uint64(max(0, p.session.Duration.Microseconds()))
	if at <= p.marks[len(p.marks)-1].at {
		return
	}
	if len(p.marks) == maxMarks {
		p.marks = slices.Delete(p.marks, 0, maxMarks/2)
	}
	p.marks = append(p.marks, mark{at, p.session.ThrottledPeriods, p.session.Throttled})
}

// throttled returns what the CPU quota took between two times in µs. Where marks are far apart, nobody knows when that was.
func (p *part) throttled(from, to uint64) (periods int64, d time.Duration) {
	for i, b := range p.marks[1:] {
		a := p.marks[i]
		begin, end := p.header.Start+a.at, p.header.Start+b.at
		within := float64(min(to, end)-min(to, end, max(from, begin))) / float64(b.at-a.at)
		if within >= mostMarks || b.at-a.at <= nearMarks {
			periods += int64(math.Round(within * float64(b.periods-a.periods)))
			d += time.Duration(within * float64(b.time-a.time))
		}
	}
	return periods, d
}

// A latest is the latest sample of a thread.
type latest struct {
	time   uint64 // µs; 0: it has ended, as far as is known
	stack  uint32
	status tachyon.Status
}

type creation struct{ by, at string }

// A chunk has samples of any threads. Those of a thread are in order of time.
type chunk struct {
	list     []reader.BatchSample
	from, to uint64 // between which is the time for which they stand
}

func newRecent() *recent { return &recent{most: maxRecent, behind: behind} }

// reset drops all samples.
func (r *recent) reset() { *r = recent{most: r.most, behind: r.behind} }

// end returns where the latest window of a running program ends, in µs.
func (r *recent) end() uint64 { return r.to - min(r.behind, (r.to-min(r.to, r.from))/2) }

// unsure reports whether goroutines that seem to wait at a time may have ended before it: the session is young.
func (r *recent) unsure(to uint64) bool {
	return r.parts[len(r.parts)-1].running && r.to < to+r.behind
}

func newPart() *part {
	return &part{goroutines: map[uint64]fact{}, number: map[creation]uint32{}, objects: map[int32]*tachyon.Object{}, marks: make([]mark, 1)}
}

// add adds a batch of a part.
func (r *recent) add(p *part, b *reader.Batch) {
	p.threads = append(p.threads, b.Threads...)
	p.latest = append(p.latest, make([]latest, len(p.threads)-len(p.latest))...)
	p.stacks = b.Stacks
	for i := range b.Samples {
		s := &b.Samples[i]
		var c *chunk
		if n := len(p.chunks); n > 0 && len(p.chunks[n-1].list) < chunkSize {
			c = p.chunks[n-1]
		} else {
			c = &chunk{list: make([]reader.BatchSample, 0, chunkSize), from: math.MaxUint64}
			p.chunks = append(p.chunks, c)
		}
		c.list = append(c.list, *s)
		p.latest[s.Thread] = latest{s.Time, s.Stack, s.Status}
		c.from, c.to = min(c.from, p.earliest(s)), max(c.to, s.Time)
		r.to = max(r.to, s.Time)
	}
	if r.count += len(b.Samples); r.count > r.most {
		r.shrink()
	}
}

// shrink drops the oldest quarter of the samples. They may be anywhere: in a file the samples of goroutines that
// wait come long after others of the same time.
func (r *recent) shrink() {
	const every = 64
	var times []uint64
	for _, p := range r.parts {
		for _, c := range p.chunks {
			for i := 0; i < len(c.list); i += every {
				times = append(times, c.list[i].Time)
			}
		}
	}
	slices.Sort(times)
	r.cut = max(r.cut, times[len(times)/4])
	r.count = 0
	for _, p := range r.parts {
		p.drop(r.cut)
		for _, c := range p.chunks {
			r.count += len(c.list)
		}
	}
	for len(r.parts) > 1 && len(r.parts[0].chunks) == 0 {
		r.parts = slices.Delete(r.parts, 0, 1)
	}
}

// drop drops the samples up to a time. It puts what is left of chunks together.
func (p *part) drop(until uint64) {
	kept := p.chunks[:0]
	for _, c := range p.chunks {
		if c.from < until {
			list := c.list[:0]
			c.from, c.to = math.MaxUint64, 0
			for _, s := range c.list {
				if s.Time > until {
					list = append(list, s)
					c.from, c.to = min(c.from, p.earliest(&s)), max(c.to, s.Time)
				}
			}
			c.list = list
		}
		if len(c.list) == 0 {
			continue
		}
		if n := len(kept); n > 0 && len(kept[n-1].list)+len(c.list) <= chunkSize {
			into := kept[n-1]
			into.list = append(into.list, c.list...)
			into.from, into.to = min(into.from, c.from), max(into.to, c.to)
			continue
		}
		kept = append(kept, c)
	}
	clear(p.chunks[len(kept):])
	p.chunks = kept
}

// forget drops the facts about goroutines without samples, if there are many.
func (p *part) forget() {
	if len(p.goroutines) < max(1<<16, 2*p.kept) {
		return
	}
	keep := map[uint64]fact{}
	for n := range p.latest {
		if p.latest[n].time != 0 {
			id := p.threads[n].ID
			if f, ok := p.goroutines[id]; ok {
				keep[id] = f
			}
		}
	}
	for _, c := range p.chunks {
		for i := range c.list {
			id := p.threads[c.list[i].Thread].ID
			if f, ok := p.goroutines[id]; ok {
				keep[id] = f
			}
		}
	}
	p.goroutines, p.kept = keep, len(keep)
}

// goroutine adds what is known about a goroutine.
func (p *part) goroutine(g *tachyon.Goroutine) {
	f := p.goroutines[g.ID]
	if g.CreatedBy != "" || g.CreatedAt != "" {
		c := creation{g.CreatedBy, g.CreatedAt}
		n, ok := p.number[c]
		if !ok {
			p.creations = append(p.creations, c)
			n = uint32(len(p.creations))
			p.number[c] = n
		}
		f.creation = n
	}
	f.parent = cmp.Or(f.parent, g.Parent)
	if g.FirstWeight > 0 {
		f.weight = uint32(min(g.FirstWeight, math.MaxUint32))
	}
	f.last = max(f.last, g.Last)
	p.goroutines[g.ID] = f
}

// waiting returns samples at a time for the goroutines that were seen waiting before it and still do: when they
// end, the sampler says so.
func (p *part) waiting(to uint64) (list []reader.BatchSample) {
	for n := range p.latest {
		l := &p.latest[n]
		if l.time == 0 || l.time >= to || l.status&(tachyon.OnCPU|tachyon.HasGIL|tachyon.GILRequested) != 0 || p.threads[n].Interpreter != tachyon.User {
			continue
		}
		f, ok := p.goroutines[p.threads[n].ID]
		if !ok {
			continue
		}
		if l.time-min(l.time, p.header.Start) <= f.last {
			l.time = 0 // it has ended, or it has no sample since the sampler told about it for the first time
			continue
		}
		list = append(list, reader.BatchSample{Time: to, Since: to - l.time, Thread: uint32(n), Stack: l.stack, Status: l.status})
	}
	return list
}

// object adds a description of an object.
func (p *part) object(o *tachyon.Object) { p.objects[o.Number] = o }

// weight returns for how much time a sample stands, in µs.
func (p *part) weight(s *reader.BatchSample) uint64 {
	said := uint32(0)
	if s.First {
		said = p.goroutines[p.threads[s.Thread].ID].weight
	}
	return s.Weight(uint64(said), p.header.Interval)
}

// earliest returns a time at or before the beginning of the time for which a sample stands. The weight of a first
// sample may not be known yet.
func (p *part) earliest(s *reader.BatchSample) uint64 {
	if s.First {
		return min(p.header.Start, s.Time)
	}
	return s.Time - min(s.Time, s.Since)
}

// window returns the samples of the time between two times in µs.
func (r *recent) window(from, to uint64) []stream.File {
	var list []stream.File
	for i, p := range r.parts {
		w := &window{part: p, from: max(from, p.header.Start), to: to}
		if i+1 < len(r.parts) { // the file of a rotation ends where the next one begins
			w.to = min(to, r.parts[i+1].header.Start)
		}
		if w.from < w.to || i+1 == len(r.parts) {
			if p.running {
				w.waits = p.waiting(w.to)
			}
			w.number = len(list) + 1
			w.first = r.parts[0]
			list = append(list, stream.File{Stream: w})
		}
	}
	return list
}

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

// each calls use with the samples in the window. Of their time only what is in the window is left: the
// weight in µs, which ends at the given time.
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

// A stay is when a thread has samples in a window.
type stay struct {
	thread      uint32
	weight      uint64 // of the first one
	first, last uint64 // since the beginning of the window
}

// stays returns those of all threads in the window.
func (w *window) stays() (list []stay) {
	number := make([]uint32, len(w.threads)) // index into list + 1
	w.each(func(s *reader.BatchSample, at, weight uint64) bool {
		n := number[s.Thread]
		if n == 0 {
			list = append(list, stay{thread: s.Thread, weight: weight, first: at - w.from})
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
	for _, x := range w.stays() {
		list = append(list, reader.FirstWeight{Goroutine: w.threads[x.thread].ID, Weight: x.weight})
	}
	slices.SortStableFunc(list, func(a, b reader.FirstWeight) int { return cmp.Compare(a.Goroutine, b.Goroutine) })
	return list, nil
}

// Goroutines yields when goroutines were seen in the window, the weights of their first samples in it, and who created them where.
// There are no labels.
func (w *window) Goroutines() iter.Seq2[*tachyon.Goroutine, error] {
	return func(yield func(*tachyon.Goroutine, error) bool) {
		for _, x := range w.stays() {
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

// trim drops the oldest parts if there are more than so many.
func (r *recent) trim(most int) {
	for len(r.parts) > most {
		for _, c := range r.parts[0].chunks {
			r.count -= len(c.list)
			r.cut = max(r.cut, c.to)
		}
		r.parts = r.parts[1:]
	}
}
