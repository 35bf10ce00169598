package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// interruptible are system calls that a signal can end. Each function returns whether one did. "raw" ones do not tell the
// scheduler, so to the runtime and to a session the thread runs Go code.
var interruptible = map[string]func() func() bool{
	"bpf":      func() func() bool { return verifies(1_000) },
	"long bpf": func() func() bool { return verifies(20_000) },
	"bpf, five attempts": func() func() bool {
		load := verifies(20_000)
		return func() bool { return load() && load() && load() && load() && load() } // as libraries do
	},
	"io_uring":      func() func() bool { return ring(unix.Syscall6) },
	"raw io_uring":  func() func() bool { return ring(unix.RawSyscall6) },
	"raw nanosleep": func() func() bool { return rawSleep },
	"FUSE open":     opens,
	"FUSE os.Open": func() func() bool {
		opens()
		return func() bool {
			f, err := os.Open(mounted + "/file")
			if errors.Is(err, unix.EINTR) {
				return true
			}
			check(err)
			check(f.Close())
			return false
		}
	},
}

// countInterrupted makes n calls with 100 µs of Go code before each, and prints how many were interrupted.
func countInterrupted(name string, n int) {
	call, interrupted := interruptible[name](), 0
	for range n {
		for begin := time.Now(); time.Since(begin) < 100*time.Microsecond; {
		}
		if call() {
			interrupted++
		}
	}
	fmt.Println(interrupted)
}

func rawSleep() bool {
	d := unix.Timespec{Nsec: 1e6}
	_, _, e := unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&d)), 0, 0)
	return e == unix.EINTR
}

// verifies returns a call that loads a BPF program with a loop. The verifier goes around the loop n times. It ends with
// EAGAIN if a signal is pending.
func verifies(n int32) func() bool {
	insn := func(op, regs byte, off int16, imm int32) (b []byte) {
		b = append(b, op, regs)
		b = binary.NativeEndian.AppendUint16(b, uint16(off))
		return binary.NativeEndian.AppendUint32(b, uint32(imm))
	}
	var code []byte
	code = append(code, insn(0xb7, 0, 0, 0)...)  // r0 = 0
	code = append(code, insn(0x07, 0, 0, 1)...)  // r0 += 1
	code = append(code, insn(0xa5, 0, -2, n)...) // if r0 < n goto the line before
	code = append(code, insn(0x95, 0, 0, 0)...)  // exit
	license := []byte("GPL\x00")
	return func() bool {
		attr := struct {
			kind, count    uint32
			insns, license unsafe.Pointer
			rest           [96]byte
		}{1, uint32(len(code) / 8), unsafe.Pointer(&code[0]), unsafe.Pointer(&license[0]), [96]byte{}}
		const load = 5
		fd, _, e := unix.Syscall(unix.SYS_BPF, load, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
		if e == unix.EAGAIN {
			return true
		}
		if e != 0 {
			check(e)
		}
		check(unix.Close(int(fd)))
		return false
	}
}

// ring returns a call that waits for 1 ms with io_uring_enter.
func ring(enter func(n, a, b, c, d, e, f uintptr) (uintptr, uintptr, syscall.Errno)) func() bool {
	var p struct {
		sqEntries, cqEntries, flags, sqCPU, sqIdle, features, wq      uint32
		_                                                             [3]uint32
		sqHead, sqTail, sqMask, sqCount, sqFlags, sqDrops, sqArray, _ uint32
		_                                                             uint64
		cqHead, cqTail, cqMask, cqCount, cqOver, cqes, cqFlags, _     uint32
		_                                                             uint64
	}
	fd, _, e := unix.Syscall(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&p)), 0)
	if e != 0 {
		check(e)
	}
	area := func(offset int64, size int) []byte {
		b, err := unix.Mmap(int(fd), offset, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
		check(err)
		return b
	}
	sq, sqes, cq := area(0, 4096), area(0x10000000, 4096), area(0x8000000, 4096)
	word := func(b []byte, at uint32) *uint32 { return (*uint32)(unsafe.Pointer(&b[at])) }
	const timeout, waitForOne = 11, 1
	after := &unix.Timespec{Nsec: 1e6}
	return func() (interrupted bool) {
		clear(sqes[:64])
		sqes[0] = timeout
		binary.NativeEndian.PutUint64(sqes[16:], uint64(uintptr(unsafe.Pointer(after))))
		sqes[24] = 1 // one timespec
		tail := word(sq, p.sqTail)
		*word(sq, p.sqArray+4*(*tail&*word(sq, p.sqMask))) = 0
		*tail++
		if n, _, e := unix.Syscall6(unix.SYS_IO_URING_ENTER, fd, 1, 0, 0, 0, 0); n != 1 || e != 0 {
			check(e)
		}
		for *word(cq, p.cqHead) == *word(cq, p.cqTail) {
			if _, _, e := enter(unix.SYS_IO_URING_ENTER, fd, 0, 1, waitForOne, 0, 0); e == unix.EINTR {
				interrupted = true
			} else if e != 0 {
				check(e)
			}
		}
		*word(cq, p.cqHead)++
		runtime.KeepAlive(after)
		return interrupted
	}
}

