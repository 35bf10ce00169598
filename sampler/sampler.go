// Package sampler samples every goroutine of its own process. Its API is not promised (v0): see
// docs/compatibility.md. It does so many times a second and hands the samples to a [Sink].
//
// There are two sources. The native one walks stacks without stopping the program; it
// exists on some systems only. The portable one needs only the public runtime API. It
// stops the program for each tick, and takes fewer ticks where they are expensive.
// Everything after the source is the same for both.
package sampler

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// The values of [Config].Source.
const (
	Auto     = "auto"     // native where it works, else portable
	Native   = "native"   // native or an error
	Portable = "portable" // portable even where native works
)

// The bounds of [Config].
const (
	DefaultRate   = 1000
	MaxRate       = 10_000
	DefaultBudget = 1.0

	DefaultMaxPause = 10 * time.Millisecond
)

// Config says what to sample. The zero value is valid.
type Config struct {
	// Rate is the number of ticks a second that are asked for, at most MaxRate; 0 is DefaultRate.
	Rate int
	// Budget is what sampling may cost, in percent of the CPU time that the process may use, by
	// GOMAXPROCS, affinity and the quota of its cgroup, up to 100; 0 is DefaultBudget.
	Budget float64
	// Source is Auto, Native or Portable; "" is Auto.
	Source string
	// System asks for the runtime's own goroutines too, where the source sees them.
	System bool
	// NoWaitFrames leaves out the frame that says why a goroutine does not run, with which its
	// stack starts otherwise: ("", "[chan
	// receive]", 0) if it waits, ("", "[runnable]", 0) if it waits for a P, ("", "[runnable, not
	// started]", 0) if it has not run yet.
	NoWaitFrames bool
	// MaxPause bounds the time for which a tick of the portable source may stop the
	// program; 0 is DefaultMaxPause. The source skips a tick that would take longer because
	// there are many goroutines. Stats.TicksRefused counts skipped ticks.
	MaxPause time.Duration
	// Start is the time that samples count from; zero is the call of Start.
	Start time.Time
	// OnError is called once if sampling ends before Stop because the sink or the
	// source failed, after the source has stopped, from a goroutine of its own.
	// It may call Stop. Stop does not wait for it.
	OnError func(error)
	// OnWarning is called when samples will be missing although sampling goes on. It is called
	// once for each reason, from any goroutine. It must not call Stop or wait for a goroutine
	// that calls Stop.
	OnWarning func(error)
}

// Sink takes the samples. The sampler calls it from one goroutine at a time, and never after
// Stop has returned. After the first error of a method the sink gets no more
// samples. A Sink must not call Stop.
type Sink interface {
	// Intern returns the id of a frame, for the stacks of samples.
	Intern(tachyon.Frame) uint32
	// WriteBatch takes samples. Their stacks hold ids from Intern. It returns how many samples it
	// took: all of them, or those before the error. Fewer without an error are for a sink that
	// cannot take samples for a while: the others are dropped and counted, and sampling goes on.
	// Samples and stacks belong to the sampler and are valid during the call only.
	WriteBatch([]tachyon.Sample) (n int, err error)
	// WriteRecords takes what is known about goroutines and what they wait for, and the session's
	// progress. They belong to the sampler and are valid during the call only. The samples of these
	// goroutines may be older or newer. Objects come before the samples that have their numbers, in
	// each part of the session that has such samples, and again if the kind of an object has
	// changed. Records of one part of the session that come after its last sample are in Part.
	WriteRecords(*tachyon.Records) error
	// Forget reports that a goroutine has ended and that its id will not be used again.
	Forget(id uint64, interpreter uint32) error

	// Full is called between two ticks. It reports whether a part of the session, such as a file,
	// should end. Next is called when all goroutines have a sample, in two seconds at most.
	Full() bool
	// Next ends the part by calling cut once; cut returns the part. at is the time of the latest
	// sample. If Next does not call cut, the part goes on.
	Next(at time.Duration, cut func() Part)
}

// OnePart can be embedded in a [Sink] that takes the whole session as one part.
type OnePart struct{}

// Full returns false.
func (OnePart) Full() bool { return false }

// Next is never called.
func (OnePart) Next(time.Duration, func() Part) {}

// Stats says how sampling is going, or how it went.
type Stats struct {
	tachyon.Progress // without RateReached, which Describe computes. Samples counts those that the sink took
	Rate             int
	Budget           float64
	System           bool
}

// Describe fills the fields of s that come from the sampler, all except Error.
func (st Stats) Describe(s *tachyon.Session) {
	s.Rate, s.Budget, s.System = st.Rate, st.Budget, st.System
	st.progress().Describe(s)
}

// progress returns the part of st that is stored while the session runs.
func (st Stats) progress() *tachyon.Progress {
	p := st.Progress
	if p.TicksAsked > 0 {
		// Not divided by Duration, which includes the time before the first tick.
		p.RateReached = float64(st.Rate) * float64(p.TicksReached) / float64(p.TicksAsked)
	}
	return &p
}

// Sampler is a session, running or stopped.
type Sampler struct {
	cfg    Config
	start  time.Time
	src    source.Source
	reason string
	out    *recorder
	limits *throttling

	quit    chan struct{} // closed by the first Stop
	quitted sync.Once
	stopped chan struct{} // closed when the source has stopped; the fields below are then final
	took    time.Duration
	final   tachyon.Counts // of throttling

	collected sync.Once
	part      Part // the last one
}

