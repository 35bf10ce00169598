//go:build linux && (amd64 || arm64)

package native

import (
	"math"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/nocore"
	"github.com/gotach/profiler/internal/objects"
	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// drain takes records out of the ring and makes samples of them. It is ordinary Go.
// When it is late, that costs only room in the ring.
type drain struct {
	s       *shared
	l       *goruntime.Layout
	out     source.Out
	cfg     source.Config
	bias    uint64 // of the image
	roster  *roster
	stacks  *stacks
	objects *objects.List
	image   *goruntime.Image
	cycles  collections
	ends    *descriptors
	labels  *labelSets
	gs      []goroutine           // by roster index
	notSeen time.Duration         // time of goroutines that looks have found and no sample stands for
	lacks   lacks                 // that of all goroutines
	passed  time.Duration         // time of the last pass
	left    map[uint64]goroutine  // by id: those whose g another goroutine has, and no look has noticed yet
	system  map[uint64]systemKind // by startpc
	created map[uint64]creation   // by gopc
	start   uint64                // Config.Start on the handler's clock
	now     time.Duration         // of the tick whose records follow
	before  time.Duration         // of the tick before it
	threads *threads
	estates map[uint64]*estate // by gopc
	nocores nocore.Balances
	account *account // nil: the self-check
	end     bool     // this is the last pass
	torn    int64    // stacks that do not end where they must
	work    int64    // stack records so far, recSame and recStack
	reading uint64   // cycles spent on all records
	unread  error    // of the latest refresh of the roster
	sample  source.Sample
}

// goroutine is what the drain knows of the goroutine at a roster index.
type goroutine struct {
	id      uint64
	parked  *stack         // its stack at its last visit in turn
	last    time.Duration  // time of its last sample
	status  tachyon.Status // of parked, without Moved
	seq     uint8          // trackingSeq at the visit that found parked
	ran     bool           // it ran at its last sample, or was in a system call with its P
	seen    bool           // it has a sample
	skip    bool           // Out does not want samples of it
	quiet   bool           // only its CPU time is sampled
	told    bool           // Out knows it
	system  systemKind
	labelID int // labelSet.id; -1: labels that are in no set
	labels  map[string]string
	waits   []uint64 // addresses of the objects that it waits for, with the stack parked
	numbers int32    // the list's Numbers when the numbers of these objects were last looked up

	created   uint64          // its gopc
	computing *stack          // of its last record while it ran
	runs      uint64          // headRuns of its last record while it ran
	debts     []debt          // what it is owed
	owes      time.Duration   // the sum
	ahead     time.Duration   // CPU time that its samples have in advance
	balance   *nocore.Balance // of its go statement

	stops stops
}

// A debt is CPU time that a goroutine is owed.
type debt struct {
	stack  *stack
	status tachyon.Status
	cpu    time.Duration
}

// maxDebts bounds the debts to a goroutine. More of them are those of an unknown one.
const maxDebts = 16

// estate is what ended goroutines of a go statement were owed.
type estate struct {
	debts []debt
	since time.Duration
}

// add adds a debt to a goroutine. It reports whether there was room.
func (g *goroutine) add(more debt) bool {
	switch last := len(g.debts) - 1; {
	case last >= 0 && g.debts[last].stack == more.stack:
		g.debts[last].cpu += more.cpu
	case last+1 == maxDebts:
		return false
	default:
		g.debts = append(g.debts, more)
	}
	g.owes += more.cpu
	return true
}

// systemKind distinguishes the runtime's goroutines from the program's, by the function that
// they start with.
type systemKind uint8

const (
	userGoroutine systemKind = iota
	mainGoroutine
	systemGoroutine
	callbackGoroutine // the runtime's, except while it calls finalizers and cleanups
)

// ofRuntime reports whether the runtime does not count the goroutine as one of the program.
func (k systemKind) ofRuntime() bool { return k != userGoroutine && k != mainGoroutine }

// kind classifies a goroutine by its first function, as runtime.isSystemGoroutine does.
func (d *drain) kind(startpc uint64) systemKind {
	k, ok := d.system[startpc]
	if !ok {
		name := ""
		if f := runtime.FuncForPC(uintptr(startpc)); f != nil {
			name = f.Name()
		}
		switch name {
		case "runtime.main":
			k = mainGoroutine
		case "runtime.corostart", "runtime.handleAsyncEvent":
		case "runtime.runFinalizers", "runtime.runfinq", "runtime.runCleanups":
			k = callbackGoroutine
		default:
			if strings.HasPrefix(name, "runtime.") {
				k = systemGoroutine
			}
		}
		d.system[startpc] = k
	}
	return k
}

// time converts a time of the handler's clock.
func (d *drain) time(ns uint64) time.Duration { return time.Duration(ns - d.start) }

// statusOf returns the status of a sample of g with stack s, without OnCPU.
func statusOf(now uint32, g *goroutine, s *stack) (status tachyon.Status) {
	switch now {
	case goruntime.GRunning:
		status = tachyon.HasGIL
	case goruntime.GRunnable, goruntime.GPreempted:
		status = tachyon.GILRequested
	case goruntime.GSyscall:
		status = tachyon.Unknown
	}
	if s.panicking {
		status |= tachyon.HasException
	}
	if g.system == mainGoroutine {
		status |= tachyon.MainThread
	}
	return status
}

// creation is a go statement: its function, and its file and line.
type creation struct{ by, at string }

// creation returns the go statement at a PC as runtime.printcreatedby prints it: the function
// that contains the code, and file and line of the innermost inlined call there. Goroutines
// of one go statement share the strings.
func (d *drain) creation(gopc uint64) creation {
	c, ok := d.created[gopc]
	if ok {
		return c
	}
	if runtime.FuncForPC(uintptr(gopc)) != nil {
		frames := d.stacks.frames(uintptr(gopc))
		c.by, c.at = frames[len(frames)-1].Function, place(frames[0].File, frames[0].Line)
	}
	d.created[gopc] = c
	return c
}

func place(file string, line int) string { return file + ":" + strconv.Itoa(line) }

// collections counts those of the garbage collector.
type collections struct{ stats debug.GCStats }

func (c *collections) count() int64 {
	debug.ReadGCStats(&c.stats)
	return c.stats.NumGC
}

// How often goroutines stop running. The runtime counts it for each in g.trackingSeq: it grows by
// one when the goroutine begins to wait, is preempted, or comes out of a system call and has no P.
// So the difference between two visits is the number of stops between them, modulo 256.
//
// Only visits by the tick's thread count, since these are in order. A thread that records its own
// goroutine may do so before a visit and its record come after that one.

// stops is what the drain knows of the stops of a goroutine.
type stops struct {
	untold source.Stops  // no sample has them yet
	known  bool          // there was a visit
	seq    uint8         // trackingSeq at the latest visit
	at     time.Duration // until then it is known to have had that seq
	pace   float32       // stops a second, a moving average of short times between visits
}

const (
	// A difference of mostStops or more between two visits may have passed 256: a goroutine that
	// stops as often soon has one. So it may if so many stops are to be expected as in
	// mostExpected.
	mostStops, mostExpected = 192, 200

	// After a time longer than trusted, more stops than are expected count as proportionally more.
	trusted = 50 * time.Millisecond

	paceOf = 8 // times between visits in the moving average, about
)

// count counts the stops of a goroutine up to a record.
func (s *stops) count(r record, t time.Duration) {
	if r.flags()&flagTaken != 0 || r.status() == goruntime.GRunning {
		return
	}
	seq := r.seq()
	n, passed := float32(seq-s.seq), max(t-s.at, time.Millisecond)
	known := s.known
	s.seq, s.at, s.known = seq, t, true
	if !known {
		return
	}
	expected := s.pace * float32(passed.Seconds())
	unsure := n >= mostStops || expected > mostExpected
	switch pace := n / float32(passed.Seconds()); {
	case passed > trusted:
		unsure = unsure || n > 2*expected+mostStops*float32(trusted)/float32(passed)
	case s.pace == 0:
		s.pace = pace
	default:
		s.pace += (pace - s.pace) / paceOf
	}
	if n > 0 {
		s.untold.Add(source.Stops{N: uint32(n), AtLeast: unsure})
	}
}

// lacks is the drain's account of the time of goroutines.
type lacks struct {
	weights time.Duration // of all samples of the program's goroutines
	living  int64         // goroutines that have a sample and have not ended yet
	last    time.Duration // sum of the times of their last samples
	own     int64         // goroutines of the profiler
	owned   time.Duration // sum of the time for which these lived
	area    time.Duration // the integral of the number of goroutines, at the last tick; 0: not known
	least   float64       // the least number between two ticks
	begin   time.Duration // time of the first tick
	next    time.Duration // when lack will be called
	missing time.Duration // what the integral has more than the samples, at the latest call
	found   time.Duration // not seen, at the latest call
}

// notSeenEvery is the time between two calls of lack. Each reads all entries of the roster.
const notSeenEvery = time.Second

// sampled adds a sample.
func (k *lacks) sampled(g *goroutine, t, gap time.Duration) {
	if g.system.ofRuntime() {
		return // census does not count it
	}
	if g.seen {
		k.weights += t - g.last
		k.last += t - g.last
	} else {
		k.weights += gap
		k.last += t
		k.living++
	}
}

// ticked notes the integral at a tick. before is the time of the tick before, 0 at the first one.
func (k *lacks) ticked(area, now, before time.Duration) {
	if before == 0 {
		k.begin, k.least = now, math.MaxFloat64
	} else if now > before {
		k.least = min(k.least, float64(area-k.area)/float64(now-before))
	}
	k.area = area
}

// ended takes out a goroutine that has ended.
func (k *lacks) ended(g *goroutine) {
	switch {
	case g.skip:
		k.own--
	case g.seen && !g.system.ofRuntime():
		k.living--
		k.last -= g.last
	}
}

// lack returns how much time of goroutines no sample stands for: what the integral of their number
// has more than the samples. If that is within the error of the integral, it is at most what looks
// have found; if the integral is not known, it is what looks have found. d.end says that there are
// no more samples to come. It never returns less than before. The number of goroutines that are
// there all the time is exact, so the error is a thousandth of the rest.
func (d *drain) lack() time.Duration {
	k := &d.lacks
	if k.area == 0 {
		return d.notSeen
	}
	if !d.end && d.now < k.next {
		return k.found
	}
	k.next = d.now + notSeenEvery
	missing := k.area - k.weights
	if own.Counted {
		missing -= k.owned
	}
	if !d.end {
		missing -= time.Duration(k.living)*d.now - k.last + d.unvisited()
		// Right after many goroutines have begun, not all are known. What is really missing stays
		// so.
		k.missing, missing = missing, min(k.missing, missing)
	}
	if missing < (k.area-time.Duration(k.least*float64(d.now-k.begin)))/1000 {
		missing = min(missing, d.notSeen)
	}
	k.found = max(k.found, missing)
	return k.found
}

// unvisited returns for how long the goroutines have lived that looks have found and no visit has
// recorded yet.
//
//go:norace
//go:nocheckptr
func (d *drain) unvisited() (sum time.Duration) {
	for i := range mem.LoadAcquire(uintptr(unsafe.Pointer(&d.s.goroutines))) {
		entry := d.s.entry(i)
		if from := mem.Load64(entry + entryFrom*8); from != 0 && mem.Load64(entry+entryGoid*8) != 0 {
			sum += max(0, d.now-d.time(from))
		}
	}
	return sum
}
