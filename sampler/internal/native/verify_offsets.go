//go:build linux && (amd64 || arm64)

package native

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/own"
)

// Checks of offsets that verify, with its two goroutines, does not cover: those for system calls,
// for preemption, and for finding out whether a goroutine has run since a visit. They run before
// the first tick, with the handler installed, and use goroutines of our own.

// verifyOffsets makes these checks. If there is more than one P it stops the world for some
// 50 µs.
func (n *Source) verifyOffsets(l *goruntime.Layout) error {
	for _, check := range [...]func(*goruntime.Layout) error{n.checkTables, n.checkSyscall, n.checkRuns, n.checkTimers, n.checkIdle, n.checkObjects, n.checkPreempt} {
		n.patience.Pause()
		if err := check(l); err != nil {
			return err
		}
	}
	return nil
}

// checkSyscall checks the fields that a system call sets. It reads those of the tick thread's
// goroutine, which waits in a futex system call.
func (n *Source) checkSyscall(l *goruntime.Layout) error {
	m := uintptr(n.ticker.m)
	var g uintptr
	for ; ; time.Sleep(50 * time.Microsecond) {
		// Before the system call the goroutine may be parked, and then its thread has no goroutine.
		if g = uintptr(mem.ReadWord(m + l.MCurG)); g != 0 && uint32(mem.ReadWord(g+l.GStatus))&^goruntime.GScan == goruntime.GSyscall {
			break
		}
		if !n.patience.Lasts() {
			return errors.New("the tick thread is not in its system call")
		}
	}
	name := func(pc uint64) string {
		if f := runtime.FuncForPC(uintptr(pc)); f != nil {
			return f.Name()
		}
		return ""
	}
	lo, hi := uintptr(mem.ReadWord(g+l.GStackLo)), uintptr(mem.ReadWord(g+l.GStackHi))
	sp, pc, bp := uintptr(mem.ReadWord(g+l.GSyscallSP)), mem.ReadWord(g+l.GSyscallPC), uintptr(mem.ReadWord(g+l.GSyscallBP))
	// reentersyscall saves the same values in g.sched and in g.syscallpc, syscallsp, syscallbp.
	if sp < lo || sp >= hi || sp != uintptr(mem.ReadWord(g+l.GSchedSP)) || pc != mem.ReadWord(g+l.GSchedPC) || bp != uintptr(mem.ReadWord(g+l.GSchedBP)) {
		return errors.New("what a system call saves is not where it should be")
	}
	if name(pc) != "syscall.Syscall6" {
		return fmt.Errorf("a goroutine in a system call reads as being in %q", name(pc))
	}
	starter := own.Entry("native.startTicker.func1")
	if start := mem.ReadWord(g + l.GStartPC); !strings.HasSuffix(name(start), starter) {
		return fmt.Errorf("a goroutine's first function reads as %q", name(start))
	}
	if mem.ReadWord(g+l.GBubble) != 0 {
		return errors.New("a goroutine's synctest bubble is not where it should be")
	}
	// GOMAXPROCS may have changed since. The array keeps the Ps that are not used any more, up to
	// its capacity.
	p := mem.ReadWord(m + l.MOldP)
	for range 50 {
		ptr, _, c := n.drain.roster.allp.Header()
		procs := make([]uint64, min(c, maxProcs))
		if mem.ReadBig(ptr, procs) == nil && slices.Contains(procs, p) {
			return nil
		}
	}
	return errors.New("the P that a thread left for a system call is not where it should be")
}

// checkRuns checks g.trackingSeq, which counts how often a goroutine stopped running, and
// p.syscalltick, which counts the system calls of a P.
func (n *Source) checkRuns(l *goruntime.Layout) error {
	g := mem.Getg()
	seq := func() uint8 { return uint8(mem.ReadWord(g + l.GTrackingSeq)) }
	// Try often: the goroutine may also be preempted, and move to another P. It stops by sleeping,
	// because after runtime.Gosched all others would run first.
	good := func(count func() bool) bool {
		for range 50 {
			if count() {
				return true
			}
		}
		return false
	}
	for _, times := range []int{1, 3} {
		if !good(func() bool {
			before := seq()
			for range times {
				time.Sleep(time.Nanosecond)
			}
			return seq()-before == uint8(times)
		}) {
			return errors.New("the count of a goroutine's stops is not where it should be")
		}
		if !good(func() bool {
			p := goruntime.OwnP(l)
			before := uint32(mem.ReadWord(p + l.PSyscallTick))
			for range times {
				unix.Syscall(unix.SYS_GETPPID, 0, 0, 0)
			}
			return goruntime.OwnP(l) == p && uint32(mem.ReadWord(p+l.PSyscallTick))-before == uint32(times)
		}) {
			return errors.New("the count of a P's system calls is not where it should be")
		}
	}
	return nil
}

// checkTimers checks the numbers of a P's timers, with two that are started and stopped. A new
// timer also removes stopped ones from the heap's head: so one alone could make another word, less
// the number of stopped ones, look right.
func (n *Source) checkTimers(l *goruntime.Layout) error {
	for range 50 { // the program's timers come and go meanwhile
		runtime.LockOSThread() // so that nothing else runs with this P, unless the goroutine is preempted
		p := goruntime.OwnP(l)
		before := timersOf(p, &l.Offsets)
		// A channel's timer counts only while a goroutine waits for it. One that is stopped stays
		// in the heap of a P that is not used any more. Until its time the runtime reports no
		// deadlock, so that is soon.
		stopFirst := own.Timer(time.Second)
		first := timersOf(p, &l.Offsets)
		stopSecond := own.Timer(time.Second)
		second := timersOf(p, &l.Offsets)
		stopFirst()
		stopSecond()
		after := timersOf(p, &l.Offsets)
		same := goruntime.OwnP(l) == p
		runtime.UnlockOSThread()
		if same && before >= 0 && first == before+1 && second == before+2 && after == before {
			return nil
		}
	}
	return errors.New("the number of a P's timers is not where it should be")
}

