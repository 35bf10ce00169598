//go:build linux && (amd64 || arm64)

package native

// The stages of the handler: functions that it calls through these variables, which nothing writes.
// The linker bounds chains of nosplit calls by the room that a goroutine's stack has left, although the
// handler runs on a signal stack. A call through a variable ends a chain. Builds without optimisation
// have long chains.
//
// What a stage gets a pointer to would be allocated on the heap, if it was on the stack. So the address of a
// variable of the caller is given as a uintptr.
var (
	callStay        = takeTicks
	callTick        = onTick
	callInterrupt   = interrupt
	callInterrupted = onInterrupt
	callOther       = onOther
	callCPUTimer    = onCPUTimer
	callHarvest     = harvestVisits
	callThread      = recordThread
	callSystem      = walkSystem
	callProbe       = noteProbe
	callRecord      = recordRunning
	callSyscall     = recordSyscall
	callStack       = recordStack
	callSwitched    = recordSwitched
	callFinish      = finish
	callDescribe    = describe
	callVisit       = visit
	callWalk        = walkParked
	callBegin       = beginRecord
	callLabels      = copyLabels
	callUnwind      = unwind
	callForeign     = foreign
	callCaller      = caller
	callConfirm     = confirm
	callBlocked     = recordBlocked
	callScheduling  = scheduling
	callCensus      = census
	callTurns       = visitSome
	callMovers      = visitMovers
	callNew         = visitNew
	callStill       = lookStill
	callLook        = lookTurn
	callSweep       = sweep
	callJoin        = join
	callUnmoved     = recordUnmoved
	callGone        = gone
	callNear        = recordNear
	callEnter       = enter
	callExit        = exit
	callAdd         = addNew
)
