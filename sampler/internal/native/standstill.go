//go:build linux && (amd64 || arm64)

package native

import (
	"runtime"
	"time"
	"unsafe"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/sampler/internal/deadlock"
)

// standstill finds deadlocks that the session hides; see package deadlock. It asks what the runtime
// itself asks before it reports a deadlock (runtime.checkdead): does nothing run, and does no P
// have a timer?
type standstill struct {
	n     *Source
	stuck []bool // by wait reason
	watch deadlock.Watch
	next  time.Time
	awake uint64 // roster index of a goroutine that was not stuck
	soon  bool   // all were stuck at the latest look, and no timer was found: the next look is urgent
	timed bool   // a timer was found, and all have been stuck since
}

// looksEvery is the time between two looks at all goroutines. A look ends at the first
// goroutine that is not stuck, and the next look begins with that one. So in most programs a
// look reads one goroutine.
const looksEvery = 200 * time.Millisecond

func newStandstill(n *Source) *standstill {
	s := &standstill{n: n, stuck: make([]bool, len(n.drain.l.Reasons))}
	for i, reason := range n.drain.l.Reasons {
		s.stuck[i] = deadlock.Stuck(reason)
	}
	return s
}

// look reports whether there is a deadlock. Only the drain's goroutine calls it.
func (s *standstill) look(now time.Time) bool {
	if now.Before(s.next) || runtime.NumCgoCall() > 0 { // C code can call Go, so the runtime reports no deadlock
		return false
	}
	if s.n.drain.roster.behind() {
		return false // it has the new goroutines after the next pass
	}
	stuck, mark := s.all()
	s.timed = s.timed && stuck
	dead := s.watch.Look(now, stuck, mark) && s.confirm(mark)
	s.soon = stuck && !s.timed
	s.next = now.Add(max(looksEvery, 200*time.Since(now))) // looks take half a percent of the time at most
	return dead
}

// confirm reports whether the program can still not go on. mark is that of the look before: if
// nothing has run since, no P but this one runs and no timer is set, then nothing ever will.
func (s *standstill) confirm(mark uint64) bool {
	for try := 0; !s.nothingRuns() || !s.ownRest(); try++ {
		if s.timed = s.timers() != 0; s.timed {
			return s.watch.Conclude(deadlock.Unclear, true, mark)
		}
		if try == 8 {
			return false // until the next look
		}
		time.Sleep(5 * time.Millisecond) // a thread that has begun to wait keeps its P for a while
	}
	stuck, now := s.all()
	return s.watch.Conclude(deadlock.Dead, stuck, now)
}

// timers returns the number of timers of all Ps.
//
//go:norace
//go:nocheckptr
func (s *standstill) timers() (sum int32) {
	n := s.n.s
	for i := range n.nprocs {
		sum += timersOf(uintptr(mem.Load64(n.procs+uintptr(i)*8)), &n.Off)
	}
	return sum
}

// nothingRuns reports whether no P has a timer, and none but the caller's runs. A thread that takes
// a timer out of its P's heap keeps the P until it has made the timer's goroutine runnable. So the
// Ps are looked at after the timers.
//
//go:norace
//go:nocheckptr
func (s *standstill) nothingRuns() bool {
	n, off := s.n.s, &s.n.s.Off
	if n.nprocs < uint64(runtime.GOMAXPROCS(0)) {
		return false // there are Ps that the roster does not have
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here := goruntime.OwnP(s.n.drain.l)
	if s.timers() != 0 {
		return false
	}
	mem.Fence()
	for i := range n.nprocs {
		p := uintptr(mem.Load64(n.procs + uintptr(i)*8))
		if status := mem.Load32(p + off.PStatus); p != here && (status == goruntime.PRunning || status == goruntime.PGCStop) {
			return false
		}
	}
	return goruntime.OwnP(s.n.drain.l) == here
}

// ownRest reports whether the profiler's goroutines wait for the program, except those that always
// run or are in a system call. The program can wait for the others, while one writes the file for
// example.
//
//go:norace
//go:nocheckptr
func (s *standstill) ownRest() bool {
	n, off := s.n.s, &s.n.s.Off
	for i := range mem.LoadAcquire(uintptr(unsafe.Pointer(&n.goroutines))) {
		g := uintptr(mem.Load64(n.entry(i) + entryG*8))
		m, status := mem.Load64(g+off.GM), mem.Load32(g+off.GStatus)
		if !goruntime.Alive(status) || uint64(g) == n.drainG || uint64(g) == s.n.listenG.Load() || m == n.tickM ||
			!own.Created(s.n.drain.creation(mem.Load64(g+off.GGoPC)).by) {
			continue
		}
		if status != goruntime.GWaiting || m != 0 || !s.waits(g) {
			return false
		}
	}
	return true
}

// waits reports whether the reason for which a goroutine waits is one that can be part of a
// deadlock.
//
//go:norace
//go:nocheckptr
func (s *standstill) waits(g uintptr) bool {
	reason := mem.Load8(g + s.n.s.Off.GWaitReason)
	return int(reason) < len(s.stuck) && s.stuck[reason]
}

// timersOf returns the number of timers of a P that have not been stopped.
//
//go:norace
//go:nocheckptr
func timersOf(p uintptr, off *goruntime.Offsets) int32 {
	return int32(mem.Load32(p+off.PTimers)) - int32(mem.Load32(p+off.PStoppedTimers))
}

// all looks at every goroutine, one after the other. If two calls of all return the same mark,
// no goroutine ran between them, so between the two calls all were stuck at the same time.
func (s *standstill) all() (stuck bool, mark uint64) {
	d := s.n.drain
	if d.roster.behind() {
		return false, 0 // the roster does not have all goroutines
	}
	total := mem.LoadAcquire(uintptr(unsafe.Pointer(&s.n.s.goroutines)))
	if s.awake < total {
		if ok, _ := s.one(s.awake); !ok {
			return false, 0
		}
	}
	for i := range total {
		ok, m := s.one(i)
		if !ok {
			s.awake = i
			return false, 0
		}
		if m != 0 {
			mark = mark*0x9e3779b97f4a7c15 + m
		}
	}
	return true, mark
}

// one looks at the goroutine at a roster index. mark changes when it has run.
//
//go:norace
//go:nocheckptr
func (s *standstill) one(i uint64) (stuck bool, mark uint64) {
	d, off := s.n.drain, &s.n.s.Off
	g := uintptr(mem.Load64(s.n.s.entry(i) + entryG*8))
	status := mem.Load32(g + off.GStatus)
	if !goruntime.Alive(status) {
		return true, 0
	}
	if own.Created(d.creation(mem.Load64(g+off.GGoPC)).by) || d.kind(mem.Load64(g+off.GStartPC)) == systemGoroutine {
		return true, 0 // confirm sees if one runs
	}
	if status != goruntime.GWaiting && status != goruntime.GLeaked || mem.Load64(g+off.GM) != 0 {
		return false, 0
	}
	return s.waits(g), (mem.Load64(g+off.GID)<<8 | uint64(mem.Load8(g+off.GTrackingSeq))) + 1
}
