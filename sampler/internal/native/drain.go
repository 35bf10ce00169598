//go:build linux && (amd64 || arm64)

package native

import (
	"maps"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// The drain takes records out of the ring and makes samples of them. It is
// ordinary Go; that it may be late costs nothing but room in the ring.
type drain struct {
	s       *shared
	l       *layout
	out     source.Out
	cfg     source.Config
	bias    uint64 // of the image
	roster  *roster
	stacks  *stacks
	labels  *labelSets
	gs      []goroutine           // by roster index
	system  map[uint64]systemKind // by startpc
	created map[uint64]creation   // by gopc
	start   uint64                // Config.Start on the handler's clock
	now     time.Duration         // of the tick whose records follow
	torn    int64                 // stacks that do not end where they must
	work    int64                 // records
	unread  error                 // why the latest look at the lists of goroutines and Ps failed
	sample  source.Sample
}

// goroutine is what the drain knows of the goroutine at a roster index.
type goroutine struct {
	id      uint64
	parked  *stack // what it did when it last had its turn to be visited
	last    time.Duration
	status  tachyon.Status // of parked
	ran     bool           // the last sample was a running one
	seen    bool
	skip    bool // not sampled
	system  systemKind
	labelID int // labelSet.id; -1: of no set
	labels  map[string]string
}

// systemKind says whose a goroutine is, by the function it started with.
type systemKind uint8

const (
	userGoroutine systemKind = iota
	mainGoroutine
	systemGoroutine
	callbackGoroutine // the runtime's, but for when it calls finalizers and cleanups
)

// kind is runtime.isSystemGoroutine.
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

// pass takes everything out of the ring that is in it now.
func (d *drain) pass() {
	// What is not in the roster yet can be in the ring, so the roster goes first.
	head := loadAcquire(uintptr(unsafe.Pointer(&d.s.head)))
	if d.unread = d.roster.refresh(); d.unread == nil && len(d.gs) < len(d.roster.index) {
		d.gs = append(d.gs, make([]goroutine, len(d.roster.index)-len(d.gs))...)
	}
	tail := d.s.tail
	for tail < head {
		at := d.s.ring + uintptr(tail&(ringWords-1))*8
		n := load64(at) >> 8 & 0xffffff
		words := unsafe.Slice(*(**uint64)(unsafe.Pointer(&at)), n)
		d.record(words)
		tail += n
		storeRelease(uintptr(unsafe.Pointer(&d.s.tail)), tail)
	}
	d.labels.turn()
	d.stacks.forget(func(yield func(*stack)) {
		for i := range d.gs {
			if d.gs[i].parked != nil {
				yield(d.gs[i].parked)
			}
		}
	})
}

func (d *drain) record(w []uint64) {
	switch w[0] & 0xff {
	case recTick:
		d.now = d.time(w[1])
	case recSame:
		d.work++
		if w[1] < uint64(len(d.gs)) {
			if g := &d.gs[w[1]]; g.parked != nil && g.parked.valid && !g.skip {
				d.emit(g, g.parked, g.status, d.now, 0)
			}
		}
	case recGone:
		if w[1] < uint64(len(d.gs)) {
			if g := &d.gs[w[1]]; g.id == w[2] {
				d.gone(g)
			}
		}
	case recStack:
		d.work++
		d.stack(w)
	}
}

// time converts the handler's clock.
func (d *drain) time(ns uint64) time.Duration { return time.Duration(ns - d.start) }

func (d *drain) gone(g *goroutine) {
	if g.id != 0 && !g.skip {
		d.out.Gone(g.id)
	}
	*g = goroutine{}
}

func (d *drain) stack(r record) {
	i, ok := d.roster.index[r[headG]]
	if !ok || int(i) >= len(d.gs) {
		return // too new: the next sample of it finds it
	}
	g := &d.gs[i]
	if g.id != r[headGoid] {
		d.gone(g)
		d.meet(g, r)
	}
	if g.skip {
		return
	}
	s := d.stacks.find(r)
	inTurn := r[headIndex] != ^uint64(0)
	if !s.valid {
		d.torn++
		if inTurn && r.status() != gRunning {
			g.parked = s
		}
		return
	}
	if g.system == callbackGoroutine && !s.user && !d.cfg.System {
		g.parked = nil
		return
	}
	t, before := d.time(r[headTime]), d.time(r[headBefore])
	if g.seen {
		d.relabel(g, r, t)
	} else {
		d.relabel(g, r, before)
	}
	status := tachyon.Status(0)
	switch r.status() {
	case gRunning:
		status = tachyon.HasGIL | tachyon.OnCPU
	case gRunnable:
		status = tachyon.GILRequested
	case gSyscall:
		status = tachyon.Unknown
	}
	if s.panicking {
		status |= tachyon.HasException
	}
	if g.system == mainGoroutine {
		status |= tachyon.MainThread
	}
	// All that have a P are seen at each tick, the others in turns. What a goroutine
	// is seen to do just after it ran is no more than news that it no longer does:
	// it is seen there because it ran, so the wait that follows work would
	// stand for all of its waits.
	known := g.parked != nil && g.parked.valid
	if !inTurn && known && r.status() != gRunning {
		g.ran = false
		return
	}
	// What time went by since it was last seen, up to the tick before this one, it did
	// not run: it did what it did when it last had its turn.
	if r.flags()&flagTaken != 0 && g.seen && !g.ran && known && g.last < before {
		d.emit(g, g.parked, g.status, before, 0)
	}
	d.emit(g, s, status, t, t-before)
	if g.ran = r.status() == gRunning; !g.ran {
		g.parked, g.status = s, status
	}
}

// meet begins a goroutine's life here.
func (d *drain) meet(g *goroutine, r record) {
	*g = goroutine{id: r[headGoid], system: d.kind(r[headStartPC])}
	g.skip = g.system == systemGoroutine && !d.cfg.System
	if g.skip {
		return
	}
	told := source.Goroutine{ID: g.id, Parent: r[headParent]}
	if g.system != mainGoroutine {
		c := d.creation(r[headGoPC])
		told.CreatedBy, told.CreatedAt = c.by, c.at
	}
	g.skip = !d.out.Goroutine(told)
}

// creation is a go statement: the function that has it, and where.
type creation struct{ by, at string }

// creation tells of the go statement at a PC as runtime.printcreatedby does: the
// function that has the code, and the innermost place in it. Many goroutines
// share one, and its strings.
func (d *drain) creation(gopc uint64) creation {
	c, ok := d.created[gopc]
	if ok {
		return c
	}
	if runtime.FuncForPC(uintptr(gopc)) != nil {
		frames := runtime.CallersFrames(d.stacks.table.expand(nil, uintptr(gopc)))
		for more := true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			c.by = f.Function
			if c.at == "" {
				c.at = place(f.File, f.Line)
			}
		}
	}
	d.created[gopc] = c
	return c
}

