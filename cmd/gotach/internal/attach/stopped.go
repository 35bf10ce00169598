//go:build linux && (amd64 || arm64)

package attach

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// regs are registers of a thread that has stopped.
type regs struct{ sp, pc, lr uint64 }

// paused stops a thread, calls f with its registers, and lets it go on (ptrace(2)). It does not
// call f if the thread has ended, or if another program traces it. A thread that waits for a disk
// stops when it has what it needs; paused waits for that. If gotach ends meanwhile, the kernel lets
// the thread go on.
func paused(tid int, f func(regs)) {
	runtime.LockOSThread() // the kernel takes all calls from one thread only
	defer runtime.UnlockOSThread()
	var status unix.WaitStatus
	if unix.PtraceSeize(tid) != nil || unix.PtraceInterrupt(tid) != nil {
		return
	}
	if _, err := unix.Wait4(tid, &status, unix.WALL, nil); err != nil || !status.Stopped() {
		return
	}
	signal := 0 // that the thread was about to get
	if status>>16 == 0 {
		signal = int(status.StopSignal())
	}
	const general = 1 // NT_PRSTATUS, as in a core
	var values [coreSize]uint64
	to := unix.Iovec{Base: (*byte)(unsafe.Pointer(&values[0])), Len: uint64(unsafe.Sizeof(values))}
	if _, _, e := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GETREGSET, uintptr(tid), general, uintptr(unsafe.Pointer(&to)), 0, 0); e == 0 {
		f(regs{sp: values[coreSP], pc: values[corePC], lr: values[coreLR]})
	}
	_, _, _ = unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(tid), 0, uintptr(signal), 0, 0) // it may have been killed
}

// thread returns the id of a thread that its runtime knows by an id. The latter is that of the
// namespace of the process.
func (p *Process) thread(id uint64) int {
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", p.PID, p.tids[id])); err != nil { // it is new, or has ended
		p.tids = map[uint64]int{}
		ids, _ := tasks(p.PID) // none after its end
		for _, tid := range ids {
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/status", p.PID, tid))
			_, line, _ := strings.Cut(string(status), "\nNSpid:")
			line, _, _ = strings.Cut(line, "\n")
			var inner uint64
			_, _ = fmt.Sscan(line[strings.LastIndexByte(line, '\t')+1:], &inner)
			p.tids[inner] = tid
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
		if r.sp < h.lo || r.sp >= h.hi {
			r = p.signalled(r.sp, &h)
		}
		b = p.stackFrom(&h, r)
	} else if tid := p.thread(tid); tid != 0 {
		paused(tid, func(r regs) {
			now, _ := p.word(m + uint64(p.program.layout.MCurG))
			if h = p.headOf(g); now == g && h.running() && p.atHome(m, r, &h) {
				b = p.stackFrom(&h, r)
			}
		})
	}
	if pcs, end := p.program.funcs.unwind(nil, &h, b); b != nil && end == whole {
		return pcs
	}
	return nil
}

// atHome reports whether a thread is in a goroutine's code, or on its system stack, for which the
// runtime has saved where it left the goroutine's. It is not in the handler of a signal then.
func (p *Process) atHome(m uint64, r regs, h *head) bool {
	g0, _ := p.word(m + uint64(p.program.layout.MG0))
	system := p.headOf(g0)
	return r.sp >= h.lo && r.sp < h.hi || r.sp >= system.lo && r.sp < system.hi
}

// stackFrom returns the stack of a goroutine from where its thread is on it, and sets h to that
// place. If the thread is elsewhere, that is where it has left the goroutine's stack.
func (p *Process) stackFrom(h *head, r regs) []byte {
	if r.sp >= h.lo && r.sp < h.hi {
		h.sp, h.pc, h.lr = r.sp, r.pc+1, r.lr // as if it were a return address
	}
	if h.sp < h.lo || h.sp >= h.hi || h.hi-h.sp > 1<<24 {
		return nil
	}
	b := make([]byte, h.hi-h.sp)
	if p.read(h.sp, b) != nil {
		return nil
	}
	return b
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
		if r.sp >= h.lo && r.sp < h.hi && p.program.funcs.at(r.pc+1).ok {
			return r
		}
	}
	return regs{}
}
