//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/sampler/internal/cost"
)

// prepare finds the runtime's data and sets up shared memory, ticker, handler and timer.
// release undoes it.
func (n *Source) prepare(l *goruntime.Layout) error {
	// The runtime uses the vDSO, so a seccomp policy may refuse the system call without any effect
	// on the program.
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, new(unix.Timespec)); err != nil {
		return fmt.Errorf("clock_gettime: %w", err)
	}
	if err := checkSelf(l); err != nil {
		return err
	}
	img, err := goruntime.FindImage(handlerPC)
	if err != nil {
		return err
	}
	table, err := goruntime.FindFuncTable(img, l, handlerPC, restorerPC, signalPC, entry(visit), entry(copyLabels))
	if err != nil {
		return err
	}
	variables := table.Modules[0].Variables
	allgs, allp := proven.allgs, proven.allp
	if proven.l != l {
		proven.sched = 0
		known, free := parked(4)
		allgs, err = goruntime.FindAllgs(variables, append(known, mem.Getg()), maxChunks*chunkSize, n.patience.Over)
		free()
		if err != nil {
			return err
		}
		if allp, err = goruntime.FindAllp(variables, l, n.patience.Over); err != nil {
			return err
		}
	}
	if err := n.share(l); err != nil {
		return err
	}
	n.image, n.table = img, table
	table.Publish(&n.s.View)
	n.drain = n.newDrain(l, n.cfg, nil)
	n.drain.bias = uint64(img.Bias)
	n.drain.roster = &roster{s: n.s, l: l, allp: allp}
	n.s.allgs = uintptr(allgs)
	if err := n.drain.roster.refresh(); err != nil {
		return err
	}
	if n.s.sched = proven.sched; n.s.sched == 0 {
		n.s.sched = findSched(variables, l, n.s, n.patience)
	}
	if n.ticker, err = startTicker(n.s, n.signal); err != nil {
		return err
	}
	n.s.tid, n.s.tickM = uint64(n.ticker.tid), n.ticker.m
	n.s.word = uint64(uintptr(unsafe.Pointer(&n.ticker.word)))
	if n.old, err = takeSignal(n.signal); err != nil {
		return err
	}
	n.memoryInUse(true)
	return n.ticker.timer.create(unix.CLOCK_MONOTONIC, n.signal, n.ticker.tid, n.s.tag)
}

// sessions counts sessions. The number is part of a session's signals, so that a late
// signal of an earlier session is recognised.
var sessions atomic.Uint64

// share sets up the memory that the handler works on.
func (n *Source) share(l *goruntime.Layout) error {
	sizes := []uintptr{
		unsafe.Sizeof(shared{}),
		ringWords * 8,
		maxChunks * 8,
		maxProcs * 8,
		maxProcs * slotWords * 8,
		pinSlots * 8,
		maxChunks * chunkSize / 8,
		maxVisits * slotWords * 8,
		maxTimers * 8,
		goruntime.MaxModules * unsafe.Sizeof(goruntime.Code{}),
		2 * goruntime.MaxModules * 8,
		pollSlots * 8,
	}
	total := uintptr(0)
	for i, size := range sizes {
		sizes[i] = total
		total += (size + 4095) &^ 4095
	}
	m, err := mem.Map(total)
	if err != nil {
		return err
	}
	n.memory = m
	base := m.Addr()
	s := at(base)
	n.s = s
	s.Off, s.system, s.waits = l.Offsets, l.System, l.WaitSets()
	s.ring, s.chunks, s.procs = base+sizes[1], base+sizes[2], base+sizes[3]
	s.slots, s.pins, s.outside = base+sizes[4], set{base + sizes[5], pinSlots}, base+sizes[6]
	s.visitSlots, s.timerMs = base+sizes[7], base+sizes[8]
	s.Codes, s.Orders, s.polls = base+sizes[9], base+sizes[10], set{base + sizes[11], pollSlots}
	if strings.Contains(runtime.Version(), "runtimesecret") {
		// The kernel leaves registers on the signal stack. Go's handler notes that for a goroutine
		// in secret.Do, and the collector then erases them.
		s.secrets = 1
	}
	s.pid, s.signal = uint64(os.Getpid()), uint64(n.signal)
	id := sessions.Add(1)
	s.tag = 0x6774<<48 | id
	s.cpuTag = 0x6774<<48 | cpuTimerTag | id&0x7fff<<32
	s.random = uint64(time.Now().UnixNano())*0x9e3779b97f4a7c15 | 1
	// Each session starts with other generations. Only slots of existing Ps are used later.
	for i := range min(uint64(runtime.NumCPU())*2+16, maxProcs) {
		mem.Store64(s.slot(i), id<<20<<8&0xffffffff00) // slotFree
	}
	n.calibrate()
	return nil
}

// calibrate sets what is computed with the frequency of the cycle counter.
func (n *Source) calibrate() {
	if proven.perSecond == 0 {
		n.patience.Pause()
		proven.perSecond = cyclesPerSecond(monotonicNow, mem.Cycles)
	}
	s, perSecond := n.s, proven.perSecond
	if steadyCounter() {
		scale := uint64(1e9 / float64(perSecond) * (1 << 32))
		for i := range s.clocks {
			s.clocks[i] = clock{scale: scale, most: 1 << 62 / scale}
		}
		readClock(s)
	}
	s.perMicro = perSecond / 1e6
	s.tornAfter = 40 * s.perMicro
	s.visitLimit = perSecond // a second; begin sets the real limit
}

