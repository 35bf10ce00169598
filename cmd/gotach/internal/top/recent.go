package top

import (
	"cmp"
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

// recent has the latest samples of a session, as many as fit into maxRecent. Older ones are
// dropped.
type recent struct {
	parts []*part // files of the session, or pieces of it, in order of time; at least one after the first sample
	count int     // samples in all parts
	most  int
	cut   uint64 // µs; samples up to this time were dropped for want of room
	from  uint64 // of the earliest file, µs
	to    uint64 // of the latest sample, µs

	behind uint64 // µs; see behind
}

// behind is how far the window of a running program is behind its latest sample, in µs. Goroutines
// that wait may be sampled only every few seconds. A window must not lose them after their latest
// sample, nor keep those that have ended. The end of a goroutine is in the file up to two seconds
// later.
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
	// nearMarks is the time between marks, in µs, for which what the quota took may be spread
	// evenly.
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

// throttled returns what the CPU quota took between two times in µs. Where marks are far apart,
// nobody knows when that was.
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

// unsure reports whether goroutines that seem to wait at a time may have ended before it: the
// session is young.
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

// shrink drops the oldest quarter of the samples. They may be anywhere: in a file the samples of
// goroutines that wait come long after others of the same time.
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

// waiting returns samples at a time for the goroutines that were seen waiting before it and still
// do: when they end, the sampler says so.
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

// earliest returns a time at or before the beginning of the time for which a sample stands. The
// weight of a first sample may not be known yet.
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
