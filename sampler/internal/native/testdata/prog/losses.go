package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
)

// Modes in which a session loses a system call or its signal.
func init() {
	modes["late seccomp rt_tgsigqueueinfo"] = func() { ends("rt_tgsigqueueinfo", func() { forbid(unix.SYS_RT_TGSIGQUEUEINFO) }) }
	modes["late seccomp process_vm_readv"] = func() { ends("process_vm_readv", func() { forbid(unix.SYS_PROCESS_VM_READV) }) }
	modes["late handler"] = func() { ends("another handler", func() { setSignal(returns()) }) }
	modes["late default"] = func() { takenBack(0) }
	modes["late ignore"] = func() { takenBack(1) }
}

// forbid makes the kernel refuse a system call from now on.
func forbid(call int) {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // seccomp_data.nr
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(call), Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		fail("prctl: %v", err)
	}
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog))); e != 0 {
		fail("seccomp: %v", e)
	}
}

// action is the kernel's struct sigaction.
type action struct{ handler, flags, restorer, mask uint64 }

func getSignal() (a action) {
	unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGURG), 0, uintptr(unsafe.Pointer(&a)), 8, 0, 0)
	return a
}

// setSignal sets the handler of SIGURG as C does, so that Go does not know of it.
func setSignal(handler uint64) {
	a := getSignal()
	a.handler = handler
	if _, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGURG), uintptr(unsafe.Pointer(&a)), 0, 8, 0, 0); e != 0 {
		fail("rt_sigaction: %v", e)
	}
}

// returns returns the address of code that returns at once, for use as a handler that is not Go's.
func returns() uint64 {
	code := "\xc3"
	if runtime.GOARCH == "arm64" {
		code = "\xc0\x03\x5f\xd6"
	}
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		fail("mmap: %v", err)
	}
	copy(page, code)
	if err := unix.Mprotect(page, unix.PROT_READ|unix.PROT_EXEC); err != nil {
		fail("mprotect: %v", err)
	}
	return uint64(uintptr(unsafe.Pointer(&page[0])))
}

// spinSink counts the samples in which spin runs.
type spinSink struct {
	sampler.OnePart
	spin uint32
	seen atomic.Int64
}

func (k *spinSink) Intern(f tachyon.Frame) uint32 {
	if f.Func == "main.spin" {
		k.spin++
		return k.spin
	}
	return 1 << 20
}

func (k *spinSink) WriteBatch(list []tachyon.Sample) (int, error) {
	for _, s := range list {
		if s.Status&tachyon.OnCPU != 0 && len(s.Stack) > 0 && s.Stack[0] != 1<<20 {
			k.seen.Add(1)
		}
	}
	return len(list), nil
}

func (*spinSink) Forget(uint64, uint32) error { return nil }

func (*spinSink) WriteRecords(*tachyon.Records) error { return nil }

// during runs f while a session samples a goroutine that spins.
func during(onError func(error), f func(*sampler.Sampler, *spinSink)) error {
	// Without SIGURG the runtime cannot preempt the spinner. With one P nothing else would run again, and a collection would
	// wait for it for ever.
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var stop atomic.Bool
	done := make(chan bool)
	go func() { spinner(&stop); close(done) }()
	k := &spinSink{}
	s, err := sampler.Start(sampler.Config{Source: sampler.Native, Budget: 50, OnError: onError}, k)
	if err != nil {
		fail("Start: %v", err)
	}
	await("samples", func() bool { return k.seen.Load() >= 10 })
	f(s, k)
	err = s.Stop()
	stop.Store(true)
	<-done
	return err
}

// ends calls happens during a session, after which the session cannot go on. The session must end with an error
// that has why in it.
func ends(why string, happens func()) {
	told := make(chan error, 1)
	err := during(func(err error) { told <- err }, func(*sampler.Sampler, *spinSink) {
		happens()
		for range 200 { // more than have ended before
			go func() { time.Sleep(time.Second) }() // so the source must read their list
		}
		select {
		case <-told:
		case <-time.After(time.Minute):
			fail("the session does not notice")
		}
	})
	if err == nil || !strings.Contains(err.Error(), why) {
		fail("Stop: %v", err)
	}
	fmt.Println(err)
}

// takenBack sets the signal's action as C does. The session must set its handler again and count that.
func takenBack(handler uint64) {
	const times = 2
	err := during(func(err error) { fail("%v", err) }, func(s *sampler.Sampler, k *spinSink) {
		for range times {
			setSignal(handler)
			await("the session takes the signal back", func() bool { return getSignal().handler != handler })
			seen := k.seen.Load() + 10
			await("samples", func() bool { return k.seen.Load() >= seen })
		}
		if n := s.Stats().SignalTaken; n != times {
			fail("taken %d times of %d", n, times)
		}
	})
	if err != nil || getSignal().handler != handler {
		fail("Stop: %v, and the handler is %#x", err, getSignal().handler)
	}
}
