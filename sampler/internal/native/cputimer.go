//go:build linux && (amd64 || arm64)

package native

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
)

// Ticks say where goroutines are. They do not say where the cores go: a tick finds a thread where
// it sleeps, and on a busy machine a tick comes when a thread has stopped. So each thread that runs
// goroutines has a timer on its own CPU clock, as for runtime/pprof (runtime.setThreadCPUProfiler).
// Its signal comes while the thread uses a core, at most once a tick of the kernel (CONFIG_HZ, 100
// to 1000 a second). The handler records what the thread does, with the thread's clock: a visit. It
// stands for the CPU time since the thread's visit before.
//
// Another thread of the process can make such a timer, and needs no privilege for it. The drain
// makes one when a tick first finds a goroutine on a thread. So threads of C have none.

const (
	maxTimers = 1 << 12 // threads with a timer
	maxVisits = 1 << 9  // visits between two ticks; the CPU time of those that find no room belongs to the thread's next

	cpuTimerTag = 1 << 47 // in the value of a CPU timer's signal: the number of the timer follows, in the lowest bits
	cpuTimerID  = 1<<32 - 1
)

// isCPUTimer reports whether a timer's signal with this value is that of a CPU timer of this
// session.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (s *shared) isCPUTimer(value uint64) bool {
	return value&^cpuTimerID == s.cpuTag
}

// visitOf returns the address of a slot for visits.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (s *shared) visitOf(i uint64) uintptr { return s.visitSlots + uintptr(i)*slotWords*8 }

// onCPUTimer records what this thread does. It returns 0 if the runtime has not asked this thread
// for preemption, as onInterrupt.
//
//go:nosplit
//go:norace
//go:nocheckptr
func onCPUTimer(s *shared, value uint64, ctx uintptr) uintptr {
	begin := mem.Cycles()
	asked := uintptr(1)
	for i := uint64(0); i < maxVisits; i++ {
		slot := s.visitOf(i)
		if mem.Load64(slot) != slotFree || !mem.Cas64(slot, slotFree, slotFilling) {
			continue
		}
		m := interruptedM(s, ctx, s.timerMs+uintptr(value&(maxTimers-1))*8)
		mem.Store64(slot+slotM*8, uint64(m))
		mem.Store64(slot+slotTID*8, uint64(mem.Syscall(unix.SYS_GETTID, 0, 0, 0, 0, 0, 0)))
		now := s.timeNow(slot + slotRecord*8)
		mem.Store64(slot+slotTime*8, now)
		mem.Store64(slot+slotFirst*8, now)
		mem.Store64(slot+slotBefore*8, mem.Load64(uintptr(unsafe.Pointer(&s.now))))
		mem.Store64(slot+slotAsked*8, 1)
		n := uint64(0)
		if m != 0 {
			if n = uint64(callRecord(s, slot, ctx)); n == 0 {
				n = uint64(callThread(s, slot, ctx))
			}
		}
		if n != 0 {
			mem.Store64(slot+slotRecord*8, mem.Load64(slot+slotRecord*8)|flagCPUTimer<<48)
		}
		mem.Store64(slot+slotCount*8, n)
		asked = uintptr(mem.Load64(slot + slotAsked*8))
		mem.Add64(uintptr(unsafe.Pointer(&s.visitsFilled)), 1)
		mem.StoreRelease(slot, slotFilled)
		break
	}
	callOther(s, ctx) // a signal of a tick may have been lost while this one was pending
	mem.Add64(uintptr(unsafe.Pointer(&s.answered)), 1)
	mem.Add64(uintptr(unsafe.Pointer(&s.handling)), min(mem.Cycles()-begin, s.tornAfter/4))
	return asked
}

var callCPUTimer = onCPUTimer

// harvestVisits copies the visits since the last tick to the ring.
//
//go:nosplit
//go:norace
//go:nocheckptr
func harvestVisits(s *shared) {
	filled := uintptr(unsafe.Pointer(&s.visitsFilled))
	for i := uint64(0); i < maxVisits && mem.LoadAcquire(filled) != 0; i++ {
		if slot := s.visitOf(i); mem.LoadAcquire(slot) == slotFilled {
			harvest(s, slot)
			mem.Add64(filled, ^uint64(0))
			mem.StoreRelease(slot, slotFree)
		}
	}
}

var callHarvest = harvestVisits

// recordThread records a thread that runs no goroutine: it is in the scheduler. If it is on its
// system stack, the record has that stack's PCs.
//
//go:nosplit
//go:norace
//go:nocheckptr
func recordThread(s *shared, slot, ctx uintptr) uintptr {
	rec := slot + slotRecord*8
	m, tid := uintptr(mem.Load64(slot+slotM*8)), mem.Load64(slot+slotTID*8)
	if mem.Load64(m+s.Off.MProcID) != tid {
		return 0
	}
	beginHead(rec, mem.Load64(slot+slotTime*8), mem.Load64(slot+slotBefore*8), tid, cpuClock(unix.CLOCK_THREAD_CPUTIME_ID, rec+maxRecord*8))
	mem.Store64(rec, goruntime.GRunning<<32|(flagRunning|flagTaken|flagThread)<<48)
	mem.Store64(rec+headIndex*8, ^uint64(0))
	n := callSystem(s, rec, m, ctx)
	link(s, rec, ctx)
	return callFinish(s, rec, n, rec+maxRecord*8)
}

var callThread = recordThread
