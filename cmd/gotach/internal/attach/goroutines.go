//go:build linux && (amd64 || arm64)

package attach

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/analyze/instant"
	"github.com/gotach/profiler/internal/goruntime"
	"golang.org/x/sys/unix"
)

// A head is what is read of a runtime.g. A goroutine that has the same motion as before has not run
// since, unless it stopped running a multiple of 256 times.
type head struct {
	motion
	lo, hi, lr, since   uint64
	parent, gopc, start uint64
	labels, waiting     uint64
	bubble              bool
	held                bool // by the collector, which perhaps moves its stack; in a core nothing moves
}

type motion struct {
	id     uint64
	sp, pc uint64 // where it goes on; of a running goroutine it is not known
	status uint32 // without GScan
	reason uint8
	seq    uint8 // counts how often it stopped running
}

// headSize is how much of a runtime.g is read.
func headSize(l *goruntime.Layout) int {
	return int(max(l.GLabels, l.GStartPC, l.GGoPC, l.GWaiting, l.GParent, l.GBubble, l.GWaitReason, l.GTrackingSeq)) + 8
}

func parse(b []byte, l *goruntime.Layout) (h head) {
	word := func(off uintptr) uint64 { return le.Uint64(b[off:]) }
	h.motion, h.since = motionOf(b, l), word(l.GWaitSince)
	h.lo, h.hi = word(l.GStackLo), word(l.GStackHi)
	if h.held = le.Uint32(b[l.GStatus:])&goruntime.GScan != 0; h.status != goruntime.GSyscall {
		h.lr = word(l.GSchedLR)
	}
	h.gopc, h.start, h.labels, h.waiting = word(l.GGoPC), word(l.GStartPC), word(l.GLabels), word(l.GWaiting)
	if l.GParent != 0 {
		h.parent = word(l.GParent)
	}
	h.bubble = l.GBubble != 0 && word(l.GBubble) != 0
	return h
}

func motionOf(b []byte, l *goruntime.Layout) motion {
	m := motion{id: le.Uint64(b[l.GID:]), status: le.Uint32(b[l.GStatus:]) &^ goruntime.GScan, reason: b[l.GWaitReason], seq: b[l.GTrackingSeq]}
	if m.status == goruntime.GSyscall {
		m.sp, m.pc = le.Uint64(b[l.GSyscallSP:]), le.Uint64(b[l.GSyscallPC:])
	} else {
		m.sp, m.pc = le.Uint64(b[l.GSchedSP:]), le.Uint64(b[l.GSchedPC:])
	}
	return m
}

// headOf reads that of a runtime.g. It is empty if it cannot be read.
func (p *Process) headOf(g uint64) (h head) {
	if b, err := p.bytes(g, uint64(headSize(p.program.layout))); err == nil {
		h = parse(b, p.program.layout)
	}
	return h
}

// running reports whether the stack is in use by a thread, so that it cannot be read.
func (h *head) running() bool {
	return h.status == goruntime.GRunning || h.status == goruntime.GCopying
}

// onSystemStack reports whether a goroutine uses the CPU on the system stack, as in a GC assist,
// although its status is waiting: the wait reason shows that.
func (h *head) onSystemStack(l *goruntime.Layout) bool {
	return h.status == goruntime.GWaiting && l.System>>(h.reason&63)&1 != 0
}

// refresh reads the runtime's list of goroutines, and reports whether it has grown. The list and
// its length are two words, and the runtime may replace both meanwhile: so the length is read
// before and after the list.
func (p *Process) refresh() (grown bool, err error) {
	for range 100 {
		b, err := p.bytes(p.program.allgs, 24)
		if err != nil {
			return false, err
		}
		array, n, c := le.Uint64(b), le.Uint64(b[8:]), le.Uint64(b[16:])
		switch known := uint64(len(p.gs)); {
		case n == known:
			return false, nil
		case n < known: // the list never gets shorter: it is that of another program
			return false, unix.EFAULT
		case n > c, n > 1<<24:
			continue
		}
		list := make([]byte, n*8)
		if err := p.read(array, list); err != nil {
			continue
		}
		again, err := p.bytes(p.program.allgs, 24)
		if err != nil || le.Uint64(again) != array || le.Uint64(again[8:]) < n {
			continue
		}
		gs := make([]uint64, n)
		_, _ = binary.Decode(list, le, gs)
		slices.Sort(gs)
		if gs[0] < 4096 || gs[n-1]>>56 != 0 {
			continue // the runtime has not written an entry yet, or it is nonsense
		}
		p.gs = gs
		return true, nil
	}
	return false, nil
}