// giveBack releases what the source uses. The process can have another source then, unless there is
// a remainder. It waits for the ends of the source's goroutines, but not for long: beside
// goroutines that need all cores they may have no turn for seconds.
func (n *Source) giveBack() {
	ends := []chan struct{}{n.done, n.deaf}
	if n.ticker != nil {
		ends = append(ends, n.ticker.done)
	}
	if n.release() {
		busy.Store(false)
	}
	t := time.NewTimer(answerLimit)
	defer t.Stop()
	for _, end := range ends {
		if end == nil {
			continue
		}
		select {
		case <-end:
		case <-t.C:
			return
		}
	}
}

// release undoes what prepare did, also if prepare failed halfway. It ends the tick thread
// first. It frees the memory last, when no handler can use it any more.
//
// If a thread still uses the memory, release leaves it mapped as the remainder and returns false.
// Then this process can have no further native session until that thread has got a core.
func (n *Source) release() (free bool) {
	free = true
	r := &remains{memory: n.memory, bell: n.bell}
	if n.drain != nil {
		n.drain.threads.stopAll()
		r.roster = n.drain.roster
	}
	if n.ticker != nil {
		n.ticker.timer.delete()
		free = n.ticker.stop()
		n.ticker = nil
	}
	if n.memory != nil && loadState() != nil {
		releaseSignal(n.signal, n.old)
		free = n.memoryInUse(false) && free
	}
	n.memory, n.s, n.drain = nil, nil, nil
	if !free {
		remainder.Store(r)
		return false
	}
	r.free()
	return true
}

// remains is what a source uses until its last tick and its last handler have ended.
type remains struct {
	memory mem.Mapping
	roster *roster
	bell   *uint64
}

func (r *remains) free() {
	if r.roster != nil {
		r.roster.free()
	}
	if r.memory != nil {
		unix.Munmap(r.memory)
	}
}

// remainder is what the latest source has not given back.
var remainder atomic.Pointer[remains]

// takeOver gives back the remainder if no thread uses it any more. It reports whether it has, so
// that the caller can start a source.
func takeOver() bool {
	r := remainder.Swap(nil)
	if r == nil {
		return false
	}
	if !handlersEnded(0) {
		remainder.Store(r)
		return false
	}
	r.free()
	return true
}

//go:norace
//go:nocheckptr
func loadState() unsafe.Pointer { return state }

// memoryInUse gives the memory to the handler and returns true, or takes it away and reports
// whether no handler uses it any more.
//
//go:norace
//go:nocheckptr
func (n *Source) memoryInUse(yes bool) bool {
	if yes {
		mem.StoreRelease(uintptr(unsafe.Pointer(&state)), uint64(uintptr(unsafe.Pointer(n.s))))
		return true
	}
	mem.Swap64(uintptr(unsafe.Pointer(&state)), 0) // complete before inHandler is read
	return handlersEnded(stopLimit)
}

// handlersEnded waits until no thread is in the handler. One that comes later finds no memory to
// use.
func handlersEnded(limit time.Duration) bool {
	return within(limit, func() bool { return mem.LoadAcquire(uintptr(unsafe.Pointer(&inHandler))) == 0 })
}

// The counters of goroutines are in runtime.sched, a variable without anything to find it by.
// findSched tries all words of the program's variables that can be its first one, the latest
// goroutine id, and compares the result with runtime.NumGoroutine.

// findSched returns the address of runtime.sched, 0 if it cannot be found.
func findSched(variables []goruntime.Span, l *goruntime.Layout, s *shared, p *cost.Patience) uintptr {
	limit := maxThreads()
	newest := mem.ReadWord(mem.Getg() + l.GID)
	const step, more = 1 << 13, 64
	words := make([]uint64, step+more)
	for _, v := range variables {
		for at := v.Lo; at < v.Hi; at += step * 8 {
			part := words[:min(step+more, int(v.Hi-at)/8)]
			if p.Over("") != nil || mem.ReadBig(at, part) != nil {
				return 0
			}
			for i := 0; i+more <= len(part) && i < step; i++ {
				threads := part[i+int(l.SchedThreads/8)] >> (l.SchedThreads % 8 * 8)
				if id := part[i]; id >= newest && id>>56 == 0 && uint32(threads) == uint32(limit) && isSched(s, at+uintptr(i)*8) {
					return at + uintptr(i)*8
				}
			}
		}
	}
	return 0
}

// isSched compares the number of goroutines with the runtime's answer, before and after some more
// begin, and after these have ended.
func isSched(s *shared, at uintptr) bool {
	s.sched = at
	good := s.right()
	if good {
		_, free := parked(3)
		good = s.right()
		free()
		time.Sleep(100 * time.Microsecond)
		good = good && s.right()
	}
	s.sched = 0
	return good
}

// right reports whether count and runtime.NumGoroutine agree. Goroutines begin and end between the
// two, so it tries often.
//
//go:norace
//go:nocheckptr
func (s *shared) right() bool {
	for range 200 {
		n := runtime.NumGoroutine()
		if c := s.count(); c == uint64(n) && n == runtime.NumGoroutine() {
			return true
		}
	}
	return false
}
