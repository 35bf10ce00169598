//go:build linux && (amd64 || arm64)

package native

import (
	"unsafe"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/objects"
)

// The memory that handler and drain share. It is one anonymous mapping outside the Go heap:
// the handler may run while the collector works, so it must neither hold nor write Go
// pointers. A comment at each group of fields names its writer.

// Sizes of the parts of shared memory.
const (
	ringWords = 1 << 19       // 4 MB
	ringKept  = ringWords / 2 // for records of running goroutines
	maxProcs  = 1024          // Ps whose goroutines are interrupted; with more, the others are not sampled while they run

	chunkBits  = 12 // roster entries of a chunk
	chunkSize  = 1 << chunkBits
	maxChunks  = 4096 // 16 million goroutines
	entryWords = 8

	pinSlots = 4096 // pinned label sets

	maxLabels     = 16   // of a goroutine; with more it counts as unlabelled
	maxLabelBytes = 2048 // of all its keys and values
	scratchWords  = 2*2*maxLabels + 8
	newAtOnce     = 64                 // entries of runtime.allgs that a tick reads with one call of the kernel
	maxObjects    = objects.MaxObjects // channels of a select that are read; those after them are left out
	maxRecord     = headWords + 2*goruntime.MaxDepth + 1 + maxLabels + maxLabelBytes/8 + maxObjects
	slotWords     = slotRecord + maxRecord + scratchWords
)

type shared struct {
	goruntime.View
	system uint64 // layout.system
	waits  goruntime.WaitSets

	// Set before the first tick.
	pid        uint64
	tid        uint64 // of the tick thread
	tickM      uint64 // its M
	word       uint64 // address of the futex that it waits on
	signal     uint64
	tag        uint64 // marks our signals
	secrets    uint64 // 1: Go's handler must run after each of our signals, see share
	asked      uint64 // ns between two ticks, by the rate asked for
	perMicro   uint64 // cycles of a microsecond
	tornAfter  uint64 // cycles that a walk may take
	visitLimit uint64 // cycles that visits may take at a tick

	ring   uintptr // ringWords
	allgs  uintptr // address of runtime.allgs
	sched  uintptr // address of runtime.sched; 0: not known
	chunks uintptr // maxChunks addresses of chunkSize entries
	procs  uintptr // maxProcs addresses of Ps
	slots  uintptr // maxProcs
	pins   set     // addresses of pinned label sets

	polls  set    // numbers of pages; see objects.go
	pollAt uint64 // where a goroutine in [IO wait] has the address of its pollDesc, in bytes above sched.sp

	visitSlots uintptr // maxVisits slots, for CPU timers
	timerMs    uintptr // maxTimers: the M of the thread
	cpuTag     uint64  // marks the signals of CPU timers

	outside uintptr // a bit for each entry of the roster that is in no circle; see join

	goroutines uint64 // entries of the roster; the drain writes it before the session, ticks afterwards, see addNew

	// Written by the drain, read by the handler.
	nprocs     uint64
	mapped     uint64  // roster entries that have memory
	most       uint64  // roster entries that ticks may add up to
	adds       uint64  // 1: ticks add new entries
	quota      uint64  // goroutines to visit a tick
	stillAfter uint64  // an active entry that has not moved for so many ns is still
	moverAfter uint64  // the same for a mover
	mostLooks  uint64  // looks at the still circle that a tick may make
	beat       uint64  // how often the longest time between two records of a rest is doubled
	sweeps     uint64  // how often lookOnce has asked for a record of each goroutine, see sweep
	ending     uint64  // 1: the tick that has recorded them is the last one
	quiet      uint64  // 1: no more signals to running goroutines
	period     uint64  // ns, mean time between two ticks that the budget allows while something runs
	hurry      uint64  // 1: ticks come as often as asked, and do not come later while the program is idle
	drainG     uint64  // the drain's g
	passes     uint64  // begins and ends of the drain's passes; odd: one is under way
	passDue    uint64  // time of the next pass
	passing    uint64  // CPU time of all passes, ns
	pollFull   uint64  // 1: polls has no room for further pages
	asleep     uint64  // 1: the drain waits for long, and the handler may ring
	bell       uintptr // Source.bell
	leave      uint64  // a futex, not 0: no more ticks until the timer sends a signal again; sweep sets it too
	tail       uint64  // of the ring, words read

	_ [64]byte

	// Written by the tick thread, read by the drain.
	sums

	head     uint64 // of the ring, words written
	write    uint64 // next value of head, not yet published
	ringAt   uint64 // minus the word at the ring's beginning; a tick that finds the ring empty sets it
	deadline uint64 // of the timer, ns
	now      uint64 // time of this tick
	before   uint64 // time of the tick before
	random   uint64

	// See pace.go.
	activity
	found        uint64 // Ps that have a goroutine at this tick
	events       uint64 // goroutines that it has found to be new, to wait at another place than at the visit before, or to have had input
	passesBefore uint64 // passes at the tick before
	ranSince     bool   // there was one since the latest pass began
	ranPasses    uint64 // number of passes that had begun then
	quietTo      uint64 // time of the latest tick before that one

	moving   circle // see circle.go
	active   circle
	still    circle
	was      found  // by the look or visit that is under way
	outs     uint64 // entries that have been looked at and are in no circle
	late     uint64 // ns by which this tick is late
	stalled  uint64 // of these, ns for which the program did not run
	shift    uint64 // see stall
	living   uint64 // goroutines of the program at this tick
	area     uint64 // integral of that number over time, µs
	used     uint64 // CPU time of the process at the last tick, ns; 0: not known
	watch    uint64 // number of ticks at which it will be read
	cpuTime  [2]uint64
	met      uint64 // entries of the roster that have been looked at, from the first
	listed   uint64 // entries of runtime.allgs that ticks have read
	listedAt uint64 // time of the latest tick that found no more of them
	unlisted uint64 // errno with which the kernel refused to read that list
	full     uint64 // 1: the roster has most entries, so the drain adds the ones that it needs
	probe    uint64 // next entry to look at again
	refused  uint64 // errno of the last signal that could not be sent
	began    uint64 // when the looks of this tick began, in cycles

	visited, moved, passed uint64 // results of lookTurn

	sweepAt   uint64 // next entry for sweep
	sweepFrom uint64 // number of the tick at which it began
	sweptFor  uint64 // value of sweeps for which it is under way
	sweeping  uint64 // value for which it has ended
	swept     uint64 // the same, once its records are published

	staying uint64 // 1: the tick thread is in the handler and stays there
	unable  uint64 // errno with which it could not wait there

	_ [64]byte

	answered uint64 // interruptions that were handled, those of CPU timers too
	handling uint64 // cycles they took
	unread   uint64 // interruptions at which no stack could be read

	visitsFilled uint64 // slots of CPU timers that the next tick reads

	// For checkPreempt. Signals of the process to its threads while probing is 1: those with
	// m.signalPending == 1, and other ones. askedM is the M of the latest of the former.
	probing, probeAsked, probeOther, askedM uint64

	// Arguments of visit for walkParked.
	seenStatus, seenM, seenGoid, seenBefore uint64

	// Two readings of the clock. clockAt is the number of readings, and its lowest bit the index of
	// the current one.
	clockAt uint64
	clocks  [2]clock

	info     [16]uint64 // siginfo for rt_tgsigqueueinfo
	newGs    [newAtOnce]uint64
	newWords [newAtOnce]uint64
	newFrom  [newAtOnce][2]uint64 // struct iovec
	newTo    [2]uint64            // struct iovec
	timespec [2]uint64
	until    [2]uint64 // timespec of the next tick
	mask     uint64    // signals that are blocked until then
	scratch  [scratchWords]uint64

	// Used by the drain only.
	pinLabels  [1 + maxLabels + maxLabelBytes/8]uint64
	pinScratch [scratchWords]uint64
}

