//go:build linux && (amd64 || arm64)

package native

import "unsafe"

// What the handler and the drain share lies in one anonymous mapping outside
// the Go heap: the handler runs while the collector may be at work, so it must
// neither hold nor write Go pointers. All fields that both sides touch go one
// way, as said at each.

// Sizes of what is shared.
const (
	maxDepth   = 256     // frames of a stack, the innermost ones
	ringWords  = 1 << 19 // 4 MB
	maxModules = 64      // the program and its plugins
	maxProcs   = 1024    // Ps that are interrupted; GOMAXPROCS above is sampled in part

	chunkBits  = 12 // roster entries of a chunk
	chunkSize  = 1 << chunkBits
	maxChunks  = 4096 // 16 million goroutines
	entryWords = 6

	pinSlots = 4096 // pinned label sets, open addressing

	maxLabels     = 16   // of a goroutine; one with more counts as unlabelled
	maxLabelBytes = 2048 // of all its keys and values
	scratchWords  = 2*2*maxLabels + 8
	maxRecord     = headWords + 2*maxDepth + 1 + maxLabels + maxLabelBytes/8
	slotWords     = slotRecord + maxRecord + scratchWords
)

type shared struct {
	off     offsets
	system  uint64           // layout.system
	codes   [maxModules]code // modules of them
	modules uint64

	// Set before the first tick.
	pid        uint64
	tid        uint64 // of the tick thread
	tickM      uint64 // its M
	word       uint64 // address of the futex that it waits on
	signal     uint64
	tag        uint64 // marks our signals
	plain      uint64 // plainReads
	secrets    uint64 // 1: Go's handler has to know of every signal, see share
	period     uint64 // ns
	tornAfter  uint64 // cycles that a walk may take
	visitLimit uint64 // cycles that a tick may visit parked goroutines

	ring   uintptr // ringWords
	chunks uintptr // maxChunks addresses of chunkSize entries
	procs  uintptr // maxProcs addresses of Ps
	slots  uintptr // maxProcs
	pins   uintptr // pinSlots

	// Written by the drain, read by the handler.
	goroutines uint64 // entries of the roster
	nprocs     uint64
	quota      uint64 // goroutines to visit a tick, 48.16 bits
	youth      uint64 // ns for which a goroutine is young
	quiet      uint64 // 1: no more signals to running goroutines
	leave      uint64 // a futex, not 0: no more ticks until the timer sends a signal again
	tail       uint64 // of the ring, words read

	_ [64]byte

	// The tick thread's own, read by the drain.
	head     uint64 // of the ring, words written
	write    uint64 // head that is not published yet
	deadline uint64 // of the timer, ns
	now      uint64 // time of this tick
	before   uint64 // time of the tick before
	random   uint64
	young    circle // see turns.go
	old      circle
	met      uint64 // entries of the roster that have been looked at, from the first
	probe    uint64 // next entry to look at again
	fraction uint64 // of a visit, left over
	ticks    uint64
	dropped  uint64 // samples without room
	torn     uint64 // walks during which the goroutine moved
	sent     uint64 // signals to running goroutines
	refused  uint64 // errno of the last signal that could not be sent
	visits   uint64
	visiting uint64 // cycles spent on visits
	staying  uint64 // 1: the tick thread is in the handler and stays there
	unable   uint64 // errno with which it could not wait there
	lost     uint64 // signals that were never answered, or could not be sent

	_ [64]byte

	answered uint64 // interruptions that were handled
	handling uint64 // cycles they took
	unread   uint64 // interruptions at which no stack could be read

	// The thread that verifyOffsets looks at, 0 for none, and its M. Of the signals that it had: how
	// many found m.signalPending to be 1, and how many not; how many came while it was off its
	// goroutine's stack, and of these, in the vDSO.
	probeTID, probeM        uint64
	probeAsked, probeOther  uint64
	probeOutside, probeVDSO uint64

	// What visit found, for walkParked.
	seenStatus, seenM, seenGoid, seenBefore uint64

	// The clock: two readings, of which clockAt is the present one.
	clockAt uint64
	clocks  [2]clock

	info     [16]uint64 // siginfo for rt_tgsigqueueinfo
	timespec [2]uint64
	until    [2]uint64 // timespec of the next tick
	mask     uint64    // signals that are blocked until then
	scratch  [scratchWords]uint64

	// The drain's.
	pinLabels  [1 + maxLabels + maxLabelBytes/8]uint64
	pinScratch [scratchWords]uint64
}

