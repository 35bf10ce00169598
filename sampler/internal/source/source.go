// Package source is the interface between the sampler and its sources. A source takes
// samples of goroutines; it has its own clock and threads. Everything after it is the
// same for all sources.
package source

import (
	"runtime"
	"time"

	"github.com/gotach/profiler/internal/objects"
	"github.com/gotach/profiler/internal/rows"
	"github.com/gotach/profiler/tachyon"
)

// Config says what to sample.
type Config struct {
	Rate       int       // ticks a second asked for, >= 1
	Budget     float64   // what sampling may cost, percent of the CPU time that the process may use
	System     bool      // waits of the runtime's own goroutines too; their CPU time always counts
	WaitFrames bool      // a goroutine that does not run gets a leaf frame ("", "[reason]", 0)
	Start      time.Time // time 0 of all samples; has a monotonic reading

	// Cores returns how many cores the process may use at present. A source calls it from one
	// goroutine at a time; nil: GOMAXPROCS.
	Cores func() float64
	// Fallback says that another source takes over if this one does not start. Start is
	// then bounded to a fraction of a second.
	Fallback bool
	// MaxPause bounds the time for which one tick may stop the program. A source skips a tick that
	// would take longer.
	MaxPause time.Duration
	// Warn reports that samples will be missing although the session goes on. A source calls it
	// once for each reason, from any goroutine. It may be nil.
	Warn func(error)
}

// MayUse returns how many cores the process may use.
func (c *Config) MayUse() float64 {
	if c.Cores == nil {
		return float64(runtime.GOMAXPROCS(0))
	}
	return c.Cores()
}

// The words in the leaf frames of goroutines that could run but have no P. The stack of one that
// has not run yet is that frame and the function that its go statement calls.
const (
	Runnable   = "runnable"
	NotStarted = "runnable, not started"
)

// Sample is one goroutine at one instant.
type Sample struct {
	Goroutine uint64
	System    bool // the runtime's own
	Process   bool // CPU time of a pseudo thread, which is no goroutine and has no metadata
	Status    tachyon.Status
	Time      time.Duration // since Config.Start, monotonic; increases for each goroutine
	Gap       time.Duration // for a goroutine's first sample: the time that it stands for; 0: one tick
	Stops     Stops         // since the goroutine's sample before
	Stack     []uint32      // ids from Out.Frame, innermost first; owned by the source, valid until Batch returns
	Object    *Object       // what the goroutine waits for, if that has a number; its line is in Stack[0]; else nil
	Leaf      uint64        // link-time address of the innermost instruction; 0: the source does not know it
}

// Stops says how often a goroutine stopped running.
type Stops struct {
	N       uint32
	AtLeast bool // it may have been more often
}

// Add adds further ones.
func (s *Stops) Add(more Stops) {
	s.N += more.N
	s.AtLeast = s.AtLeast || more.AtLeast
}

// Object describes what goroutines wait for. The source owns it. Only its kind may change, between
// two samples.
type Object = objects.Object

// Goroutine describes a goroutine. A source reports it once, before the goroutine's first sample.
type Goroutine struct {
	ID        uint64
	Parent    uint64 // 0: unknown
	CreatedBy string // function; "" for the main goroutine
	CreatedAt string // file:line
	Quiet     bool   // one of the runtime's, of which only CPU time is sampled: it is not counted
}

// Out takes the samples of a source. A source calls it from one goroutine at a time. Its methods
// return no errors: Out keeps the first error of the sink, and the sampler then stops the source.
type Out interface {
	// Frame returns the id of a frame, the same for equal frames. Sources keep the ids, by PC
	// or by stack.
	Frame(tachyon.Frame) uint32
	// Goroutine describes a goroutine before its first sample. It reports whether Out wants
	// samples of it. It returns false for the profiler's own goroutines, and the source then
	// leaves them out.
	Goroutine(Goroutine) bool
	// Labels says that the goroutine has these labels from time t on. A source calls it when
	// the labels have changed since the last call. Neither side changes the map afterwards, so
	// a source may pass the same map again.
	Labels(goroutine uint64, t time.Duration, labels map[string]string)
	// Gone says that the goroutine has ended, or that the source has not seen its id for a
	// long time.
	Gone(goroutine uint64)
	// Batch calls f once. In f the source passes on the samples of one pass.
	Batch(f func())
	// Counted says that Progress now counts all that was passed on. It is called after each Batch.
	Counted()
	// Sample is called only within Batch. The sample is copied, its stack is not.
	Sample(*Sample)
	// Fail says that the source cannot go on, for example after a recovered panic. The sampler
	// then calls Stop as usual. Fail may be called from any goroutine.
	Fail(error)
}

// Source is one way to see goroutines. The sampler calls Start once and Stop
// once after it, from any goroutine.
type Source interface {
	// Start checks that the source works here and begins to sample. After an error nothing of
	// the source is left running.
	Start(Config, Out) error
	// Stop ends sampling. It returns when Out has the last sample and no goroutine, thread, timer,
	// signal handler or mapping of the source is left. Only where goroutines need all cores, some
	// of its goroutines may not have had their turn after 0.2 s: they do nothing more, and end
	// then.
	Stop()
	// Look asks for a sample of every goroutine, also of those that have waited for long. It
	// returns a channel that is closed before the Batch that has the last of these samples begins.
	// It stays open if the source ends before. Look may be called at any time after Start.
	Look() <-chan struct{}
	// Progress returns what files say of the source: its name, native or portable, what it knows of
	// waits and stops, and the counts so far: ticks, lost samples and the cost. It may be called at
	// any time after Start.
	Progress() tachyon.Progress
}

// Rows passes the samples of CPU time that no goroutine used to an Out.
type Rows struct {
	rows.Rows
	out    Out
	sample Sample
}

// Write passes on what the rows have been given. It is called only within Batch.
func (r *Rows) Write(out Out, t time.Duration, end bool) {
	r.out = out
	r.Rows.Write(r, t, end)
}

// Frame is for Write.
func (r *Rows) Frame(f tachyon.Frame) uint32 { return r.out.Frame(f) }

// Row is for Write.
func (r *Rows) Row(thread uint64, status tachyon.Status, at time.Duration, stack []uint32) {
	r.sample = Sample{Goroutine: thread, Process: true, Status: status, Time: at, Stack: stack}
	r.out.Sample(&r.sample)
}
