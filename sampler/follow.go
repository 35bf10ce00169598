package sampler

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// ErrEnded is the error of [Sampler.Follow] after the end of the session.
var ErrEnded = errors.New("the session has ended")

// ErrLate is the error of [Following.End] if the source passes on no samples for ten seconds. The
// sink is used until Wait has returned.
var ErrLate = errors.New("the session takes no samples at present")

// followers are the sinks that follow a session.
type followers struct {
	mu    sync.Mutex
	fresh []*follower // guarded by mu: the source's goroutine has not started them yet
	seen  []*follower // those that it has; its own
}

// A follower gives the samples of a running session to a second sink. It has a recorder of its own,
// so that the sink gets everything that a part of a session has, from its first sample on.
type follower struct {
	sink   Sink
	begin  time.Duration // samples from then on
	of     *recorder
	own    *recorder     // nil before the source's goroutine has seen the follower
	last   bool          // it ends with this batch
	failed chan struct{} // that of own
	ended  chan struct{} // closed when part is set
	part   Part

	reaches
}

// reaches are calls of Reach and End.
type reaches struct {
	mu      sync.Mutex
	waiting []reach
	taken   []chan struct{} // of those, what waits for the end of this batch; belongs to the source's goroutine
}

// A reach is one of them.
type reach struct {
	looked <-chan struct{} // closed when the next batch has a sample of every goroutine
	done   chan struct{}   // of Reach; nil: of End
}

func (l *reaches) add(looked <-chan struct{}, done chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, reach{looked, done})
}

// take takes those whose samples this batch has, and reports whether an End is among them.
func (l *reaches) take() (end bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = slices.DeleteFunc(l.waiting, func(r reach) bool {
		select {
		case <-r.looked:
			if end = end || r.done == nil; r.done != nil {
				l.taken = append(l.taken, r.done)
			}
			return true
		default:
			return false
		}
	})
	return end
}

// answer tells those that were taken that the sink has everything.
func (l *reaches) answer() {
	for _, c := range l.taken {
		close(c)
	}
	l.taken = nil
}

// batchLimit bounds the wait until the source passes on samples. The sources do so every 40 ms. But
// the portable one leaves out ticks that would stop the program for too long.
const batchLimit = 10 * time.Second

// A Following is a second sink of a running session.
type Following struct {
	*follower
	s *Sampler
}

// Follow gives the samples from the time begin on to a second sink too. begin is in whole µs since
// the session's start and must not be in the past. The frame ids in the samples are those that the
// session's own sink has returned; the second sink's Intern, Full and Next are not called. Its
// errors end the following only. The caller must call End.
func (s *Sampler) Follow(sink Sink, begin time.Duration) (*Following, error) {
	select {
	case <-s.stopped:
		return nil, ErrEnded
	default:
	}
	f := &follower{sink: sink, begin: begin, of: s.out, failed: make(chan struct{}), ended: make(chan struct{})}
	l := &s.out.followers
	l.mu.Lock()
	l.fresh = append(l.fresh, f)
	l.mu.Unlock()
	return &Following{f, s}, nil
}

// End ends it and returns what Part returns for a session. It must be called once. Its error is
// that of the sink, which has everything of the time before the call, as after Reach.
func (f *Following) End() (Part, error) {
	f.add(f.s.src.Look(), nil)
	timeout := time.NewTimer(batchLimit)
	defer timeout.Stop()
	select {
	case <-f.ended:
	case <-timeout.C:
		return Part{}, ErrLate
	case <-f.s.stopped: // the source is not running any more, so this goroutine may use the recorders
		select {
		case <-f.ended:
		default:
			f.finish()
		}
	}
	return f.part, f.own.err()
}

// Wait waits until the sink is not used any more.
func (f *Following) Wait() {
	select {
	case <-f.ended:
	case <-f.s.stopped:
	}
}

// Stopped returns a channel that is closed when the session has ended.
func (f *Following) Stopped() <-chan struct{} { return f.s.stopped }

// Failed returns a channel that is closed when the sink has failed.
func (f *Following) Failed() <-chan struct{} { return f.failed }

// Err returns the error of the sink, if Failed is closed.
func (f *Following) Err() error {
	select {
	case <-f.failed:
		return f.own.err()
	default:
		return nil
	}
}

// Reach returns a channel that is closed when the sink has everything of the time before the call.
// For that the source looks at all goroutines, also at those that have waited for long.
func (f *Following) Reach() <-chan struct{} {
	done := make(chan struct{})
	f.add(f.s.src.Look(), done)
	return done
}

// Reach waits until the session's own sink has everything of the time before the call, as
// [Following.Reach] says, until the session has ended, for the time limit at most, or until quit is
// closed, which may be nil.
func (s *Sampler) Reach(limit time.Duration, quit <-chan struct{}) {
	done := make(chan struct{})
	s.out.reaches.add(s.src.Look(), done)
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	select {
	case <-done:
	case <-s.stopped:
	case <-timeout.C:
	case <-quit:
	}
}

// start is called by the source's goroutine at the start of the first batch.
func (f *follower) start() {
	of := f.of
	r := newRecorder(f.sink, time.Time{}, 1)
	r.base, r.interval, r.system, r.grace = of.base, of.interval, of.system, of.grace
	r.part, r.now, r.stops.until = f.begin, f.begin, f.begin
	r.failed = f.failed
	r.told = of.stats().Counts
	r.told.Samples, r.told.Unwritten = 0, 0
	r.told.Dropped -= of.dropped.Load() // of the session's own sink
	r.stats = func() Stats {
		now := of.stats()
		now.Samples, now.MaxGoroutines = r.samples.Load(), int(r.most.Load())
		now.Dropped += r.dropped.Load() - of.dropped.Load()
		now.Unwritten = time.Duration(r.unwritten.Load())
		return now
	}
	f.own = r
}

// batch is called at the start of each batch.
func (l *followers) batch() {
	l.mu.Lock()
	fresh := l.fresh
	l.fresh = nil
	l.mu.Unlock()
	for _, f := range fresh {
		f.start()
	}
	l.seen = append(l.seen, fresh...)
	for _, f := range l.seen {
		f.own.midway = 0
		f.last = f.take() || f.last
	}
}

// batched is called at the end of each batch.
func (l *followers) batched() {
	l.seen = slices.DeleteFunc(l.seen, func(f *follower) bool {
		f.own.flush()
		f.own.tell(len(f.taken) > 0)
		f.own.tellStops(len(f.taken) > 0)
		f.answer()
		if !f.last {
			return false
		}
		f.finish()
		return true
	})
}

// finish sets the part.
func (f *follower) finish() {
	if f.own == nil {
		f.start()
	}
	r := f.own
	r.flush()
	f.part = r.collect(max(f.of.now, f.begin), r.stats())
	close(f.ended)
}

// sample passes on a sample that the session records. k is the goroutine as it was before the
// sample, nil if the sample is of none.
func (f *follower) sample(k *goroutine, s *source.Sample) {
	r := f.own
	if s.Time < f.begin {
		return
	}
	c := *s
	c.Gap = min(s.Gap, s.Time-f.begin)
	if k != nil && r.known[k.ID] == nil {
		mine := &goroutine{Goroutine: k.Goroutine, revived: k.revived, set: k.set}
		if k.seen {
			// The time that its next sample stands for begins here.
			mine.seen, mine.last = true, max(k.last, f.begin)
		}
		if len(k.set) > 0 {
			mine.labels = []tachyon.LabelSpan{{Labels: k.set}}
		}
		r.known[k.ID] = mine
		r.alive(mine, +1)
	}
	r.Sample(&c)
}
