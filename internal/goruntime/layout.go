package goruntime

import (
	"slices"
	"strings"
)

//go:generate go run ./gen -o layout_gen.go go1.25.3 go1.26.8 go1.27.0

// A Layout has the offsets of the fields that the profiler reads in the runtime of one Go version,
// and the names of its wait reasons. Durable and System are sets: bit n is that of Reasons[n]. The
// offsets come from DWARF, the names from the runtime's source (see gen). The self-check at Start
// makes sure that they are right.
type Layout struct {
	Offsets
	Reasons []string // by their numbers
	Durable uint64   // wait reasons that are printed with "(durable)" in a synctest bubble
	System  uint64   // wait reasons of a goroutine that uses the CPU on the system stack

	// Semaphores says that g.waiting is set for semaphores and condition variables too, not only
	// for channels.
	Semaphores bool
}

// Clone returns a copy, which the tables of layouts change into that of another version.
func (l *Layout) Clone() *Layout {
	c := *l
	return &c
}

// Drop removes wait reasons. Other copies keep theirs.
func (l *Layout) Drop(reasons ...string) {
	var left []string
	for _, r := range l.Reasons {
		if !slices.Contains(reasons, r) {
			left = append(left, r)
		}
	}
	l.Reasons = left
}

// Insert puts wait reasons after another one. Other copies keep theirs.
func (l *Layout) Insert(after string, reasons ...string) {
	i := slices.Index(l.Reasons, after) + 1
	l.Reasons = append(l.Reasons[:i:i], append(reasons, l.Reasons[i:]...)...)
}

// Offsets are in bytes. They are those of fields in runtime.g, m, p, sudog, hchan and pollDesc,
// and, for the function tables, in runtime.moduledata, runtime._func and runtime.inlinedCall.
type Offsets struct {
	GStackLo, GStackHi                 uintptr
	GM                                 uintptr
	GSchedSP, GSchedPC, GSchedBP       uintptr
	GSchedLR                           uintptr
	GSyscallSP, GSyscallPC, GSyscallBP uintptr
	GStatus, GID                       uintptr
	GWaitSince, GWaitReason            uintptr
	GTrackingSeq                       uintptr // uint8: counts how often the goroutine stopped running
	GParent, GGoPC, GStartPC           uintptr
	GLabels, GBubble                   uintptr
	GWaiting                           uintptr // the first sudog of a goroutine that waits for an object
	SudogElem, SudogWaitLink, SudogC   uintptr // Elem and c are addresses; since Go 1.26 in a struct
	HchanSize                          uintptr // a channel's capacity
	PollFD, PollFDSeq                  uintptr // in runtime.pollDesc: the descriptor, and a count of its uses; it is freed and used again
	PollRG, PollWG                     uintptr // the goroutine that waits for the descriptor to be readable, to be writable
	MutexSema                          uintptr // in sync.Mutex
	RwWriterSema, RwReaderSema         uintptr // in sync.RWMutex, whose first field is a Mutex
	GroupSema                          uintptr // in sync.WaitGroup
	CondNotify                         uintptr // in sync.Cond
	MG0, MProcID, MCurG, MP, MOldP     uintptr
	MAllLink                           uintptr // the M that was made before this one
	mAllp                              uintptr // a slice that may be a copy of runtime.allp
	MSignalPending                     uintptr // uint32: a preemption signal was sent and not handled yet
	MVDSOSP, MVDSOPC                   uintptr
	PID, PStatus, PSyscallTick, PM     uintptr
	PFree                              uintptr // int32: dead goroutines that the P keeps for reuse
	PTimers, PStoppedTimers            uintptr // uint32: timers in the P's heap; those of them that have been stopped
	SchedThreads, SchedSystem          uintptr // int32: limit of threads; number of the runtime's goroutines
	SchedFree, SchedFreeBare           uintptr // int32: dead goroutines, with stack and without

	ModPCTab, ModPCLNTable, ModFTab       uintptr
	ModText, ModEText, ModGoFunc, ModNext uintptr
	ModData, ModEData, ModBSS, ModEBSS    uintptr
	FuncPCSP, FuncNPCData, FuncNFuncData  uintptr
	FuncFlag                              uintptr
	InlParentPC                           uintptr
}

// Goroutine statuses, the same in every supported version (runtime2.go).
const (
	GRunnable  = 1
	GRunning   = 2
	GSyscall   = 3
	GWaiting   = 4
	GDead      = 6
	GCopying   = 8 // runs, and gets a larger stack
	GPreempted = 9
	GLeaked    = 10     // found unreachable by the goroutine leak profile
	GDeadExtra = 11     // dead, and kept for a thread of C
	GScan      = 0x1000 // added to another status while somebody reads the stack
)

// Statuses of a P.
const (
	PRunning = 1 // it runs a goroutine
	PSyscall = 2 // in Go 1.25: its goroutine is in a system call
	PGCStop  = 3 // the world is stopped
)

// Alive reports whether a status is that of a goroutine that has not ended.
//
//go:nosplit
//go:norace
//go:nocheckptr
func Alive(status uint32) bool {
	switch status &^ GScan {
	case GRunnable, GRunning, GCopying, GSyscall, GWaiting, GPreempted, GLeaked:
		return true
	}
	return false
}

// Release returns the key of a version in tables of layouts, such as go1.26. Patch releases,
// release candidates and toolchains of vendors have the layout of their release: if one of them
// has moved a field, the self-check finds that. Development versions have no layout, because
// their runtime can be that of any commit between two releases: of them it returns "".
func Release(version string) string {
	v, _, _ := strings.Cut(version, " ")
	v, suffix, _ := strings.Cut(v, "-")
	major, rest, ok := strings.Cut(v, ".")
	if !ok || strings.HasPrefix(suffix, "devel") {
		return ""
	}
	return major + "." + rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
}

// LeafState says where the return address of an interrupted function is if the frame pointer
// chain misses it: memmove and similar functions have no frame, and other functions have none
// at their first and last instructions.
type LeafState uint8

const (
	LeafFramed LeafState = iota // in the chain
	LeafAtSP                    // at SP (or in LR)
	LeafAtSP1                   // in the word after SP (or at SP)
)