// code is where a module's code is and the tables that tell of it. The handler relies on the order of the first two.
type code struct {
	text, etext    uintptr
	pctab, pclntab span
	ftab           uintptr // pairs of 32 bits: a function's offset in text, and in pclntab
	funcs          uintptr // in ftab
}

// clock is a reading of the cycle counter beside CLOCK_MONOTONIC, and what the
// counter is worth; it serves for most cycles after it.
type clock struct {
	ns, cycles  uint64
	scale, most uint64 // scale is ns a cycle, 32.32 bits
}

// Records in the ring. The first word is kind | words<<8 | status<<32 |
// reason<<40 | flags<<48.
const (
	recPad  = iota // skip its words
	recTick        // word 1: time
	recSame        // word 1: roster index; it has not run since its last recStack
	recGone        // word 1: roster index, word 2: goid that has ended
	recStack
)

// Words of a recStack's head. Program counters follow, then labels.
const (
	headKind = iota
	headG
	headGoid
	headTime
	headBefore // time of the tick before; of a goroutine that had its turn: of the look before
	headParent
	headGoPC
	headStartPC
	headLabels // g.labels
	headCounts // PCs | of them on the system stack <<16 | words of labels <<32
	headSP0    // word at SP; with a link register, LR
	headSP1    // word after it; with a link register, at SP
	headFrame0 // word after the return address of the first frame
	headFrame1 // and of the second
	headIndex  // roster index, or ^0
	headWords
)

// Flags of a recStack.
const (
	flagRunning = 1 << iota // interrupted: the first PC is an instruction's own
	flagTaken               // taken by the goroutine's own thread, at the tick that its P ran it
	flagSaved               // PCs after those of the system stack come from g.sched
	flagVDSO                // interrupted in the vDSO: the first PC is a return address
	flagCut                 // deeper than maxDepth
	flagBubble              // in a synctest bubble
	flagUnwound             // the caller is among the PCs, by unwind
)

// Words of a slot, one for each P.
const (
	slotState = iota // slotFree and so on | generation<<8
	slotM
	slotTID
	slotTime
	slotBefore
	slotCount // words of the record; 0: nothing to see
	slotLast  // g that was interrupted at the tick before
	slotSince // tick of the signal
	slotAsked // not 0: the runtime may have asked the thread for preemption
	slotRecord
)

// States of a slot. The tick thread sends, the interrupted thread fills, the
// tick thread harvests.
const (
	slotFree = iota
	slotSent
	slotFilling
	slotFilled
)

// Words of a roster entry. All but the first are the handler's memory of its
// last visit.
const (
	entryG    = iota
	entryGoid // 0: dead or never seen
	entrySince
	entryNext    // in its circle, index + 1; 0: in none
	entryVisited // time of the latest visit that showed what is there
	entryBorn    // time at which its goroutine joined a circle; 0: it has ended
)

// state is what the handler works on, nil between sessions. inHandler counts
// the threads inside; with state nil and inHandler 0 the mapping may go.
var (
	state      unsafe.Pointer
	inHandler  uint64
	oldHandler uintptr // Go's, which the signal is passed on to; 0: the program ignores it; see passOn
)

// at returns what base returned.
//
//go:nosplit
//go:norace
//go:nocheckptr
func at(base uintptr) *shared { return *(**shared)(unsafe.Pointer(&base)) }

//go:nosplit
//go:norace
//go:nocheckptr
func (s *shared) base() uintptr { return uintptr(unsafe.Pointer(s)) }

// words returns the address of a word of the ring, given its number since the start.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (s *shared) words(n uint64) uintptr { return s.ring + uintptr(n&(ringWords-1))*8 }

//go:nosplit
//go:norace
//go:nocheckptr
func (s *shared) entry(i uint64) uintptr {
	chunk := uintptr(load64(s.chunks + uintptr(i>>chunkBits)*8))
	return chunk + uintptr(i&(chunkSize-1))*entryWords*8
}

//go:nosplit
//go:norace
//go:nocheckptr
func (s *shared) slot(i uint64) uintptr { return s.slots + uintptr(i)*slotWords*8 }
