// Package sampler samples every goroutine of its own process many times a second and
// hands the samples to a [Sink].
//
// There are two sources. The native one walks stacks without stopping the program; it
// exists on some systems only. The portable one needs only the public runtime API. It
// stops the program for each tick, and takes fewer ticks where they are expensive.
// Everything after the source is the same for both.
package sampler

import (
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

	DefaultMaxPause = source.DefaultMaxPause
)

// Config says what to sample. The zero value is valid.
type Config struct {
	// Rate is the number of ticks a second that are asked for, at most MaxRate; 0 is DefaultRate.
	Rate int
	// Budget is what sampling may cost, in percent of the CPU time of GOMAXPROCS cores,
	// up to 100; 0 is DefaultBudget.
	Budget float64
	// Source is Auto, Native or Portable; "" is Auto.
	Source string
	// System asks for the runtime's own goroutines too, where the source sees them.
	System bool
	// NoWaitFrames leaves out the frame ("", "[chan receive]", 0) with which the stack of a
	// waiting goroutine starts otherwise.
	NoWaitFrames bool
	// MaxPause bounds the time for which a tick of the portable source may stop the
	// program; 0 is DefaultMaxPause. A tick that would take longer, because there are many
	// goroutines, is not taken; Stats.TicksRefused counts those.
	MaxPause time.Duration
	// Start is the time that samples count from; zero is the call of Start.
	Start time.Time
	// OnError is called once if sampling ends before Stop because the sink or the
	// source failed, after the source has stopped, from a goroutine of its own.
	// It may call Stop. Stop does not wait for it.
	OnError func(error)
	// OnWarning is called for what the program's owner should know of sampling that goes
	// on all the same, once for each such thing, from any goroutine. It must not call
	// Stop, nor wait for what does.
	OnWarning func(error)
}

// Sink takes the samples. The sampler calls it from one goroutine at a time, and
// not after Stop has returned. After the first error of WriteBatch or Forget it gets no
// more samples. A Sink must not call Stop.
type Sink interface {
	// Intern returns the number by which samples name the frame.
	Intern(tachyon.Frame) uint32
	// WriteBatch takes samples whose Stack holds numbers from Intern, and returns how
	// many of them it took before the error, if there is one. Samples and stacks
	// belong to the sampler and are valid during the call only.
	WriteBatch([]tachyon.Sample) (n int, err error)
	// Forget says that a goroutine has ended and that its id will not come again.
	Forget(id uint64, interpreter uint32) error

	// Full is called between two ticks. It reports whether a part of the session,
	// such as a file, should end.
	Full() bool
	// Next is called when Full has returned true. At is the time of the latest sample.
	// Next ends the part by calling cut once, which returns what is known of the part. If it
	// does not call cut the part goes on.
	Next(at time.Duration, cut func() Part)
}

// OnePart is for a [Sink] to embed that takes the whole session as one part.
type OnePart struct{}

// Full returns false.
func (OnePart) Full() bool { return false }

// Next is never called.
func (OnePart) Next(time.Duration, func() Part) {}

// Stats says how sampling is going, or how it went.
type Stats struct {
	Source string // native or portable
	Reason string // why this source, where another was wanted
	Rate   int    // ticks a second asked for
	Budget float64

	Duration   time.Duration // of sampling, so far
	Goroutines int           // alive at the last tick, without the profiler's own

	tachyon.Counts // Samples are those that the sink took
}

// Describe fills the fields of s that the sampler knows, all but Error.
func (st Stats) Describe(s *tachyon.Session) {
	s.Source, s.SourceReason = st.Source, st.Reason
	s.Rate, s.Budget = st.Rate, st.Budget
	s.Duration, s.Counts = st.Duration, st.Counts
	if st.TicksAsked > 0 {
		// Not by Duration, which includes what comes before the first tick.
		s.RateReached = float64(st.Rate) * float64(st.TicksReached) / float64(st.TicksAsked)
	}
}

// Sampler is sampling under way, or over.
type Sampler struct {
	cfg    Config
	start  time.Time
	src    source.Source
	reason string
	out    *recorder

	quit    chan struct{} // closed by the first Stop
	quitted sync.Once
	stopped chan struct{} // closed when the source has stopped; what follows is then final
	took    time.Duration
}