// heads reads the heads of goroutines, given by indices of gs, ascending. It calls each for each of
// them.
func (p *Process) heads(indices []int, each func(i int, b []byte)) error {
	size := headSize(p.program.layout)
	return p.gather(indices, func(i int) { p.ask(p.gs[i], size) }, func(i int) { each(i, p.next(size)) })
}

// A walk is a goroutine whose stack is to be read.
type walk struct {
	index int // in gs
	head  head
	want  uint64   // bytes of its stack that are read at most
	ok    bool     // head and calls are those of one instant
	pcs   []uint64 // its calls; nil: it runs

	objects []uint64 // addresses of what it waits for

	poll        uint64      // address of its pollDesc if it is in [IO wait]; 0: not known
	asked, file *descriptor // what was found of it; the latter counts
}

// mostCalls bounds the calls of all goroutines together: many of them may have the same memory as
// stack. A label counts as several.
const mostCalls, callsOfLabel = 1 << 25, 64

var errCalls = errors.New("its goroutines have more calls than can be kept")

const (
	firstRead = 1024    // how much of a stack is read at first. Most stacks that wait are shorter.
	mostStack = 1 << 24 // how much is read then
	fewTries  = 4       // to read a goroutine that moves, in a tick
	manyTries = 80      // where there is only one reading
)

// walks reads goroutines again that are not ok yet, each with its stack between two readings of its
// head. If these are the same, and the stack is where the head says, that is what the goroutine did
// at that instant; if not, the goroutine is tried again, at most so many times. If its calls are
// known, it was in a system call that has ended meanwhile.
func (p *Process) walks(list []walk, most int) error {
	var left []int
	for i := range list {
		if list[i].want = firstRead; !list[i].ok {
			left = append(left, i)
		}
	}
	for calls := 0; len(left) > 0 && most > 0; most-- {
		var more []int
		err := p.together(list, left, func(i int) (uint64, int) { return list[i].stack() }, func(i int, h head, stack []byte) {
			w := &list[i]
			before, pcs, end := w.head, []uint64(nil), broken
			if w.head = h; calls > cmp.Or(p.most, mostCalls) {
				return
			}
			if len(stack) > 0 && before.sp == h.sp && before.lo == h.lo && before.hi == h.hi && !h.running() && (!h.held || p.threads != nil) {
				pcs, end = p.program.funcs.unwind(make([]uint64, 0, 16), &h, stack)
			}
			switch {
			case w.pcs != nil && before.status == goruntime.GSyscall && h.motion != before.motion:
				w.head, w.ok = before, true
			case h.id != before.id, !goruntime.Alive(h.status):
			case end == whole:
				w.pcs, w.ok = pcs, true
				if p.ends != nil && p.state(&h) == goruntime.IOWait {
					w.poll = p.pollDesc(p.gs[w.index], stack)
				}
			case h.running():
				if w.ok = true; p.threads != nil || p.Pauses {
					w.pcs = p.stopped(p.gs[w.index], h)
				}
			default:
				if end == short {
					w.want = mostStack
				}
				more = append(more, i)
			}
			calls += len(w.pcs)
		})
		if err == nil && calls > cmp.Or(p.most, mostCalls) {
			err = errCalls
		}
		if err != nil {
			return err
		}
		left = more
	}
	return nil
}

// stack returns which part of its stack is read, none of a goroutine that runs.
func (w *walk) stack() (addr uint64, size int) {
	if h := &w.head; !h.running() && h.has(h.sp) {
		addr, size = h.sp, int(min(w.want, h.hi-h.sp))
	}
	return addr, size
}

// together reads pieces of memory that goroutines, given by their places in the list, have
// addresses of, each between two readings of the head of its goroutine. It calls each with the head
// and the piece, which is nil if the goroutine has moved meanwhile.
func (p *Process) together(list []walk, left []int, at func(i int) (addr uint64, size int), each func(i int, h head, piece []byte)) error {
	l := p.program.layout
	ofHead := headSize(l)
	return p.gather(left, func(i int) {
		g := p.gs[list[i].index]
		p.ask(g, ofHead)
		p.ask(at(i))
		p.ask(g, ofHead)
	}, func(i int) {
		_, size := at(i)
		before, piece, h := parse(p.next(ofHead), l), p.next(size), parse(p.next(ofHead), l)
		if before.held = h.held; before != h {
			piece = nil
		}
		each(i, h, piece)
	})
}

