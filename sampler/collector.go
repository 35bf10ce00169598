package sampler

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/internal/prefetch"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// What a long session may remember. At these bounds goroutines take some
// 20 MB, label spans as much again (the sources share equal label sets).
const (
	maxEnded      = 100_000 // goroutines that have ended
	maxSpans      = 200_000 // label spans, of all goroutines
	maxOwnerSpans = 10_000  // label spans of one goroutine
	maxLeaving    = 100_000 // goroutines that have ended and may have a sample to come
)

// maxBatch is how many samples the sink is given at once.
const maxBatch = 128

// collector turns what a source sees into samples for the sink, and keeps
// what is known of each goroutine. The source calls it from one goroutine at a
// time; the atomics are what Stats reads meanwhile.
type collector struct {
	sink     Sink
	batch    []tachyon.Sample // for the sink
	base     uint64           // µs, the wall clock at time 0
	interval uint64           // µs, what a goroutine's first sample stands for
	known    map[uint64]*goroutine
	latest   *goroutine // whose sample came last, or nil
	pcs      map[uint64]*tachyon.LeafPC
	ended    int
	spans    int

	now     time.Duration // of the latest sample
	grace   time.Duration // how long after its end a goroutine is forgotten
	leaving []uint64      // goroutines that have ended and are not forgotten, in order

	part  time.Duration  // when the part of the session began that is collected
	stats func() Stats   // of the whole session
	told  tachyon.Counts // what stats said at the end of the part before

	samples       atomic.Int64
	live, most    atomic.Int64
	omitted       atomic.Int64
	labelsOmitted atomic.Int64

	fail   sync.Once
	failed chan struct{} // closed after first is set
	first  error
}

// goroutine is what is known of one goroutine.
type goroutine struct {
	source.Goroutine
	next        *goroutine      // whose sample came after this one's, last time
	leaf        *tachyon.LeafPC // of its last sample, if the source told it
	ended       bool
	gone        time.Duration // when it was seen to have ended
	retired     bool          // counted in collector.ended
	forgotten   bool          // by the sink: no more samples of it
	revived     bool          // seen again after its end, and not sampled or labelled since
	seen        bool
	sampled     bool          // in this part
	full        bool          // no more label spans for it
	interpreter uint32        // of its samples
	first, last time.Duration // of this part's samples; last of earlier ones if there are none
	weight      uint64        // µs, of the part's first sample; 0: an interval
	labels      []tachyon.LabelSpan
}

// find returns what is known of a goroutine, nil if nothing is. Ticks see the
// same goroutines in about the same order, so the one that came next last time is
// tried before the map is asked, and the one after it is fetched: what is
// known of many goroutines is not in the processor's caches, and to wait for
// it would be most of a sample's cost.
func (c *collector) find(id uint64) *goroutine {
	latest := c.latest
	if latest != nil {
		if n := latest.next; n != nil && n.ID == id {
			prefetch.Value(n.next)
			c.latest = n
			return n
		}
	}
	k := c.known[id]
	if k != nil {
		if latest != nil {
			latest.next = k
		}
		c.latest = k
	}
	return k
}

// drop forgets all that is known of a goroutine. Nothing leads from it to
// another, or one that is gone could keep alive all that came after it.
func (c *collector) drop(k *goroutine) {
	delete(c.known, k.ID)
	k.ID, k.next, k.leaf = 0, nil, nil // which no goroutine has
	if c.latest == k {
		c.latest = nil
	}
}

// newCollector's rate is in ticks a second.
func newCollector(sink Sink, start time.Time, rate int) *collector {
	return &collector{
		sink:     sink,
		batch:    make([]tachyon.Sample, 0, maxBatch),
		base:     uint64(start.UnixMicro()),
		interval: 1e6 / uint64(max(rate, 1)),
		known:    make(map[uint64]*goroutine),
		pcs:      make(map[uint64]*tachyon.LeafPC),
		grace:    2 * time.Second,
		failed:   make(chan struct{}),
	}
}

// Fail remembers the first error and has the watcher stop the source.
func (c *collector) Fail(err error) {
	c.fail.Do(func() {
		if err == nil {
			err = errors.New("the source failed and did not say why")
		}
		c.first = err
		close(c.failed)
	})
}

// err returns the first error, nil while there is none.
func (c *collector) err() error {
	select {
	case <-c.failed:
		return c.first
	default:
		return nil
	}
}