// Start begins to sample. It checks the configuration, and with Source Auto
// falls back to the portable source where the native one does not work;
// Stats.Reason then says why.
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

// complete puts the defaults in and checks the rest.
func (c *Config) complete() error {
	if c.Rate == 0 {
		c.Rate = DefaultRate
	}
	if c.Rate < 0 || c.Rate > MaxRate {
		return fmt.Errorf("sampler: rate %d is not between 1 and %d a second", c.Rate, MaxRate)
	}
	if c.Budget == 0 {
		c.Budget = DefaultBudget
	}
	if math.IsNaN(c.Budget) || c.Budget < 0 || c.Budget > 100 {
		return fmt.Errorf("sampler: budget %v is not between 0 and 100 percent", c.Budget)
	}
	if c.MaxPause == 0 {
		c.MaxPause = DefaultMaxPause
	}
	if c.MaxPause < 0 {
		return fmt.Errorf("sampler: a longest pause of %v is not above 0", c.MaxPause)
	}
	switch c.Source {
	case "":
		c.Source = Auto
	case Auto, Native, Portable:
	default:
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

// watch stops the source when Stop asks for it or after an error. It has a goroutine
// of its own: errors come up on the source's goroutine, which cannot wait for its
// own end.
func (s *Sampler) watch() {
	early := false
	select {
	case <-s.quit:
	case <-s.out.failed:
		early = true
	}
	s.src.Stop()
	s.took = time.Since(s.start)
	close(s.stopped)
	if early && s.cfg.OnError != nil {
		s.cfg.OnError(s.out.err())
	}
}

// A Part is what is known of a part of a session beyond its samples. The first part begins
// at the start of the session, each other one where the one before ended.
type Part struct {
	Start, End time.Duration // since the session's start
	// The counts in Stats are the part's own. The tick at which the part ends may count in
	// the next one.
	Stats      Stats
	Goroutines []tachyon.Goroutine // sampled in the part; times since Start, ascending ids
	PCs        *tachyon.LeafPCs    // see Sampler.LeafPCs
}

// Part returns the last part of the session, or all of it if the sink ended no part. Before
// Stop has returned it returns the zero Part.
func (s *Sampler) Part() Part {
	select {
	case <-s.stopped:
		return s.out.collect(s.took, s.Stats())
	default:
		return Part{}
	}
}

// Stop ends sampling and returns once the last sample is with the sink and
// nothing of the sampler runs any more. It returns the error that ended sampling
// early, if one did. It may be called any number of times, from any goroutine
// but the sink's.
func (s *Sampler) Stop() error {
	s.quitted.Do(func() { close(s.quit) })
	<-s.stopped
	return s.out.err()
}

// Stats returns how sampling is going, at any time.
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

// stats puts the counts of source and recorder together.
func (s *Sampler) stats(from source.Source, out *recorder, d time.Duration) Stats {
	counts := from.Stats()
	counts.Samples = out.samples.Load()
	counts.MaxGoroutines = int(out.most.Load())
	counts.GoroutinesOmitted = out.omitted.Load()
	counts.LabelsOmitted = out.labelsOmitted.Load()
	return Stats{
		Source:     from.Name(),
		Reason:     s.reason,
		Rate:       s.cfg.Rate,
		Budget:     s.cfg.Budget,
		Duration:   d,
		Goroutines: int(out.live.Load()),
		Counts:     counts,
	}
}

// Goroutines returns what is known of each goroutine beyond its samples, by
// ascending id, in the last part; nil before Stop has returned. Of goroutines that
// ended, the first maxEnded are listed; Stats.GoroutinesOmitted counts the rest.
func (s *Sampler) Goroutines() []tachyon.Goroutine {
	select {
	case <-s.stopped:
		return s.out.goroutines()
	default:
		return nil
	}
}

// LeafPCs returns how often each address was innermost in the last part; nil before Stop has
// returned and where the source knows no addresses. Its text bounds are zero.
func (s *Sampler) LeafPCs() *tachyon.LeafPCs {
	select {
	case <-s.stopped:
		return s.out.leafPCs()
	default:
		return nil
	}
}
