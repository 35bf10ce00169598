package native

import (
	"fmt"
	"strings"
)

//go:generate go run ./gen -o layout_gen.go go1.25.3 go1.26.8 go1.27.0

// A layout has the offsets of the fields that this package reads in the runtime of one Go
// version, and the names of its wait reasons. The offsets come from DWARF, the names from the
// runtime's source (see gen). The self-check at Start makes sure that they are right.
type layout struct {
	offsets
	reasons []string
	durable uint64 // wait reasons that are printed with "(durable)" in a synctest bubble
	system  uint64 // wait reasons of a goroutine that uses the CPU on the system stack

	// semaphores says that g.waiting is set for semaphores and condition variables too, not only
	// for channels.
	semaphores bool
}

// offsets are in bytes. They are those of fields in runtime.g, m, p, sudog and hchan, and,
// for the function tables, in runtime.moduledata, runtime._func and runtime.inlinedCall.
type offsets struct {
	gStackLo, gStackHi                 uintptr
	gM                                 uintptr
	gSchedSP, gSchedPC, gSchedBP       uintptr
	gSchedLR                           uintptr
	gSyscallSP, gSyscallPC, gSyscallBP uintptr
	gStatus, gID                       uintptr
	gWaitSince, gWaitReason            uintptr
	gTrackingSeq                       uintptr // uint8: counts how often the goroutine stopped running
	gParent, gGoPC, gStartPC           uintptr
	gLabels, gBubble                   uintptr
	gWaiting                           uintptr // the first sudog of a goroutine that waits for an object
	sudogElem, sudogWaitLink, sudogC   uintptr // elem and c are addresses; since Go 1.26 in a struct
	hchanSize                          uintptr // a channel's capacity
	mutexSema                          uintptr // in sync.Mutex
	rwWriterSema, rwReaderSema         uintptr // in sync.RWMutex, whose first field is a Mutex
	groupSema                          uintptr // in sync.WaitGroup
	condNotify                         uintptr // in sync.Cond
	mG0, mProcID, mCurG, mP, mOldP     uintptr
	mAllLink                           uintptr // the M that was made before this one
	mAllp                              uintptr // a slice that may be a copy of runtime.allp
	mSignalPending                     uintptr // uint32: a preemption signal was sent and not handled yet
	mVDSOSP, mVDSOPC                   uintptr
	pID, pStatus, pSyscallTick, pM     uintptr
	pFree                              uintptr // int32: dead goroutines that the P keeps for reuse
	pTimers, pStoppedTimers            uintptr // uint32: timers in the P's heap; those of them that have been stopped
	schedThreads, schedSystem          uintptr // int32: limit of threads; number of the runtime's goroutines
	schedFree, schedFreeBare           uintptr // int32: dead goroutines, with stack and without

	modPCTab, modPCLNTable, modFTab       uintptr
	modText, modEText, modGoFunc, modNext uintptr
	modData, modEData, modBSS, modEBSS    uintptr
	funcPCSP, funcNPCData, funcNFuncData  uintptr
	funcFlag                              uintptr
	inlParentPC                           uintptr
}

// Goroutine statuses, the same in every supported version (runtime2.go).
const (
	gRunnable  = 1
	gRunning   = 2
	gSyscall   = 3
	gWaiting   = 4
	gDead      = 6
	gCopying   = 8 // runs, and gets a larger stack
	gPreempted = 9
	gDeadExtra = 11 // dead, and kept for a thread of C
	gLeaked    = 10 // found unreachable by the goroutine leak profile
	gScan      = 0x1000
)

// Statuses of a P: it runs a goroutine; in Go 1.25, its goroutine is in a system call.
const (
	pRunning = 1
	pSyscall = 2
	pGCStop  = 3
)

// layoutOf returns the layout for a version string as runtime.Version returns it. Patch releases,
// release candidates and toolchains of vendors have the layout of their release: if one of them
// has moved a field, the self-check finds that. Development versions have no layout, because
// their runtime can be that of any commit between two releases.
func layoutOf(version string) (*layout, error) {
	v, _, _ := strings.Cut(version, " ")
	v, suffix, _ := strings.Cut(v, "-")
	major, rest, ok := strings.Cut(v, ".")
	if ok && !strings.HasPrefix(suffix, "devel") {
		minor := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
		if l := layouts[major+"."+minor]; l != nil {
			return l, nil
		}
	}
	return nil, fmt.Errorf("the runtime of Go version %q is not known here", version)
}
