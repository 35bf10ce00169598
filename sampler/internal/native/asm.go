//go:build linux && (amd64 || arm64)

package native

import "unsafe"

// The handler must not call into the runtime. With -race, sync/atomic calls the race
// detector. So the handler has its own atomic operations and system calls in assembly.

// handlerPC is the entry that the kernel calls. restorerPC is the code that the handler
// returns to.
var handlerPC, restorerPC uintptr

// getg returns the address of the calling goroutine's runtime.g.
func getg() uintptr

// rawSyscall makes a system call without telling the scheduler. It returns the kernel's
// result: above errnoFloor that is a negated errno.
func rawSyscall(n, a, b, c, d, e, f uintptr) uintptr

// fence completes the loads before it before the loads after it, for the
// processor and for the compiler.
func fence()

// cycles reads the processor's time counter, which takes some ns.
func cycles() uint64

// prefetch loads the cache line of an address into the cache. It is a hint: it does not
// wait, and it does nothing for an unmapped address.
func prefetch(addr uintptr)

// The code addresses of the handler's stages, taken from their func values. They use the
// compiler's calling convention.
var (
	signalPC      = entry(onSignal)
	stayPC        = entry(stay)
	tickPC        = entry(onTick)
	interruptPC   = entry(interrupt)
	interruptedPC = entry(onInterrupt)
	otherPC       = entry(onOther)
	cpuTimerPC    = entry(onCPUTimer)
	harvestPC     = entry(harvestVisits)
	threadPC      = entry(recordThread)
	systemPC      = entry(walkSystem)
	probePC       = entry(noteProbe)
	recordPC      = entry(recordRunning)
	syscallPC     = entry(recordSyscall)
	stackPC       = entry(recordStack)
	switchedPC    = entry(recordSwitched)
	finishPC      = entry(finish)
	describePC    = entry(describe)
	visitPC       = entry(visit)
	walkPC        = entry(walkParked)
	beginPC       = entry(beginRecord)
	labelsPC      = entry(copyLabels)
	unwindPC      = entry(unwind)
	foreignPC     = entry(foreign)
	callerPC      = entry(caller)
	blockedPC     = entry(recordBlocked)
	confirmPC     = entry(confirm)
	deltaPC       = entry(delta)
	modulePC      = entry(moduleOf)
	otherCodePC   = entry(otherCode)
	schedulingPC  = entry(scheduling)
	censusPC      = entry(census)
	turnsPC       = entry(takeTurns)
	moversPC      = entry(visitMovers)
	youngPC       = entry(visitYoung)
	newPC         = entry(visitNew)
	turnPC        = entry(visitTurn)
	lookPC        = entry(lookTurn)
	joinPC        = entry(join)
	staysPC       = entry(stays)
	gonePC        = entry(gone)
	enterPC       = entry(enter)
	exitPC        = entry(exit)
	besidePC      = entry(recordBeside)
	addPC         = entry(addNew)
)

func entry(f func(a, b, c, d uintptr) uintptr) uintptr {
	return **(**uintptr)(unsafe.Pointer(&f))
}

// These call the stages through assembly; see STAGE there.
func callStay(s, _, _, _ uintptr) uintptr
func callTick(s, _, _, _ uintptr) uintptr
func callInterrupt(s, i, _, _ uintptr) uintptr
func callInterrupted(s, value, ctx, _ uintptr) uintptr
func callOther(s, ctx, _, _ uintptr) uintptr
func callCPUTimer(s, value, ctx, _ uintptr) uintptr
func callHarvest(s, _, _, _ uintptr) uintptr
func callThread(s, slot, ctx, _ uintptr) uintptr
func callSystem(s, rec, m, ctx uintptr) uintptr
func callProbe(s, ctx, _, _ uintptr) uintptr
func callRecord(s, slot, ctx, _ uintptr) uintptr
func callSyscall(s, slot, g, _ uintptr) uintptr
func callStack(s, rec, ctx, _ uintptr) uintptr
func callSwitched(s, rec, g, ctx uintptr) uintptr
func callFinish(s, rec, n, scratch uintptr) uintptr
func callDescribe(s, rec, g, index uintptr) uintptr
func callVisit(s, g, entry, index uintptr) uintptr
func callWalk(s, g, index, _ uintptr) uintptr
func callBegin(s, g, index, rest uintptr) uintptr
func callLabels(s, p, dst, scratch uintptr) uintptr
func callUnwind(s, rec, ctx, hi uintptr) uintptr
func callDelta(s, pc, _, _ uintptr) uintptr
func callModule(s, pc, _, _ uintptr) uintptr
func callOtherCode(s, word, _, _ uintptr) uintptr
func callForeign(s, rec, ctx, _ uintptr) uintptr
func callCaller(s, rec, bp, lo uintptr) uintptr
func callConfirm(s, g, n, rest uintptr) uintptr
func callBlocked(s, slot, g, tid uintptr) uintptr
func callScheduling(s, tid, _, _ uintptr) uintptr
func callCensus(s, _, _, _ uintptr) uintptr
func callTurns(s, _, _, _ uintptr) uintptr
func callMovers(s, n, whole, _ uintptr) uintptr
func callYoung(s, n, _, _ uintptr) uintptr
func callNew(s, n, whole, _ uintptr) uintptr
func callTurn(s, c, n, same uintptr) uintptr
func callLook(s, c, n, visits uintptr) uintptr
func callJoin(s, n, _, _ uintptr) uintptr
func callStays(s, entry, index, _ uintptr) uintptr
func callGone(s, entry, index, _ uintptr) uintptr
func callBeside(s, rec, sp, bp uintptr) uintptr
func callEnter(s, c, index, moved uintptr) uintptr
func callExit(s, c, before, index uintptr) uintptr
func callAdd(s, _, _, _ uintptr) uintptr

func cas64(addr uintptr, old, new uint64) bool
func add64(addr uintptr, delta uint64)

// swap64 stores a word and returns the old one. Unlike storeRelease it is complete before
// any later load.
func swap64(addr uintptr, v uint64) uint64

func loadAcquire(addr uintptr) uint64
func storeRelease(addr uintptr, v uint64)

const errnoFloor = ^uintptr(4094)

// These functions access memory by address that is no Go pointer for the collector. They
// convert through the address of the pointer, because checkptr and vet reject a direct
// conversion from uintptr.

//go:nosplit
//go:norace
//go:nocheckptr
func load64(addr uintptr) uint64 {
	return *(*uint64)(*(*unsafe.Pointer)(unsafe.Pointer(&addr)))
}

//go:nosplit
//go:norace
//go:nocheckptr
func load32(addr uintptr) uint32 {
	return *(*uint32)(*(*unsafe.Pointer)(unsafe.Pointer(&addr)))
}

//go:nosplit
//go:norace
//go:nocheckptr
func load8(addr uintptr) uint8 {
	return *(*uint8)(*(*unsafe.Pointer)(unsafe.Pointer(&addr)))
}

//go:nosplit
//go:norace
//go:nocheckptr
func store64(addr uintptr, v uint64) {
	*(*uint64)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))) = v
}

//go:nosplit
//go:norace
//go:nocheckptr
func store8(addr uintptr, v uint8) {
	*(*uint8)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))) = v
}

//go:nosplit
//go:norace
//go:nocheckptr
func store32(addr uintptr, v uint32) {
	*(*uint32)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))) = v
}
