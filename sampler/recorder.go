package sampler

import (
	"errors"
	"math"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gotach/profiler/internal/objects"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// maxBatch is the number of samples in a call of Sink.WriteBatch.
const maxBatch = 128

// recorder is the source's [source.Out]. It passes samples to the sink in batches, and keeps the
// metadata of each living goroutine. The source calls it from one goroutine at a time. Stats may
// read the atomics at the same time.
type recorder struct {
	sink     Sink
	batch    []tachyon.Sample // samples that the sink does not have yet
	base     uint64           // wall clock at time 0, µs
	interval uint64           // between two ticks, µs; the weight of a goroutine's first sample
	system   bool             // waits of the runtime's goroutines count
	known    map[uint64]*goroutine
	latest   *goroutine // the one whose sample came last, or nil
	pcs      map[uint64]*tachyon.LeafPC
	objects  objects.Told

	now       time.Duration    // time of the latest sample
	owed      [2]time.Duration // what the first samples up to now have too little weight, or too much; of those on the CPU apart
	grace     time.Duration    // a goroutine is forgotten so long after its end
	leaving   []*goroutine     // those that have ended and are not forgotten, in order
	forgotten forgotten

	queue      []*goroutine        // goroutines with news, the oldest first
	records    []tachyon.Goroutine // that the sink does not have yet
	stops      stopCounts
	progressed time.Duration // when the sink got the progress after a pass
	midway     time.Duration // when this pass began, or when the sink got a progress within it; 0: it has no samples yet

	part   time.Duration          // start of this part of the session
	look   func() <-chan struct{} // asks the source for a sample of every goroutine
	looked <-chan struct{}        // nil: the sink is not full
	full   time.Duration          // when it was found to be
	stats  func() Stats           // returns the stats of the whole session
	told   tachyon.Counts         // counts of the previous parts

	followers followers
	reaches   reaches // of the sink

	samples    atomic.Int64
	dropped    atomic.Int64  // samples that the sink has not taken
	unwritten  atomic.Int64  // the time of these, in ns
	passed     time.Duration // time of the latest sample when the sink last got some
	losing     bool          // the sink does not take samples at present
	live, most atomic.Int64

	fail   sync.Once
	failed chan struct{} // closed after first is set
	first  error
}

// newRecorder returns a recorder for a session that begins at start. The rate is in
// ticks a second.
func newRecorder(sink Sink, start time.Time, rate int) *recorder {
	return &recorder{
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

// Fail keeps the first error; the watcher then stops the source.
func (r *recorder) Fail(err error) {
	r.fail.Do(func() {
		if err == nil {
			err = errors.New("the source failed without an error")
		}
		r.first = err
		close(r.failed)
	})
}

// err returns the first error, or nil.
func (r *recorder) err() error {
	select {
	case <-r.failed:
		return r.first
	default:
		return nil
	}
}

// Frame returns the sink's id of a frame.
func (r *recorder) Frame(f tachyon.Frame) uint32 { return r.sink.Intern(f) }

// Batch calls f, which passes the samples of one pass to the recorder. When Batch returns the
// sink has all of them, and the news about goroutines that are old enough.
func (r *recorder) Batch(f func()) {
	ends := r.ends()
	r.reaches.take()
	r.followers.batch()
	r.midway = 0
	f()
	r.flush()
	r.tell(len(r.reaches.taken) > 0)
	r.tellStops(len(r.reaches.taken) > 0)
	if len(r.reaches.taken) > 0 {
		r.progress()
	}
	r.reaches.answer()
	r.followers.batched()
	if ends && r.err() == nil {
		r.sink.Next(r.seam(), r.cut)
	}
	r.fills()
}

// flush passes the waiting samples to the sink.
func (r *recorder) flush() {
	if len(r.batch) == 0 {
		return
	}
	if r.err() == nil && len(r.objects.Fresh) > 0 {
		r.writeRecords(&tachyon.Records{Objects: r.objects.Fresh})
		r.objects.Fresh = r.objects.Fresh[:0]
	}
	if r.err() == nil {
		n, err := r.sink.WriteBatch(r.batch)
		r.samples.Add(int64(n))
		if r.losing = err == nil && n < len(r.batch); r.losing {
			r.dropped.Add(int64(len(r.batch) - n))
			r.unwritten.Add(int64(r.now - r.passed))
		}
		r.passed = r.now
		if err != nil {
			r.Fail(err)
		}
	}
	r.batch = r.batch[:0]
	r.tell(false) // not only in Batch, because a pass can be long
	r.counting()
}

// Sample records a sample, unless the sink has forgotten its goroutine.
func (r *recorder) Sample(s *source.Sample) {
	k := r.find(s.Goroutine)
	r.now = max(r.now, s.Time)
	if k == nil && r.forgotten.has(s.Goroutine) || r.err() != nil {
		return
	}
	if k != nil && s.Stops.N > 0 {
		r.countStops(k, s.Stops)
	}
	if k != nil && k.seen && micros(s.Time) <= micros(k.last) {
		return // files have times in µs, and no weight is left for this one
	}
	for _, f := range r.followers.seen {
		f.sample(k, s)
	}
	if s.Object != nil {
		r.objects.Use(s.Object)
	}
	weight := r.weigh(k, s)
	r.write(k, s, s.Time)
	// As for readers, samples of the runtime's goroutines that only mark where CPU time begins
	// have no time.
	if marker := s.System && !r.system && s.Status&tachyon.OnCPU == 0; s.Leaf != 0 && !marker && !r.losing {
		r.count(k, s, weight)
	}
}

// weigh returns a sample's weight in µs. Readers give a goroutine's first sample in a file the
// weight of one interval, and every other sample the time since the previous one. If a first sample
// has another weight, weigh makes it known to readers: it writes one more sample at the beginning
// of that time, or, if that is before this part of the session, it puts the weight into the
// metadata. If the difference is less than half an interval, the sample has one interval, and the
// weight of the next first sample is corrected, on the CPU and off it apart. So both sums are
// right, and short-lived goroutines have one sample. If first samples have had an interval too
// much, the weights of those that stand for less are in the metadata. This is the only place in the
// sampler that handles weights of first samples.
func (r *recorder) weigh(k *goroutine, s *source.Sample) uint64 {
	switch {
	case k == nil || !k.seen && s.Gap == 0:
		return r.interval
	case k.seen:
		weight := micros(max(s.Time, k.last)) - micros(k.last)
		if !k.sampled {
			k.weight = weight
		}
		return weight
	}
	tick := time.Duration(r.interval) * time.Microsecond
	owed := &r.owed[s.Status&tachyon.OnCPU/tachyon.OnCPU]
	gap := min(s.Gap+*owed, s.Time)
	if gap < tick*3/2 {
		if *owed = gap - tick; *owed < -tick {
			k.weight = max(micros(s.Gap), 1)
			*owed += tick - time.Duration(k.weight)*time.Microsecond
			return k.weight
		}
		return r.interval
	}
	*owed = 0
	from := s.Time - gap + tick
	weight := micros(s.Time) - micros(from) + r.interval
	if from < r.part {
		k.weight = weight
	} else {
		r.write(k, s, from)
	}
	return weight
}

// write adds a sample to the batch, with at as its time. k is its goroutine, or nil.
func (r *recorder) write(k *goroutine, s *source.Sample, at time.Duration) {
	interpreter := uint32(tachyon.User)
	switch {
	case s.System:
		interpreter = tachyon.Runtime
	case s.Process:
		interpreter = tachyon.Process
	}
	if k != nil {
		if !k.sampled {
			k.sampled, k.seen, k.first = true, true, at
			r.news(k)
		}
		if k.revived {
			r.Labels(k.ID, at, nil) // the source has forgotten its labels and has reported no new ones
		}
		k.last, k.interpreter = at, interpreter
	}
	r.batch = append(r.batch, tachyon.Sample{
		Thread:      s.Goroutine,
		Interpreter: interpreter,
		Status:      s.Status,
		Time:        r.base + micros(at),
		Stack:       s.Stack,
	})
	if len(r.batch) == maxBatch {
		r.flush()
	}
}

// count adds a sample to the counts of its leaf address. weight is in µs.
func (r *recorder) count(k *goroutine, s *source.Sample, weight uint64) {
	var p *tachyon.LeafPC
	if k != nil && k.leaf != nil && k.leaf.Addr == s.Leaf {
		p = k.leaf
	} else {
		if p = r.pcs[s.Leaf]; p == nil {
			p = &tachyon.LeafPC{Addr: s.Leaf}
			r.pcs[s.Leaf] = p
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

// leafPCs returns the part's leaf addresses, ascending.
func (r *recorder) leafPCs() *tachyon.LeafPCs {
	if len(r.pcs) == 0 {
		return nil
	}
	l := &tachyon.LeafPCs{PCs: make([]tachyon.LeafPC, 0, len(r.pcs))}
	for _, pc := range r.pcs {
		l.PCs = append(l.PCs, *pc)
	}
	sort.Slice(l.PCs, func(i, j int) bool { return l.PCs[i].Addr < l.PCs[j].Addr })
	return l
}

// micros returns a time in µs, 0 for a negative one.
func micros(d time.Duration) uint64 { return uint64(max(d, 0).Microseconds()) }

// lookLimit is how long a part goes on at most until the source has looked at every goroutine.
const lookLimit = 2 * time.Second

// fills asks the source to look at every goroutine if the sink is full: all are to have a sample
// until the end of this part of the session, also those that rest.
func (r *recorder) fills() {
	if r.looked == nil && r.err() == nil && r.sink.Full() {
		r.looked, r.full = r.look(), r.now
	}
}

// ends reports whether this part ends with the batch that begins.
func (r *recorder) ends() bool {
	if r.looked == nil {
		return false
	}
	select {
	case <-r.looked:
	default:
		if r.now-r.full < lookLimit {
			return false
		}
	}
	r.looked = nil
	return true
}

// seam returns the end of a part that ends now.
func (r *recorder) seam() time.Duration { return r.now.Truncate(time.Microsecond) }

// collect returns this part, which ends at end. now has the stats of the whole session.
func (r *recorder) collect(end time.Duration, now Stats) Part {
	now.Duration, now.Counts = end-r.part, now.Since(r.told)
	p := Part{Start: r.part, End: end, Stats: now, Goroutines: r.rest(), PCs: r.leafPCs()}
	if s := r.takeStops(); s != nil {
		p.Stops = &tachyon.Stops{Until: s.Until, List: slices.Clone(s.List)}
	}
	return p
}

// cut ends this part, returns it, and begins the next one. Of each goroutine's labels it keeps only
// the present ones.
func (r *recorder) cut() Part {
	now, end := r.stats(), r.seam()
	p := r.collect(end, now)
	r.told, r.part = now.Counts, end
	r.most.Store(r.live.Load())
	clear(r.pcs)
	r.objects.Forget()
	r.progressed = end
	clear(r.queue)
	r.queue = r.queue[:0]
	for _, k := range r.known {
		k.sampled, k.weight, k.leaf, k.labels, k.telling = false, 0, nil, nil, telling{}
		if len(k.set) > 0 { // a part begins without labels
			k.labels = []tachyon.LabelSpan{{Labels: k.set}}
		}
	}
	return p
}