// Goroutines returns what all goroutines do now, without those of the runtime, ascending by id. It
// also returns the number of those that moved each time that they were read.
func (p *Process) Goroutines() (out []instant.Goroutine, moved int, err error) {
	defer p.traces()()
	if _, err := p.refresh(); err != nil {
		return nil, 0, err
	}
	all := make([]int, len(p.gs))
	for i := range all {
		all[i] = i
	}
	var list []walk
	err = p.heads(all, func(i int, b []byte) {
		if h := parse(b, p.program.layout); goruntime.Alive(h.status) && !p.system(&h) {
			list = append(list, walk{index: i, head: h})
		}
	})
	if err == nil {
		err = p.walks(list, manyTries)
	}
	if err != nil {
		return nil, 0, err
	}
	now := monotonic()
	if p.threads != nil { // the time of a core is not in it, and is not before the latest time that is
		now = 0
		for i := range list {
			now = max(now, time.Duration(list[i].head.since))
		}
	}
	calls := 0
	for i := range list {
		if w := &list[i]; w.ok {
			h := &w.head
			g := instant.Goroutine{ID: h.id, Parent: h.parent, State: p.state(h), Frames: p.program.funcs.frames(w.pcs), Labels: p.labels(p.gs[w.index], h.labels)}
			if h.since != 0 && h.status == goruntime.GWaiting {
				g.Waited = max(0, now-time.Duration(h.since))
			}
			if by := p.creator(h.gopc); h.id != 1 && by.Func != "" {
				g.CreatedBy, g.CreatedAt = by.Func, placeOf(by)
			}
			if calls += len(g.Frames) + len(g.Labels)*callsOfLabel; calls > cmp.Or(p.most, mostCalls) {
				return nil, 0, errCalls
			}
			out = append(out, g)
		} else if goruntime.Alive(w.head.status) {
			moved++
		}
	}
	slices.SortFunc(out, func(a, b instant.Goroutine) int { return cmp.Compare(a.ID, b.ID) })
	return out, moved, nil
}

// creator returns a go statement, given the address after it: the function that has the code, and
// the line of the innermost inlined call there.
func (p *Process) creator(pc uint64) Frame {
	at := p.program.funcs.at(pc)
	if !at.ok || len(at.frames) == 0 {
		return Frame{}
	}
	return Frame{Func: at.name, File: at.frames[0].File, Line: at.frames[0].Line}
}

// system reports whether a goroutine is one of the runtime's, which runtime.Stack leaves out.
func (p *Process) system(h *head) bool {
	name := p.program.funcs.at(h.start).name
	return strings.HasPrefix(name, "runtime.") && name != "runtime.main" && name != "runtime.handleAsyncEvent"
}

// state returns a goroutine's state as the runtime prints it.
func (p *Process) state(h *head) string {
	switch h.status {
	case goruntime.GRunning, goruntime.GCopying:
		return "running"
	case goruntime.GSyscall:
		return "syscall"
	case goruntime.GRunnable, goruntime.GPreempted:
		return "runnable"
	}
	return p.program.layout.WaitText(int(h.reason), h.bubble)
}

// Bounds of what is read as labels: the pointer may lead anywhere by the time that it is followed.
const (
	maxLabels     = 64
	maxLabelBytes = 4096
)

// labels reads the labels of the goroutine at g, whose g.labels was ptr. It returns nil if the
// goroutine has others by then, or if they cannot be read: before Go 1.24 they are a map of the
// runtime.
func (p *Process) labels(g, ptr uint64) map[string]string {
	if ptr == 0 || p.program.minor < 24 {
		return nil
	}
	b, err := p.bytes(ptr, 16)
	if err == nil {
		b, err = p.slice(b, 32, maxLabels) // of pairs of strings
	}
	out := map[string]string{}
	for ; err == nil && len(b) > 0; b = b[32:] {
		var key, value []byte
		if key, err = p.slice(b, 1, maxLabelBytes); err == nil {
			value, err = p.slice(b[16:], 1, maxLabelBytes)
		}
		out[string(key)] = string(value)
	}
	if now, again := p.word(g + uint64(p.program.layout.GLabels)); err != nil || again != nil || now != ptr {
		return nil
	}
	return out
}
