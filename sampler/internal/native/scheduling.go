//go:build linux && (amd64 || arm64)

package native

import (
	"time"
	"unsafe"

	"github.com/gotach/profiler/sampler/internal/source"
)

// A tick can find a thread that has a P and runs no goroutine: it is in the scheduler. If the thread
// gave all its CPU time to the goroutines that ticks find on it, goroutines that wait often would get
// that of the scheduler. So such a tick counts too, as one that finds a goroutine.

// scheduling records a thread that is in the scheduler, with its CPU time.
//
//go:nosplit
//go:norace
//go:nocheckptr
func scheduling(base, tid, _, _ uintptr) uintptr {
	s := at(base)
	clock := cpuClock(threadClock(uint64(tid)), uintptr(unsafe.Pointer(&s.timespec)))
	if clock == 0 || !room(s, 3) {
		return 0
	}
	w := s.words(s.write)
	store64(w, recScheduler|3<<8)
	store64(w+8, uint64(tid))
	store64(w+16, clock)
	s.write += 3
	return 0
}

// scheduling pays the scheduler for a tick that has found it.
func (d *drain) scheduling(w []uint64) {
	if d.before == 0 {
		return
	}
	on := d.ledger.pay(w[1], w[2], int64(d.now-d.before), true, true)
	if d.account != nil {
		d.account.rows.Add(source.Scheduler, time.Duration(on))
	}
}
