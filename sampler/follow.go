package sampler

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// ErrFollowed is the error of [Sampler.Follow] while another sink follows.
var ErrFollowed = errors.New("another reader follows the session")

// A follower gives the samples of a running session to a second sink. It has a recorder of its own,
// so that the sink gets everything that a part of a session has, from its first sample on.
type follower struct {
	sink  Sink
	begin time.Duration // samples from then on
	of    *recorder
	own   *recorder // nil before the source's goroutine has seen the follower
	quit  atomic.Bool
	ended chan struct{} // closed when part is set
	part  Part
}

// batchLimit bounds the wait until the source passes on samples. The sources do so every 20 ms. But
// the portable one leaves out ticks that would stop the program for too long.
const batchLimit = 10 * time.Second

// Follow gives the samples from the time begin on to a second sink too. begin is in whole µs since
// the session's start and must not be in the past. The frame ids in the samples are those that the
// session's own sink has returned; the second sink's Intern, Full and Next are not called. Its errors
// end the following only.
//
// end ends it and returns what Part returns for a session. It must be called once. Its error is that
// of the sink. Samples that the source has not passed on yet are left out, so the last 20 ms or so
// are missing. There is one follower at a time.
func (s *Sampler) Follow(sink Sink, begin time.Duration) (end func() (Part, error), err error) {
	select {
	case <-s.stopped:
		return nil, errors.New("the session has ended")
	default:
	}
	f := &follower{sink: sink, begin: begin, of: s.out, ended: make(chan struct{})}
	if !s.out.following.CompareAndSwap(nil, f) {
		return nil, ErrFollowed
	}
	return func() (Part, error) {
		f.quit.Store(true)
		timeout := time.NewTimer(batchLimit)
		defer timeout.Stop()
		select {
		case <-f.ended:
		case <-timeout.C:
			return Part{}, errors.New("the session takes no samples at present")
		case <-s.stopped: // the source is not running any more, so this goroutine may use the recorders
			select {
			case <-f.ended:
			default:
				f.end()
			}
		}
		return f.part, f.own.err()
	}, nil
}

// start is called by the source's goroutine at the start of the first batch.
func (f *follower) start() {
	of := f.of
	r := newRecorder(f.sink, time.Time{}, 1)
	r.base, r.interval, r.system, r.grace = of.base, of.interval, of.system, of.grace
	r.part, r.now = f.begin, f.begin
	r.told = of.stats().Counts
	r.told.Samples, r.told.Unwritten = 0, 0
	r.told.Dropped -= of.dropped.Load() // of the session's own sink
	f.own = r
}

// batched is called at the end of each batch.
func (f *follower) batched() {
	f.own.flush()
	f.own.tell()
	if f.quit.Load() {
		f.end()
	}
}

// end takes the follower off the recorder.
func (f *follower) end() {
	if f.own == nil {
		f.start()
	}
	r := f.own
	r.flush()
	now := f.of.stats()
	now.Samples, now.MaxGoroutines = r.samples.Load(), int(r.most.Load())
	now.Dropped += r.dropped.Load() - f.of.dropped.Load()
	now.Unwritten = time.Duration(r.unwritten.Load())
	f.part = r.collect(max(f.of.now, f.begin), now)
	f.of.second = nil
	f.of.following.Store(nil)
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