func (c *collector) Frame(f tachyon.Frame) uint32 { return c.sink.Intern(f) }

// Batch calls f, in which a source hands over the samples of one pass. Afterwards all of
// them are with the sink.
func (c *collector) Batch(f func()) {
	if c.err() == nil && c.sink.Full() {
		c.sink.Next(c.seam(), c.cut)
	}
	f()
	c.flush()
}

// flush gives the sink the samples that wait for it.
func (c *collector) flush() {
	if len(c.batch) == 0 {
		return
	}
	if c.err() == nil {
		n, err := c.sink.WriteBatch(c.batch)
		c.samples.Add(int64(n))
		if err != nil {
			c.Fail(err)
		}
	}
	c.batch = c.batch[:0]
}

func (c *collector) Goroutine(g source.Goroutine) bool {
	if own.Created(g.CreatedBy) {
		return false
	}
	if k := c.known[g.ID]; k != nil {
		// The runtime's finalizer goroutine and those that C calls in on come
		// and go under one id.
		if k.ended && !k.forgotten {
			if k.retired {
				c.ended--
			}
			k.ended, k.retired, k.revived = false, false, true
			c.alive(+1)
		}
		return true
	}
	c.known[g.ID] = &goroutine{Goroutine: g}
	c.alive(+1)
	return true
}

func (c *collector) alive(d int64) {
	if n := c.live.Add(d); n > c.most.Load() {
		c.most.Store(n)
	}
}

func (c *collector) Gone(id uint64) {
	k := c.known[id]
	if k == nil || k.ended {
		return
	}
	k.ended = true
	c.alive(-1)
	switch {
	case !k.seen:
		c.drop(k)
	case once(k.CreatedBy):
		k.gone = c.now
		c.leaving = append(c.leaving, id)
		c.sweep()
	default:
		c.retire(k)
	}
}

// sweep forgets goroutines that ended a while ago. The native source can hand
// over a last sample of a goroutine after it saw its end: the thread that was asked
// for it had to wait for a core.
func (c *collector) sweep() {
	for len(c.leaving) > 0 {
		k := c.known[c.leaving[0]]
		full := len(c.leaving) > maxLeaving
		if k != nil && k.ended && !full && c.now-k.gone < c.grace {
			return
		}
		c.leaving = c.leaving[1:]
		if k != nil && k.ended && !k.forgotten && (full || c.now-k.gone >= c.grace) {
			k.forgotten = true
			c.forget(k)
			c.retire(k)
		}
	}
}

// retire counts a goroutine among those that have ended, or leaves it out if
// there are too many.
func (c *collector) retire(k *goroutine) {
	if c.ended >= maxEnded {
		c.drop(k)
		c.spans -= len(k.labels)
		c.omitted.Add(1)
		c.labelsOmitted.Add(int64(len(k.labels)))
		return
	}
	c.ended++
	k.retired = true
	k.labels = slices.Clip(k.labels)
}

// once says of a goroutine, by the function that created it, that its id will
// not come again. The runtime counts ids up for every go statement, but the
// goroutines that it keeps for finalizers and for callbacks from C, which have no
// creator or one in the runtime, end and begin under one id.
func once(createdBy string) bool {
	return createdBy != "" && !strings.HasPrefix(createdBy, "runtime.")
}

// forget lets the sink drop what it keeps of a goroutine.
func (c *collector) forget(k *goroutine) {
	c.flush() // the samples that it has not got yet come first
	if c.err() != nil {
		return
	}
	if err := c.sink.Forget(k.ID, k.interpreter); err != nil {
		c.Fail(err)
	}
}

func (c *collector) Labels(id uint64, t time.Duration, labels map[string]string) {
	k := c.known[id]
	if k == nil {
		return
	}
	k.revived = false
	if k.full {
		c.labelsOmitted.Add(1)
		return
	}
	if c.spans >= maxSpans || len(k.labels) >= maxOwnerSpans-1 {
		// No labels is less wrong from here on than the last ones kept.
		k.full = true
		c.labelsOmitted.Add(1)
		labels = nil
	}
	if n := len(k.labels); n == 0 && len(labels) == 0 || n > 0 && maps.Equal(k.labels[n-1].Labels, labels) {
		return
	}
	if labels == nil {
		labels = map[string]string{}
	}
	c.spans++
	k.labels = append(k.labels, tachyon.LabelSpan{From: micros(t - c.part), Labels: labels})
}

