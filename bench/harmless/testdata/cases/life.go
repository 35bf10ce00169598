package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Activities of running programs.
var _ = add(map[string]func(){
	"ends at SIGTERM": func() {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		check(syscall.Kill(os.Getpid(), syscall.SIGTERM))
		<-ctx.Done()
		os.Exit(7)
	},
	"ignores signals": func() {
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		for range 1000 {
			check(syscall.Kill(os.Getpid(), syscall.SIGTERM))
			check(syscall.Kill(os.Getpid(), syscall.SIGHUP))
		}
		fmt.Println("done")
	},
	"storm": storm,
	"children": func() {
		n := 0
		for range 100 {
			if out, err := exec.Command("/bin/sh", "-c", "echo $((1+1)); exit 5").Output(); string(out) == "2\n" && err != nil && err.Error() == "exit status 5" {
				n++
			}
		}
		fmt.Println(n, "of 100 children")
	},
	"killed children": func() {
		n := 0
		for range 30 {
			cmd := exec.Command("/bin/sleep", "100")
			check(cmd.Start())
			check(cmd.Process.Signal(syscall.SIGTERM))
			if err := cmd.Wait(); err != nil && err.Error() == "signal: terminated" {
				n++
			}
		}
		fmt.Println(n, "of 30 children")
	},
	"execs": func() {
		n, _ := strconv.Atoi(os.Getenv("GENERATION"))
		if n == 10 {
			fmt.Println("generation", n)
			return
		}
		check(os.Setenv("GENERATION", strconv.Itoa(n+1)))
		if out := os.Getenv("PROFILE_OUT"); out != "" {
			check(os.Setenv("PROFILE_OUT", fmt.Sprint(out, ".", n, ".tach"))) // the process id stays the same
		}
		check(syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
	},
	"setuid": func() {
		for range 100 {
			check(syscall.Setuid(os.Getuid()))
			check(syscall.Setgid(os.Getgid()))
		}
		fmt.Println("done")
	},
	"all threads": func() {
		for range 100 {
			if _, _, e := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 0, 0); e != 0 {
				check(e)
			}
		}
		fmt.Println("done")
	},
	"locked threads": func() {
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				runtime.LockOSThread() // the thread ends with the goroutine
				time.Sleep(time.Millisecond)
			})
		}
		all.Wait()
		fmt.Println("done")
	},
	"GOMAXPROCS": func() {
		for i := range 100 {
			runtime.GOMAXPROCS(1 + i%8)
			time.Sleep(100 * time.Microsecond)
		}
		fmt.Println("done")
	},
	"collections": func() {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for i := range 100 {
					deep(i)
				}
			})
		}
		for range 50 {
			runtime.GC()
		}
		all.Wait()
		fmt.Println("done")
	},
	"other profilers": func() {
		var cpu, tr bytes.Buffer
		check(pprof.StartCPUProfile(&cpu))
		check(trace.Start(&tr))
		for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); {
			deep(10)
		}
		trace.Stop()
		pprof.StopCPUProfile()
		fmt.Println("a CPU profile:", cpu.Len() > 300, "a trace:", tr.Len() > 1000)
	},
	"network": func() {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		check(err)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					b := make([]byte, 100)
					n, _ := c.Read(b)
					_, _ = c.Write(b[:n])
				}()
			}
		}()
		n := 0
		for range 300 {
			c, err := net.Dial("tcp", l.Addr().String())
			check(err)
			check(c.SetDeadline(time.Now().Add(20 * time.Second)))
			_, err = c.Write([]byte("hello"))
			check(err)
			b := make([]byte, 5)
			if k, _ := c.Read(b); string(b[:k]) == "hello" {
				n++
			}
			c.Close()
		}
		l.Close()
		fmt.Println(n, "of 300 answers")
	},
	"raw reads": func() {
		for range 5 {
			r, w, err := os.Pipe()
			check(err)
			cmd := exec.Command("/bin/sh", "-c", "sleep 0.1; echo")
			cmd.Stdout = w
			check(cmd.Start())
			check(w.Close())
			check1(r.SyscallConn()).Control(func(fd uintptr) {
				check(unix.SetNonblock(int(fd), false))
				b := make([]byte, 1)
				if n, _, e := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&b[0])), 1); n != 1 {
					check(e)
				}
			})
			check(r.Close())
			check(cmd.Wait())
		}
		fmt.Println("done")
	},
	"time": func() {
		begin := time.Now()
		time.Sleep(50 * time.Millisecond)
		early := time.Since(begin) < 50*time.Millisecond
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer stop()
		<-ctx.Done()
		fmt.Println("woken early:", early, ctx.Err())
	},
	"bubble": func() {
		inBubble(func() {
			begin := time.Now()
			time.Sleep(time.Hour)
			synctest.Wait()
			fmt.Println("slept", time.Since(begin))
		})
	},
	"own starts in a bubble": func() {
		inBubble(func() {
			session()()
			fmt.Println("done")
		})
	},
	"own sessions": func() {
		for range 30 {
			stop := session()
			deep(50)
			stop()
		}
		fmt.Println("done")
	},
	"crowd": func() {
		stop := make(chan bool)
		var all, ready sync.WaitGroup
		ready.Add(100_000)
		for range 100_000 {
			all.Go(func() {
				ready.Done()
				<-stop
			})
		}
		ready.Wait()
		time.Sleep(500 * time.Millisecond)
		close(stop)
		all.Wait()
		s := []metrics.Sample{{Name: "/sched/pauses/total/other:seconds"}}
		metrics.Read(s)
		h := s[0].Value.Float64Histogram()
		long := uint64(0)
		for i, n := range h.Counts {
			if h.Buckets[i] >= 0.1 {
				long += n
			}
		}
		fmt.Println(long, "stops of 100 ms or longer")
	},
	"own few threads": func() {
		tasks, err := os.ReadDir("/proc/self/task")
		check(err)
		debug.SetMaxThreads(len(tasks) + 1)
		session()()
		debug.SetMaxThreads(10_000)
		fmt.Println("done")
	},
	"own no timer_create":      func() { refused(unix.SYS_TIMER_CREATE) },
	"own no timer_settime":     func() { refused(unix.SYS_TIMER_SETTIME) },
	"own no clock_gettime":     func() { refused(unix.SYS_CLOCK_GETTIME) },
	"own no rt_tgsigqueueinfo": func() { refused(unix.SYS_RT_TGSIGQUEUEINFO) },
	"own no process_vm_readv":  func() { refused(unix.SYS_PROCESS_VM_READV) },

	"own late no rt_tgsigqueueinfo": func() { refusedLate(unix.SYS_RT_TGSIGQUEUEINFO) },
	"own late no process_vm_readv":  func() { refusedLate(unix.SYS_PROCESS_VM_READV) },
})

