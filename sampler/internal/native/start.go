//go:build linux && (amd64 || arm64)

package native

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/sampler/internal/cost"
	"github.com/gotach/profiler/sampler/internal/source"
)

// Start checks that the source can be trusted here and begins to sample.
func (n *Source) Start(cfg source.Config, out source.Out) (err error) {
	l, err := goruntime.LayoutOf(n.version)
	if err != nil {
		return err
	}
	if err := refuse(); err != nil {
		return err
	}
	if !busy.CompareAndSwap(false, true) && !takeOver() {
		return errors.New("another native source is running")
	}
	n.cfg, n.layout = cfg, l
	done := make(chan struct{})
	own.Go(func() {
		defer own.Turn()()
		n.patience = cost.NewPatience(cost.CPUOfThread(), cfg.Fallback)
		if err = mem.UnlessFault(func() error { return n.start(l, out) }); err != nil {
			n.giveBack()
		}
		started := err == nil
		close(done) // the caller has err now
		if started {
			n.loop()
		}
	})
	<-done
	return err
}

// start does the work of Start, on a goroutine that is locked to its thread and becomes the drain's.
func (n *Source) start(l *goruntime.Layout, out source.Out) error {
	n.patience.Pause()
	if err := n.prepare(l); err != nil {
		return err
	}
	if proven.l != l {
		if err := n.verifyOffsets(l); errors.As(err, new(unix.Errno)) {
			return err
		} else if err != nil {
			return fmt.Errorf("%s: %w", n.version, err) // it says if the build has an experiment that moves the runtime's data
		}
		proven.polls, proven.noPoll = n.findPoll(l)
	}
	if n.noPoll = proven.noPoll; n.noPoll != nil {
		n.s.waits.Poll = 0
	} else {
		n.s.pollAt = proven.polls.at
		for _, p := range proven.polls.known {
			n.s.addPoll(p)
		}
	}
	if err := n.verify(l); err != nil {
		return err
	}
	proven.l, proven.allgs, proven.allp, proven.sched = l, goruntime.SliceAt(n.s.allgs), n.drain.roster.allp, n.s.sched
	n.patience.Pause()
	d := n.newDrain(l, n.cfg, out)
	d.roster, d.gs = n.drain.roster, n.drain.gs
	clear(d.gs)
	if err := d.roster.refresh(); err != nil {
		return err
	}
	begun := monotonicNow()
	d.roster.begin(begun)
	if err := d.roster.handOver(begun); err != nil {
		return err
	}
	n.drain = d
	n.bell = new(uint64)
	n.s.bell = uintptr(unsafe.Pointer(n.bell))
	n.began = time.Now()
	first := n.begin(uint64(time.Second) / uint64(max(n.cfg.Rate, 1)))
	n.s.area = n.s.living * (n.s.now - begun) / 1000 // the first samples stand for the time since then
	d.threads.begin()
	d.account = newAccount(d.threads, n.ticker.tid, monitor(l, usesC(n.old), uintptr(mem.ReadWord(mem.Getg()+l.GM)), uintptr(n.ticker.m)), usesC(n.old), d.time(n.s.now))
	if err := n.ticker.arm(first); err != nil {
		return err
	}
	n.quit, n.done = make(chan struct{}), make(chan struct{})
	n.long, n.rung, n.deaf = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{})
	own.Go(n.listen)
	return nil
}

// begin prepares the roster for a session: it forgets what earlier ticks noted, and puts all living
// goroutines into the still circle. No tick may be under way. Without begin, in a program that once
// had many goroutines, ticks would take seconds to find the few that are left.
func (r *roster) begin(now uint64) {
	s := r.s
	s.moving, s.active, s.still = circle{}, circle{}, circle{}
	s.met, s.probe, s.outs = r.taken, 0, 0
	for i := range s.met {
		takeIn(s, i)
	}
	s.outs = 0
	for i := range s.met {
		entry := s.entry(i)
		for word := uintptr(entryG + 1); word < entryWords; word++ {
			mem.Store64(entry+word*8, 0)
		}
		mem.Store64(entry+entryLooked*8, now)
		g := uintptr(mem.Load64(entry + entryG*8))
		if goruntime.Alive(mem.Load32(g + s.Off.GStatus)) {
			mem.Store64(entry+entryGoid*8, mem.Load64(g+s.Off.GID))
			mem.Store64(entry+entryFrom*8, now)
			mem.Store64(entry+entryMark*8, mark(s, g))
			enter(s, &s.still, i, now)
		} else {
			leaveOut(s, i)
		}
	}
}

// Stop ends sampling; see source.Source.
func (n *Source) Stop() {
	n.endWaits()
	n.guarded(func() { n.lookOnce(lastLook, true) })
	ended := n.silence()
	own.Again() // what follows can take some ms
	if !n.broken {
		if ended {
			n.finishRing()
		}
		n.drain.end = true
		n.guarded(n.pass)
	}
	n.giveBack()
}

// guarded calls f, which may fault or panic.
func (n *Source) guarded(f func()) {
	defer n.caught()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	f()
}

// silence ends the ticks. Then it waits up to answerLimit for threads that have not answered. It
// returns false if a tick may still be under way: then only that tick may write to the ring.
func (n *Source) silence() (ended bool) {
	mem.StoreRelease(uintptr(unsafe.Pointer(&n.s.quiet)), 1)
	n.ended = time.Now()
	n.drain.threads.stopAll()
	n.ticker.timer.delete()
	ended = n.ticker.stop()
	within(answerLimit, func() bool { return !n.pending() })
	return ended
}

// pending reports whether a living thread has not answered its signal yet.
func (n *Source) pending() bool {
	for i := uint64(0); i < n.s.nprocs; i++ {
		slot := n.s.slot(i)
		if st := mem.LoadAcquire(slot) & 0xff; st == slotSent || st == slotFilling {
			if unix.Tgkill(os.Getpid(), int(mem.Load64(slot+slotTID*8)), 0) == nil {
				return true
			}
		}
	}
	return false
}

// finishRing copies the last answers to the ring, as the next tick would have done.
func (n *Source) finishRing() {
	s := n.s
	s.write = s.head
	for i := uint64(0); i < s.nprocs; i++ {
		slot := s.slot(i)
		if st := mem.LoadAcquire(slot); st&0xff == slotFilled {
			harvest(s, slot)
			mem.StoreRelease(slot, st&^0xff)
		}
	}
	mem.StoreRelease(uintptr(unsafe.Pointer(&s.head)), s.write)
}