// sums are those of the ticks since a session began.
type sums struct {
	ticks    uint64
	dropped  uint64 // samples without room
	torn     uint64 // walks during which the goroutine moved
	lost     uint64 // signals that were never answered, or could not be sent
	sent     uint64 // signals to running goroutines
	visits   uint64
	visiting uint64 // cycles spent on visits
	looks    uint64 // looks at the still circle
	looking  uint64 // cycles spent on these, without visits
	news     uint64 // visits to new goroutines
	wanted   uint64 // visits that ticks would have made to goroutines that have moved if they had visited all of them
	ran      uint64 // ticks that found that it had done something
	running  uint64 // sum of found over all ticks
	forCost  uint64 // ns by which ticks came later, in the mean, to stay within the budget
	forIdle  uint64 // ns by which ticks came later, in the mean, because the program was idle
}

// activity is what ticks know of what the program does; see pace.go.
type activity struct {
	lastRan  uint64 // time of the latest tick that found that the program had done something
	awake    uint64 // ns for which it must have done nothing since to be idle
	idle     uint64 // ns, mean time to the next tick if that is long ago, else 0
	ownUntil uint64 // until then the CPU time of the process may be that of a pass of the drain
	others   uint64 // CPU time of the process without the profiler's at the time measured, ns
	measured uint64
	computes uint64 // 1: the process used more than a part of a core then
}

// clock is a reading of CLOCK_MONOTONIC and of the cycle counter at the same moment. It can be
// used for most cycles after that moment.
type clock struct {
	ns, cycles  uint64
	scale, most uint64 // scale is ns per cycle, 32.32 bits
}

// Records in the ring. The first word is kind | words<<8 | status<<32 |
// reason<<40 | flags<<48.
const (
	recPad  = iota // skip its words
	recTick        // words: time, area
	recSame        // words: roster index, time until which it had not run since its last recStack
	recGone        // words: roster index, goid that has ended, time of its end, entryFrom
	recStack
	recScheduler // words: thread, its CPU time; it has a P, but no goroutine
)