func (c *collector) Sample(s *source.Sample) {
	k := c.find(s.Goroutine)
	c.now = max(c.now, s.Time)
	if k != nil && k.forgotten || c.err() != nil {
		return
	}
	weight := c.weigh(k, s)
	if s.Leaf != 0 {
		c.count(k, s, weight)
	}
}

// weigh records a sample and returns the time in µs that it stands for.
func (c *collector) weigh(k *goroutine, s *source.Sample) (weight uint64) {
	tick := time.Duration(c.interval) * time.Microsecond
	from := max(s.Time-s.Gap, 0) + tick
	if k == nil || k.seen || from > s.Time-tick/2 {
		return c.write(k, s)
	}
	// Whoever reads a file takes a goroutine's first sample for an interval. What it stands
	// for is more, so there is one more, at the beginning of it; or where that is before
	// the file, the metadata say how much.
	weight = micros(s.Time) - micros(from) + c.interval
	if from < c.part {
		c.write(k, s)
		k.weight = weight
	} else {
		first := *s
		first.Time = from
		c.write(k, &first)
		c.write(k, s)
	}
	return weight
}

// write gives the sink a sample of a goroutine, of which k is what is known, if anything is.
// It returns the time in µs since the goroutine's previous sample.
func (c *collector) write(k *goroutine, s *source.Sample) (weight uint64) {
	weight = c.interval
	if k != nil {
		if k.seen {
			weight = micros(max(s.Time, k.last)) - micros(k.last)
		}
		if !k.sampled {
			k.sampled = true
			k.first = s.Time
			if k.seen {
				k.weight = weight
			}
			k.seen = true
		}
		if k.revived {
			c.Labels(k.ID, s.Time, nil) // the source forgot them, too, and has not told new ones
		}
		k.last = s.Time
	}
	interpreter := uint32(0)
	if s.System {
		interpreter = 1
	}
	if k != nil {
		k.interpreter = interpreter
	}
	c.batch = append(c.batch, tachyon.Sample{
		Thread:      s.Goroutine,
		Interpreter: interpreter,
		Status:      s.Status,
		Time:        c.base + micros(s.Time),
		Stack:       s.Stack,
	})
	if len(c.batch) == maxBatch {
		c.flush()
	}
	return weight
}

// count counts a sample's leaf address.
func (c *collector) count(k *goroutine, s *source.Sample, weight uint64) {
	var p *tachyon.LeafPC
	if k != nil && k.leaf != nil && k.leaf.Addr == s.Leaf {
		p = k.leaf
	} else {
		if p = c.pcs[s.Leaf]; p == nil {
			p = &tachyon.LeafPC{Addr: s.Leaf}
			c.pcs[s.Leaf] = p
		}
		if k != nil {
			k.leaf = p
		}
	}
	if p.Wall < math.MaxUint32 {
		p.Wall++
	}
	p.WallTime += weight
	if s.Status&tachyon.OnCPU != 0 {
		if p.CPU < math.MaxUint32 {
			p.CPU++
		}
		p.CPUTime += weight
	}
}

func (c *collector) goroutines() []tachyon.Goroutine {
	list := make([]tachyon.Goroutine, 0, len(c.known))
	for _, k := range c.known {
		if !k.sampled {
			continue
		}
		list = append(list, tachyon.Goroutine{
			ID:          k.ID,
			Parent:      k.Parent,
			CreatedBy:   k.CreatedBy,
			CreatedAt:   k.CreatedAt,
			First:       micros(k.first - c.part),
			Last:        micros(k.last - c.part),
			FirstWeight: k.weight,
			Labels:      k.labels,
		})
	}
	slices.SortFunc(list, func(a, b tachyon.Goroutine) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

func (c *collector) leafPCs() *tachyon.LeafPCs {
	if len(c.pcs) == 0 {
		return nil
	}
	l := &tachyon.LeafPCs{PCs: make([]tachyon.LeafPC, 0, len(c.pcs))}
	for _, addr := range slices.Sorted(maps.Keys(c.pcs)) {
		l.PCs = append(l.PCs, *c.pcs[addr])
	}
	return l
}

func micros(d time.Duration) uint64 { return uint64(max(d, 0).Microseconds()) }
