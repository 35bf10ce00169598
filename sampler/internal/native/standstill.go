//go:build linux && (amd64 || arm64)

package native

import (
	"time"
	"unsafe"

	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/sampler/internal/deadlock"
)

// standstill finds deadlocks that the session hides; see package deadlock.
type standstill struct {
	n     *Source
	off   bool
	stuck []bool // by wait reason
	watch deadlock.Watch
	next  time.Time
	awake uint64 // roster index of a goroutine that was not stuck
}

// looksEvery is the time between two looks at all goroutines. A look ends at the first
// goroutine that is not stuck, and the next look begins with that one. So in most programs a
// look reads one goroutine.
const looksEvery = 200 * time.Millisecond

func newStandstill(n *Source) *standstill {
	s := &standstill{n: n, off: !deadlock.Possible(), stuck: make([]bool, len(n.drain.l.reasons))}
	for i, reason := range n.drain.l.reasons {
		s.stuck[i] = deadlock.Stuck(reason)
	}
	return s
}

// look reports whether it is time to confirm a deadlock.
func (s *standstill) look(now time.Time) bool {
	if s.off || now.Before(s.next) {
		return false
	}
	stuck, mark := s.all()
	s.next = now.Add(max(looksEvery, 200*time.Since(now))) // looks take half a percent of the time at most
	return s.watch.Look(now, stuck, mark)
}

// confirm is called while the caller waits for no timer.
func (s *standstill) confirm() bool {
	v := deadlock.Confirm(s.n.ticker.tid)
	stuck, mark := s.all()
	return s.watch.Conclude(v, stuck, mark)
}

// all looks at every goroutine, one after the other. If two calls of all return the same mark,
// no goroutine ran between them, so between the two calls all were stuck at the same time.
func (s *standstill) all() (stuck bool, mark uint64) {
	d := s.n.drain
	if d.roster.behind() {
		return false, 0 // the roster does not have all goroutines
	}
	total := loadAcquire(uintptr(unsafe.Pointer(&s.n.s.goroutines)))
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
		mark = mark*0x9e3779b97f4a7c15 + m
	}
	return true, mark
}

// one looks at the goroutine at a roster index. mark changes when it has run.
//
//go:norace
//go:nocheckptr
func (s *standstill) one(i uint64) (stuck bool, mark uint64) {
	d, off := s.n.drain, &s.n.s.off
	g := uintptr(load64(s.n.s.entry(i) + entryG*8))
	status := load32(g + off.gStatus)
	if !alive(status) {
		return true, 0
	}
	if own.Created(d.creation(load64(g + off.gGoPC)).by) {
		return true, 0
	}
	if status != gWaiting && status != gLeaked || load64(g+off.gM) != 0 {
		return false, 0
	}
	reason := load8(g + off.gWaitReason)
	if int(reason) >= len(s.stuck) || !s.stuck[reason] && d.kind(load64(g+off.gStartPC)) != systemGoroutine {
		return false, 0
	}
	return true, (load64(g+off.gID)<<8 | uint64(load8(g+off.gTrackingSeq))) + 1
}