// relabel tells of a goroutine's labels where they changed.
func (d *drain) relabel(g *goroutine, r record, t time.Duration) {
	p := uintptr(r[headLabels])
	var labels map[string]string
	id := 0
	if p != 0 {
		if copied := r.labels(); len(copied) > 0 {
			id, labels = -1, decodeLabels(copied)
			d.labels.pin(uintptr(r[headG])+d.l.gLabels, p)
		} else if set, ok := d.labels.find(p); ok {
			id, labels = set.id, set.labels
		} else {
			return // copied the next time
		}
	}
	if id == g.labelID && id >= 0 {
		return
	}
	g.labelID = id
	if !maps.Equal(labels, g.labels) {
		g.labels = labels
		d.out.Labels(g.id, t, labels)
	}
}

// emit hands a sample over, unless it is no later than the goroutine's last: an
// interruption can be answered after the goroutine was seen by a visit. The first one
// stands for gap.
func (d *drain) emit(g *goroutine, s *stack, status tachyon.Status, t, gap time.Duration) {
	if g.seen && t <= g.last || len(s.ids) == 0 {
		return
	}
	g.seen, g.last = true, t
	d.sample = source.Sample{
		Goroutine: g.id,
		System:    g.system == systemGoroutine || g.system == callbackGoroutine && !s.user,
		Status:    status,
		Time:      t,
		Gap:       gap,
		Stack:     s.ids,
	}
	if s.leaf != 0 {
		d.sample.Leaf = s.leaf - d.bias
	}
	d.out.Sample(&d.sample)
}

func place(file string, line int) string { return file + ":" + strconv.Itoa(line) }