// storm sends signals of many kinds to its own process and thread, one after the other. Each must
// arrive once.
func storm() {
	kinds := []syscall.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGTERM,
		syscall.SIGCHLD, syscall.SIGCONT, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGWINCH, syscall.SIGIO, 40,
	}
	channels := map[syscall.Signal]chan os.Signal{}
	for _, s := range kinds {
		channels[s] = make(chan os.Signal, 10)
		signal.Notify(channels[s], s)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	lost, more := 0, 0
	for round := range 100 {
		for _, s := range kinds {
			if round%2 == 0 {
				check(syscall.Kill(os.Getpid(), s))
			} else {
				check(unix.Tgkill(os.Getpid(), unix.Gettid(), s))
			}
			select {
			case <-channels[s]:
			case <-time.After(time.Minute):
				lost++
			}
		}
	}
	for _, c := range channels {
		more += len(c)
	}
	fmt.Println(lost, "signals lost,", more, "too many")
}

// inBubble runs f in a synctest bubble, which has its own clock, and ends the program.
func inBubble(f func()) {
	testing.Main(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{{
		Name: "Bubble", F: func(t *testing.T) { synctest.Test(t, func(*testing.T) { f() }) },
	}}, nil, nil)
}

// refused makes the kernel refuse a system call, and then runs a session for a while.
func refused(call int) {
	forbid(call)
	stop := session()
	time.Sleep(50 * time.Millisecond)
	stop()
	fmt.Println("done")
}

// refusedLate makes the kernel refuse a system call while a session runs.
func refusedLate(call int) {
	defer session()()
	time.Sleep(50 * time.Millisecond)
	forbid(call)
	notice()
	fmt.Println("done")
}

// notice uses the CPU until the session has ended, but for a bounded time.
func notice() {
	if current == nil {
		return
	}
	within := time.Minute
	if current.Stats().Source == "portable" {
		within = 300 * time.Millisecond
	}
	for begin := time.Now(); current.Err() == nil && time.Since(begin) < within; {
		for now := time.Now(); time.Since(now) < 2*time.Millisecond; {
			deep(50)
		}
		go time.Sleep(time.Millisecond)
	}
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
	check(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog))); e != 0 {
		check(e)
	}
	runtime.UnlockOSThread()
}

//go:noinline
func deep(n int) (sum int) {
	var room [64]int
	if n > 0 {
		room[n%64] = deep(n - 1)
	}
	for _, v := range room {
		sum += v
	}
	return sum + 1
}
