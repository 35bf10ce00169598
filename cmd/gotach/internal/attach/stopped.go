//go:build linux && (amd64 || arm64)

package attach

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// regs are registers of a thread that has stopped.
type regs struct{ sp, pc, lr uint64 }

// traces prepares this thread to stop those of the process, until end is called: the kernel takes
// all calls about one of them from one thread only. A thread of the process stands still while this
// one waits for a core. So this one asks for the shortest time slice, which needs no privilege: it
// gets a core sooner then. Kernels before 6.12 ignore that. It keeps the slice, which harms nobody.
func (p *Process) traces() (end func()) {
	if !p.Pauses {
		return func() {}
	}
	runtime.LockOSThread()
	if attr, err := unix.SchedGetAttr(0, 0); err == nil && attr.Policy == unix.SCHED_NORMAL {
		attr.Runtime = 100_000 // ns
		_ = unix.SchedSetAttr(0, attr, 0)
	}
	return runtime.UnlockOSThread
}

// paused stops a thread, calls f with its registers, and lets it go on (ptrace(2)). It does not
// call f if the thread has ended, or if another program traces it. A thread that waits for a disk
// stops when it has what it needs; paused waits for that. It is called after traces. If gotach ends
// meanwhile, the kernel lets the thread go on.
//
// The calls are raw: otherwise gotach's runtime may use the time to run something else, on a thread
// that loses its core, while the thread that has stopped stands still.
func paused(tid int, f func(regs)) {
	ptrace := func(request, addr, data uintptr) bool {
		_, _, e := unix.RawSyscall6(unix.SYS_PTRACE, request, uintptr(tid), addr, data, 0, 0)
		return e == 0
	}
	var values [coreSize]uint64
	to := unix.Iovec{Base: (*byte)(unsafe.Pointer(&values[0])), Len: uint64(unsafe.Sizeof(values))}
	if !ptrace(unix.PTRACE_SEIZE, 0, 0) || !ptrace(unix.PTRACE_INTERRUPT, 0, 0) {
		return
	}
	status, ok := stops(tid)
	if !ok {
		return
	}
	signal := 0 // that the thread was about to get
	if status>>16 == 0 {
		signal = int(status.StopSignal())
	}
	if _, _, e := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_GETREGSET, uintptr(tid), 1, uintptr(unsafe.Pointer(&to)), 0, 0); e == 0 { // NT_PRSTATUS, as in a core
		f(regs{sp: values[coreSP], pc: values[corePC], lr: values[coreLR]})
	}
	ptrace(unix.PTRACE_DETACH, 0, uintptr(signal)) // it may have been killed
}

// stops waits until a thread has stopped. At first it keeps its core: mostly the thread has one too,
// and stops in some µs. Otherwise the thread may need this one.
func stops(tid int) (status unix.WaitStatus, ok bool) {
	for options := uintptr(unix.WALL | unix.WNOHANG); ; {
		for range 20 {
			got, _, e := unix.RawSyscall6(unix.SYS_WAIT4, uintptr(tid), uintptr(unsafe.Pointer(&status)), options, 0, 0, 0)
			if got != 0 || e != 0 && e != unix.EINTR {
				return status, e == 0 && status.Stopped()
			}
		}
		options = unix.WALL
	}
}

// thread returns the id of a thread that its runtime knows by an id. The latter is that of the
// namespace of the process.
func (p *Process) thread(id uint64) int {
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", p.PID, p.tids[id])); err != nil { // it is new, or has ended
		p.tids = map[uint64]int{}
		ids, _ := tasks(p.PID) // none after its end
		for _, tid := range ids {
			if inner, err := strconv.ParseUint(statusField(fmt.Sprintf("%d/task/%d", p.PID, tid), "NSpid"), 10, 64); err == nil {
				p.tids[inner] = tid
			}
		}
	}
	return p.tids[id]
}

// stopped returns the calls of a goroutine that runs, nil if they are not known. In a core its
// thread has stopped; a process's thread is stopped meanwhile.
func (p *Process) stopped(g uint64, h head) []uint64 {
	m, _ := p.word(g + uint64(p.program.layout.GM)) // what cannot be read is no thread's
	tid, _ := p.word(m + uint64(p.program.layout.MProcID))
	var b []byte
	if p.threads != nil {
		r := p.threads[tid]
		if !h.has(r.sp) {
			r = p.signalled(r.sp, &h)
		}
		b = p.stackFrom(&h, r)
	} else if tid := p.thread(tid); tid != 0 {
		g0, _ := p.word(m + uint64(p.program.layout.MG0))
		system := p.headOf(g0)
		curg := unix.RemoteIovec{Base: uintptr(m) + p.program.layout.MCurG, Len: 8}
		again := unix.RemoteIovec{Base: uintptr(g), Len: headSize(p.program.layout)}
		paused(tid, func(r regs) {
			for range 2 { // the stack may be elsewhere by now
				read := p.stackFrom(&h, r, curg, again)
				if read == nil || le.Uint64(read) != g {
					return
				}
				was := h
				h = parse(read[8:], p.program.layout)
				on := h.has(r.sp)
				if !h.running() || !on && !system.has(r.sp) { // it is in the handler of a signal
					return
				}
				if h.lo == was.lo && h.hi == was.hi && (on || h.sp == was.sp) {
					h, b = was, read[8+again.Len:]
					return
				}
			}
		})
	}
	if pcs, end := p.program.funcs.unwind(nil, &h, b); len(b) > 0 && end == whole {
		return pcs
	}
	return nil
}

// has reports whether an address is on the stack.
func (h *head) has(sp uint64) bool { return sp >= h.lo && sp < h.hi }

// stackFrom returns the stack of a goroutine from where its thread is on it, and sets h to that
// place. If the thread is elsewhere, for which the runtime saves where it left the stack, that is
// the place. Other memory that is asked for comes before the stack. Nothing is made anew: the
// thread may stand still meanwhile.
func (p *Process) stackFrom(h *head, r regs, pieces ...unix.RemoteIovec) []byte {
	if h.has(r.sp) {
		h.sp, h.pc, h.lr = r.sp, r.pc+1, r.lr // as if it were a return address
	}
	if h.has(h.sp) && h.hi-h.sp <= 1<<24 {
		pieces = append(pieces, unix.RemoteIovec{Base: uintptr(h.sp), Len: int(h.hi - h.sp)})
	}
	size := 0
	for _, v := range pieces {
		size += v.Len
	}
	p.room = slices.Grow(p.room[:0], size)[:size]
	if size == 0 || p.pieces(p.room, pieces) != nil {
		return nil
	}
	return p.room
}

// signalled returns the registers that a thread had when a signal interrupted it on a goroutine's
// stack, given where it is on the signal's stack. The kernel has put them there, after place and
// size of the signal's stack (sigaltstack(2)). Another signal may have interrupted the handler.
func (p *Process) signalled(sp uint64, h *head) (r regs) {
	const most = 1 << 20 // bytes of such a stack; Go has 32 KB
	for at := sp &^ 7; at < sp+most; at += 8 {
		b, err := p.bytes(at, max(signalSP, signalPC, signalLR)+8)
		if err != nil {
			break
		}
		word := func(off int) uint64 { return le.Uint64(b[off:]) }
		if stack, size := word(0), word(16); stack > at || at-stack >= size || size > most {
			continue
		}
		r = regs{sp: word(signalSP), pc: word(signalPC), lr: word(signalLR)}
		if h.has(r.sp) && p.program.funcs.at(r.pc+1).ok {
			return r
		}
	}
	return regs{}
}
