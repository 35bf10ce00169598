//go:build linux && (amd64 || arm64)

package native

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/sampler/internal/cost"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// Source is the native source. The zero value is not ready for use; see New.
type Source struct {
	signal  int
	version string // of Go
	layout  *goruntime.Layout

	cfg      source.Config
	memory   mem.Mapping
	s        *shared
	ticker   *ticker
	drain    *drain
	image    *goruntime.Image
	table    *goruntime.FuncTable
	old      sigaction
	budget   *cost.Budget
	patience *cost.Patience
	noPoll   error // why it is not known which connections and files goroutines wait for

	quit, done chan struct{}
	long       chan struct{} // filled while the drain waits for long, until listen knows
	rung, deaf chan struct{} // see listen
	listenG    atomic.Uint64 // the g of listen
	bell       *uint64       // a futex, 1: the handler has rung for the drain; see listen
	resting    atomic.Bool   // the drain waits for its next pass; who sets it to false is the drain
	mute       bool          // there can be no more ticks
	taken      int64         // how often the program had set the signal to ignored or default
	dropped    int64         // samples lost because of that
	broken     bool          // the drain has panicked
	warned     bool          // the warning about goroutines beyond maxTracked was given

	mu     sync.Mutex // guards counts and asked
	counts tachyon.Counts
	asked  []chan struct{} // of Look
	looks  looks
	began  time.Time // start of the ticks
	ended  time.Time // end of the ticks; zero: they go on
}

// New returns a source that is not started.
func New() *Source { return &Source{signal: defaultSignal, version: runtime.Version()} }

// busy is true while a source is started: the process has only one handler. It stays true while
// there is a remainder.
var busy atomic.Bool

// proven is what an earlier Start in this process has found and checked, with the layout l. It
// cannot change.
var proven struct {
	l           *goruntime.Layout
	allgs, allp goruntime.SliceAt
	sched       uintptr
	perSecond   uint64 // of the cycle counter
	polls       foundPolls
	noPoll      error // that of findPoll
}

func (n *Source) newDrain(l *goruntime.Layout, cfg source.Config, out source.Out) *drain {
	d := &drain{
		s:       n.s,
		l:       l,
		out:     out,
		cfg:     cfg,
		stacks:  newStacks(out, l, n.table, cfg.WaitFrames),
		threads: newThreads(n.s),
		estates: make(map[uint64]*estate),
		image:   n.image,
		ends:    newDescriptors(),
		labels:  &labelSets{s: n.s, sets: make(map[uintptr]labelSet)},
		system:  make(map[uint64]systemKind),
		created: make(map[uint64]creation),
		left:    make(map[uint64]goroutine),
	}
	d.objects = d.newObjects()
	if n.drain != nil {
		d.bias = n.drain.bias
		// The next drain takes over the pins, because the handler already uses them.
		d.labels = n.drain.labels
	}
	since := readBoth(monotonicNow, func() uint64 { return uint64(time.Since(cfg.Start)) })
	d.start = since.ns - since.cycles
	return d
}

// Progress returns what files say of the source. This version of Go may say for channels only what
// a goroutine waits for.
func (n *Source) Progress() tachyon.Progress {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := tachyon.Progress{Source: "native", Objects: tachyon.OnlyChannels, Stops: true, Counts: n.counts}
	if n.layout.Semaphores {
		p.Objects = tachyon.AllObjects
	}
	if n.noPoll != nil {
		p.FarEndsUnknown = n.noPoll.Error()
	}
	return p
}

// foundPolls is what findPoll has found. The program's next connections often have pollDescs beside
// those that are known.
type foundPolls struct {
	at    uint64    // bytes above sched.sp
	known [2]uint64 // addresses of pollDescs
}

// looks are those that Look has asked for.
type looks struct {
	took  time.Duration // CPU time of the tick thread in the latest one
	ended time.Time
}