// Words of a recStack's head. Program counters follow, then labels, then the addresses of objects
// that the goroutine waits for.
const (
	headKind = iota
	headG
	headGoid
	headTime
	headBefore // time of the tick before; for a visit in turn, of the look before or entryFrom
	headParent
	headGoPC
	headStartPC
	headLabels // g.labels
	headCounts // PCs | PCs on the system stack <<16 | words of labels <<32 | objects <<48 | trackingSeq <<56, of a visit
	headSP0    // word at SP; with a link register, LR
	headSP1    // word after SP; with a link register, word at SP
	headFrame0 // word after the return address of the first frame
	headFrame1 // word after the return address of the second frame
	headIndex  // roster index; ^0: it was not the goroutine's turn, it was visited because it runs or has just run
	headTID    // the thread, if the goroutine runs or is in a system call; otherwise 0
	headClock  // the CPU time that the thread has used, ns; 0: not known
	headSent   // if the thread has not answered the signals of several ticks, the time of the first of these; otherwise 0
	headRuns   // changes when a goroutine that runs has stopped or made a system call; 0: not known
	headWords
)

// Flags of a recStack.
const (
	flagRunning  = 1 << iota // interrupted: the first PC is an instruction's own address
	flagTaken                // recorded by the goroutine's own thread
	flagSaved                // PCs after those of the system stack come from g.sched
	flagVDSO                 // interrupted in the vDSO: the first PC is a return address
	flagCut                  // deeper than goruntime.MaxDepth
	flagBubble               // in a synctest bubble
	flagUnwound              // unwind has added the caller to the PCs
	flagCPUTimer             // recorded at the signal of a CPU timer
	flagThread               // of a thread that runs no goroutine; the head has nothing of a goroutine
	flagBare                 // the stack could not be read: there are no PCs, or they are of no use
	flagForeign              // the first PC is in code, or on a stack, that Go does not know, see foreign
)

// Words of a slot, one for each P.
const (
	slotState = iota // slotFree and so on | generation<<8
	slotM
	slotTID
	slotTime  // of the latest tick that asked
	slotFirst // of the first one
	slotBefore
	slotCount   // words of the record; 0: there is none
	slotLast    // g that ran, or was in a system call, with this P at the tick before
	slotSince   // number of the tick that sent the signal
	slotChecked // time of the latest look at the thread's clock, see recordBlocked
	slotClock   // the thread's CPU time then, or at the latest record that recordBlocked has made; 0: not known
	slotAsked   // not 0: the runtime may have asked the thread for preemption
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

// Words of a roster entry. The handler writes all but the first, at its visits.
const (
	entryG    = iota
	entryGoid // 0: dead or never seen
	entrySince
	entryNext   // index + 1 of the next entry in its circle; 0: in no circle
	entryLooked // time of the latest look or visit that showed the goroutine's state
	entryFrom   // the first sample of its goroutine stands for the time since; 0: a visit has recorded it
	entryMoved  // time of the latest look or visit that found that it had moved; 0: it has ended
	entryMark   // that of the latest visit that recorded the stack, see mark
)

// state is the shared memory for the handler, nil between sessions. inHandler counts the
// threads in the handler. If state is nil and inHandler is 0 the mapping may be freed.
var (
	state      unsafe.Pointer
	inHandler  uint64
	oldHandler uintptr // Go's handler, which gets signals that are not ours; 0: the program ignores the signal; see passOn
)

// at returns the shared memory at an address.
//
//go:nosplit
//go:norace
//go:nocheckptr
func at(base uintptr) *shared { return *(**shared)(unsafe.Pointer(&base)) }

//go:nosplit
//go:norace
//go:nocheckptr
func (s *shared) entry(i uint64) uintptr {
	chunk := uintptr(mem.Load64(s.chunks + uintptr(i>>chunkBits)*8))
	return chunk + uintptr(i&(chunkSize-1))*entryWords*8
}

//go:nosplit
//go:norace
//go:nocheckptr
func (s *shared) slot(i uint64) uintptr { return s.slots + uintptr(i)*slotWords*8 }

// circle is a circular list of roster entries, see circle.go.
type circle struct {
	n    uint64 // number of entries
	dead uint64 // number of entries whose goroutine has ended
	look uint64 // index of the entry that was looked at last

	looks uint64
	order [orderSize]uint32 // indices of the latest looks
}

// orderSize is the number of looks whose order a circle knows.
const orderSize = 1 << 12

// found is what a look or a visit finds of an entry. It is in shared.was, because handlers have
// little stack.
type found struct {
	lives bool   // it has a living goroutine
	first bool   // that has no visit yet, and is not as old as the session
	rests bool   // it has not run since its stack was recorded
	wants bool   // it must be visited: it is new, or has moved, and does not run. One that runs gets a signal
	moved bool   // it has run since the visit of which mark is, or is not parked
	mark  uint64 // of the latest visit that recorded its stack
}

// handlerPC is the entry that the kernel calls. restorerPC is the code that the handler
// returns to.
var handlerPC, restorerPC uintptr

// entry returns the code address of a function.
func entry[F any](f F) uintptr {
	return **(**uintptr)(unsafe.Pointer(&f))
}