// Start begins to sample. It checks the configuration, and with Source Auto
// falls back to the portable source where the native one does not work;
// Stats.SourceReason then says why.
func Start(cfg Config, sink Sink) (*Sampler, error) {
	return start(cfg, sink, nativeSource, portableSource)
}

func start(cfg Config, sink Sink, native, portable candidate) (*Sampler, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	if sink == nil {
		return nil, errors.New("sampler: no sink")
	}
	if err := Allowed(); err != nil {
		return nil, err
	}
	s := &Sampler{
		cfg:     cfg,
		start:   cfg.Start,
		limits:  newThrottling(),
		quit:    make(chan struct{}),
		stopped: make(chan struct{}),
	}
	err := s.choose(sink, native, portable)
	if err != nil {
		return nil, err
	}
	own.Go(s.watch)
	return s, nil
}

// complete sets defaults and checks the configuration.
func (c *Config) complete() error {
	c.Rate, c.Budget = cmp.Or(c.Rate, DefaultRate), cmp.Or(c.Budget, DefaultBudget)
	c.MaxPause, c.Source = cmp.Or(c.MaxPause, DefaultMaxPause), cmp.Or(c.Source, Auto)
	if c.Rate < 0 || c.Rate > MaxRate {
		return fmt.Errorf("sampler: rate %d is not between 1 and %d a second", c.Rate, MaxRate)
	}
	if math.IsNaN(c.Budget) || c.Budget < 0 || c.Budget > 100 {
		return fmt.Errorf("sampler: budget %v is not between 0 and 100 percent", c.Budget)
	}
	if c.MaxPause < 0 {
		return fmt.Errorf("sampler: negative MaxPause: %v", c.MaxPause)
	}
	if c.Source != Auto && c.Source != Native && c.Source != Portable {
		return fmt.Errorf("sampler: source %q is not %s, %s or %s", c.Source, Auto, Native, Portable)
	}
	now := time.Now()
	if c.Start.IsZero() {
		c.Start = now
	}
	// A time without a monotonic reading gets one here, so that a step of the
	// wall clock cannot move samples.
	c.Start = now.Add(c.Start.Sub(now))
	return nil
}

// watch stops the source when Stop is called or after an error. It has its own goroutine:
// errors occur on the source's goroutine, which cannot wait for its own end.
func (s *Sampler) watch() {
	early := false
	select {
	case <-s.quit:
	case <-s.out.failed:
		early = true
	}
	end := own.Turn()
	s.src.Stop()
	end()
	s.took = time.Since(s.start)
	s.final.ThrottledPeriods, s.final.Throttled = s.limits.since()
	close(s.stopped)
	if early && s.cfg.OnError != nil {
		s.cfg.OnError(s.out.err())
	}
}

// A Part describes a part of a session, without its samples. The first part begins at the start
// of the session, every other part where the previous one ended.
type Part struct {
	Start, End time.Duration // since the session's start
	// The counts in Stats are those of the part. The tick at which the part ends may be counted
	// in the next part.
	Stats Stats
	// What the sink has not got with WriteRecords. Goroutines are those that were sampled in the
	// part. Times are since Start, ids are ascending.
	Goroutines []tachyon.Goroutine
	Stops      *tachyon.Stops
	// PCs says how often each address was the innermost one; nil if the source knows no addresses.
	// Its text bounds are zero.
	PCs *tachyon.LeafPCs
}

// Part returns the last part of the session, which is the whole session if the sink has ended
// no part. Before Stop has returned it returns the zero Part.
func (s *Sampler) Part() Part {
	select {
	case <-s.stopped:
		s.collected.Do(func() { s.part = s.out.collect(s.took, s.Stats()) })
		return s.part
	default:
		return Part{}
	}
}

// Stop ends sampling. It returns when the sink has the last sample and no goroutine, thread or
// timer of the sampler is left. Where the program's goroutines need all cores, some of its
// goroutines may have had no turn to end; it does not wait longer than 0.2 s for these. It returns
// the error that ended sampling early, if there was one. It may be called several times and from
// any goroutine, but not from within the sink.
func (s *Sampler) Stop() error {
	s.quitted.Do(func() { close(s.quit) })
	<-s.stopped
	return s.out.err()
}

// Stats returns the present counts. It may be called at any time.
func (s *Sampler) Stats() Stats {
	var d time.Duration
	select {
	case <-s.stopped:
		d = s.took
	default:
		d = time.Since(s.start)
	}
	return s.stats(s.src, s.out, d)
}

// stats combines what source and recorder say.
func (s *Sampler) stats(from source.Source, out *recorder, d time.Duration) Stats {
	p := from.Progress()
	p.SourceReason, p.Duration = s.reason, d
	if s.cfg.NoWaitFrames {
		p.Objects, p.FarEndsUnknown = "", ""
	}
	p.Samples = out.samples.Load()
	p.Dropped += out.dropped.Load()
	p.Unwritten = time.Duration(out.unwritten.Load())
	p.MaxGoroutines = int(out.most.Load())
	select {
	case <-s.stopped:
		p.ThrottledPeriods, p.Throttled = s.final.ThrottledPeriods, s.final.Throttled
	default:
		p.ThrottledPeriods, p.Throttled = s.limits.recent()
	}
	return Stats{p, s.cfg.Rate, s.cfg.Budget, s.cfg.System}
}