// mounted is where opens has mounted a file system. untilExit keeps the pipe to its server open.
var (
	mounted   string
	untilExit io.Closer
)

// opens mounts a FUSE file system, whose server is another process, and returns a call that opens a file of it. That takes
// 1 ms. The server ends an operation with EINTR if the kernel says that it was interrupted, as servers in Go do whose
// operations have a context.
func opens() func() bool {
	var err error
	mounted, err = os.MkdirTemp("", "gotach-fuse")
	check(err)
	server := exec.Command("/proc/self/exe", "own serves", mounted)
	server.Env = append(os.Environ(), "PROFILE_OUT=")
	server.Stderr = os.Stderr
	untilExit, err = server.StdinPipe() // the server ends with this process
	check(err)
	out, err := server.StdoutPipe()
	check(err)
	check(server.Start())
	if n, err := out.Read(make([]byte, 1)); n != 1 {
		check(err)
	}
	return func() bool {
		fd, err := syscall.Open(mounted+"/file", syscall.O_RDONLY, 0)
		if err == syscall.EINTR {
			return true
		}
		check(err)
		check(syscall.Close(fd))
		return false
	}
}

// serves is the server.
func serves(dir string) {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	check(err)
	check(unix.Mount("gotach", dir, "fuse", 0, "rootmode=40000,user_id=0,group_id=0,fd="+strconv.Itoa(fd)))
	end := func() {
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		_ = os.Remove(dir)
		os.Exit(0)
	}
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		end()
	}()
	const lookup, getattr, open, release, initialize, interrupt = 1, 3, 14, 18, 26, 36
	order := binary.NativeEndian
	reply := func(unique uint64, errno syscall.Errno, body []byte) {
		b := order.AppendUint32(nil, uint32(16+len(body)))
		b = order.AppendUint32(b, uint32(-int32(errno)))
		_, _ = unix.Write(fd, append(order.AppendUint64(b, unique), body...))
	}
	attr := func(before int, node uint64) []byte {
		b := make([]byte, before+88)
		mode := uint32(unix.S_IFREG | 0o644)
		if node == 1 {
			mode = unix.S_IFDIR | 0o755
		}
		order.PutUint64(b[before:], node)
		order.PutUint32(b[before+60:], mode)
		order.PutUint32(b[before+64:], 1)
		return b
	}
	waits := map[uint64]*time.Timer{}
	b := make([]byte, 1<<17)
	fmt.Print(".")
	for {
		n, err := unix.Read(fd, b)
		if err == unix.EINTR || err == unix.EAGAIN || err == unix.ENOENT {
			continue
		}
		if err != nil {
			end()
		}
		in := b[:n]
		unique, node := order.Uint64(in[8:]), order.Uint64(in[16:])
		switch order.Uint32(in[4:]) {
		case initialize:
			out := make([]byte, 64)
			order.PutUint32(out, 7)
			order.PutUint32(out[4:], 31)
			order.PutUint32(out[20:], 4096) // max_write
			reply(unique, 0, out)
		case lookup:
			out := attr(40, 2)
			order.PutUint64(out, 2)
			reply(unique, 0, out)
		case getattr:
			reply(unique, 0, attr(16, node))
		case open:
			waits[unique] = time.AfterFunc(time.Millisecond, func() { reply(unique, 0, make([]byte, 16)) })
		case interrupt:
			if which := order.Uint64(in[40:]); waits[which] != nil && waits[which].Stop() {
				reply(which, unix.EINTR, nil)
			}
		case release, 25:
			reply(unique, 0, nil)
		case 2, 42: // forget has no answer
		default:
			reply(unique, unix.ENOSYS, nil)
		}
	}
}