// checkIdle checks g.waitsince: it is 0, or the start of the collector's cycle that found the
// goroutine waiting.
func (n *Source) checkIdle(l *goruntime.Layout) error {
	wrong := errors.New("the time since when a goroutine waits is not where it should be")
	if mem.ReadWord(mem.Getg()+l.GWaitSince) != 0 {
		return wrong
	}
	gs, free := parked(2)
	defer free()
	fresh := len(gs)
	for i := uint64(0); i < min(n.s.goroutines, 60); i++ {
		gs = append(gs, uintptr(mem.Load64(n.s.entry(i)+entryG*8)))
	}
	for i, g := range gs {
		since := mem.ReadWord(g + l.GWaitSince)
		if uint32(mem.ReadWord(g+l.GStatus)) != goruntime.GWaiting || since == 0 {
			continue
		}
		// The cycle may have begun before the goroutine waited, but no cycle takes a minute.
		now := monotonicNow()
		if since > now || i < fresh && now-since > uint64(time.Minute) {
			return wrong
		}
	}
	return nil
}

// spinner is a goroutine that runs. For `most` cycles at a time only a signal can preempt it.
type spinner struct {
	stop atomic.Bool
	most uint64
	done chan struct{}
}

func (w *spinner) spin() {
	defer close(w.done)
	for from := mem.Cycles(); !w.stop.Load(); {
		if mem.Cycles()-from > w.most {
			runtime.Gosched()
			from = mem.Cycles()
		}
	}
}

// checkPreempt checks that m.signalPending goes from 0 to 1 and back when the runtime preempts a
// thread. With a wrong offset the handler would not pass on signals that the runtime waits for. Any
// thread will do. If the program runs nothing, the check has a goroutine of its own to be
// preempted.
func (n *Source) checkPreempt(l *goruntime.Layout) error {
	s := n.s
	pending := func(m uintptr) bool { return uint32(mem.ReadWord(m+l.MSignalPending)) != 0 }
	// A thread that the runtime has sent a signal answers when it has a core, which can take long
	// beside other programs.
	end := n.patience.Wait()
	wrong := errors.New("a thread's note of a preemption signal is not where it should be")
	for m := uintptr(mem.ReadWord(mem.Getg() + l.GM)); pending(m); time.Sleep(20 * time.Microsecond) {
		if time.Now().After(end) {
			return wrong
		}
	}
	if asyncPreemptOff() {
		return nil // the runtime sends no preemption signals
	}
	mem.StoreRelease(uintptr(unsafe.Pointer(&s.probing)), 1)
	defer mem.StoreRelease(uintptr(unsafe.Pointer(&s.probing)), 0)
	const enough = 10                                                   // signals to tell that the note is elsewhere
	w := &spinner{most: s.perMicro * 30_000, done: make(chan struct{})} // 30 ms
	spins := false
	asked, other := uint64(0), uint64(0)
	for try := 0; try < fewTries || time.Now().Before(end) || asked+other <= enough && n.patience.Lasts(); try++ {
		if err := n.drain.roster.refreshProcs(); err != nil {
			return err
		}
		if runtime.GOMAXPROCS(0) > 1 {
			runtime.ReadMemStats(new(runtime.MemStats)) // stops the world and preempts what runs
		}
		// With one P the runtime preempts what runs after its time slice of 10 ms.
		time.Sleep(50 * time.Microsecond)
		asked, other = mem.LoadAcquire(uintptr(unsafe.Pointer(&s.probeAsked))), mem.LoadAcquire(uintptr(unsafe.Pointer(&s.probeOther)))
		// The program may preempt its threads again and again. Between two signals the note is 0.
		for range 1000 {
			if asked > other && !pending(uintptr(mem.LoadAcquire(uintptr(unsafe.Pointer(&s.askedM))))) {
				return nil
			}
		}
		switch {
		case asked <= other && asked+other > enough:
			return wrong
		case asked+other == 0 && !spins:
			spins = true
			own.Ordinary(w.spin)
			defer func() {
				w.stop.Store(true)
				select {
				case <-w.done:
				case <-time.After(20 * time.Millisecond): // others run now; it ends when it is its turn
				}
			}()
		}
	}
	return wrong
}

// asyncPreemptOff reports whether the runtime sends no preemption signals. GODEBUG=gccheckmark
// turns them off too.
func asyncPreemptOff() bool {
	environment := goruntime.StartEnvironment()
	return goruntime.GoDebug("asyncpreemptoff", environment) != 0 || goruntime.GoDebug("gccheckmark", environment) > 0
}

// checkTables checks the tables of frame sizes and the function flags, for our own assembly.
func (n *Source) checkTables(l *goruntime.Layout) error {
	const topFrame = 1 << 0 // abi.FuncFlagTopFrame
	wrong := errors.New("the program's tables of frame sizes are not where they should be")
	begin, ok := n.table.SPDelta(handlerPC)
	after, ok2 := n.table.SPDelta(handlerPC + firstOfSigtramp)
	if !ok || !ok2 || begin != 0 || after != frameOfSigtramp {
		return wrong
	}
	for pc, want := range map[uintptr]byte{restorerPC: topFrame, entry(visit): 0} {
		f, _, _ := n.table.Find(pc)
		if f == 0 || mem.Load8(f+l.FuncFlag)&(topFrame|goruntime.FuncFlagSPWrite) != want {
			return wrong
		}
	}
	return nil
}
