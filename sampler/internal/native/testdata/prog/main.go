// Command prog runs the native source in a program whose behaviour could conflict with it. It prints "ok" if
// everything worked.
package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/felixge/fgprof"
	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/sampler/internal/native"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

type counter struct {
	frames         []tachyon.Frame
	spinning       atomic.Int64 // samples with status running and spin on the stack
	waiting        atomic.Int64 // samples of waiters
	samples, wrong int
}

func (c *counter) Frame(f tachyon.Frame) uint32 {
	c.frames = append(c.frames, f)
	return uint32(len(c.frames) - 1)
}

func (c *counter) Sample(s *source.Sample) {
	c.samples++
	has := func(name string) bool {
		for _, id := range s.Stack {
			if c.frames[id].Func == name {
				return true
			}
		}
		return false
	}
	spins, waits := has("main.spin"), has("main.wait")
	if spins && s.Status&tachyon.OnCPU != 0 {
		c.spinning.Add(1)
	}
	if waits && c.frames[s.Stack[0]].Func == "[chan receive]" {
		c.waiting.Add(1)
	}
	if spins && (waits || !has("main.spinner")) || waits && !has("main.waiter") {
		c.wrong++
		for _, id := range s.Stack {
			fmt.Println("wrong:", s.Status, c.frames[id].Func, c.frames[id].Line)
		}
	}
}

func (c *counter) Goroutine(g source.Goroutine) bool               { return !own.Created(g.CreatedBy) }
func (c *counter) Labels(uint64, time.Duration, map[string]string) {}
func (c *counter) Gone(uint64)                                     {}
func (*counter) Counted()                                          {}

func (c *counter) Batch(f func()) { f() }
func (c *counter) Fail(err error) { fail("Fail: %v", err) }

func fail(format string, args ...any) {
	fmt.Printf(format+"\n", args...)
	os.Exit(1)
}

//go:noinline
func spin(stop *atomic.Bool) (n int) {
	for !stop.Load() {
		for i := range 1000 {
			n += i * n
		}
	}
	return n
}

//go:noinline
func spinner(stop *atomic.Bool) { spin(stop) }

//go:noinline
func wait(stop chan bool) { <-stop }

//go:noinline
func waiter(stop chan bool) { wait(stop) }

// rounds returns how often a mode does what it does: few times, or night in the step night of .ci/run.
func rounds(few, night int) int {
	if os.Getenv("GOTACH_NIGHT") == "1" {
		return night
	}
	return few
}

// await waits until a condition holds, for a minute at most.
func await(what string, cond func() bool) {
	for begin := time.Now(); !cond(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > time.Minute {
			fail("never: %s", what)
		}
	}
}

// more waits for ten more samples of both kinds of goroutines of sampled.
var more func()

// sampled runs f under the source, together with a running goroutine and some waiting ones. It ends when both
// kinds have enough samples: on a busy machine that can be long after f.
func sampled(rate int, f func()) {
	var stop atomic.Bool
	ch := make(chan bool)
	var all sync.WaitGroup
	all.Add(11)
	go func() { defer all.Done(); spinner(&stop) }()
	for range 10 {
		go func() { defer all.Done(); waiter(ch) }()
	}
	c := &counter{}
	s := native.New()
	if err := s.Start(source.Config{Rate: rate, Budget: 20, WaitFrames: true, Start: time.Now()}, c); err != nil {
		fail("Start: %v", err)
	}
	more = func() {
		spinning, waiting := c.spinning.Load()+10, c.waiting.Load()+10
		await("more samples", func() bool { return c.spinning.Load() >= spinning && c.waiting.Load() >= waiting })
	}
	f()
	more()
	s.Stop()
	stop.Store(true)
	close(ch)
	all.Wait()
	if c.wrong > 0 {
		fail("%d wrong of %d samples, %+v", c.wrong, c.samples, s.Progress())
	}
	fmt.Printf("%d samples, %+v\n", c.samples, s.Progress())
}

// ownSignals sends signals of many kinds to its own process and thread, one after the other. Each must arrive
// once.
func ownSignals(rounds int) {
	kinds := []syscall.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGTERM,
		syscall.SIGCHLD, syscall.SIGCONT, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGURG, syscall.SIGWINCH, syscall.SIGIO, 40,
	}
	urgent := make(chan os.Signal, 1)
	channels := map[syscall.Signal]chan os.Signal{}
	for _, sig := range kinds {
		channels[sig] = make(chan os.Signal, 10)
		if sig == syscall.SIGURG {
			channels[sig] = urgent
		}
		signal.Notify(channels[sig], sig)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for round := range 2 * rounds {
		for _, sig := range kinds {
			if sig == syscall.SIGURG {
				select {
				case <-urgent: // it may be the runtime's own
				default:
				}
			}
			if round%2 == 0 {
				_ = syscall.Kill(os.Getpid(), sig)
			} else {
				_ = unix.Tgkill(os.Getpid(), unix.Gettid(), sig)
			}
			select {
			case <-channels[sig]:
			case <-time.After(30 * time.Second):
				fail("%v was lost in round %d", sig, round)
			}
		}
	}
	for sig, c := range channels {
		signal.Stop(c)
		if sig != syscall.SIGURG && len(c) > 0 {
			fail("%d %v too many", len(c), sig)
		}
	}
}

// tight is a loop that only the runtime's signal can preempt. The stores through the pointer keep the compiler
// from optimising it.
//
//go:noinline
func tight(stop *bool) {
	for !*stop {
	}
}

// preempt makes the collector stop tight loops, on more threads than there are cores. If one signal of the
// runtime is lost, the collector waits for ever.
func preempt(rounds int) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU() + 2))
	stop := new(bool)
	var all sync.WaitGroup
	for range runtime.NumCPU() + 1 {
		all.Add(1)
		go func() { defer all.Done(); tight(stop) }()
	}
	done := make(chan bool)
	go func() {
		for range rounds {
			runtime.GC()
		}
		*stop = true
		done <- true
	}()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		panic("a loop was not preempted")
	}
	all.Wait()
}

var modes = map[string]func(){
	"plain": func() { sampled(1000, func() {}) },
	"locked": func() {
		sampled(1000, func() {
			var all sync.WaitGroup
			for i := range 20 {
				all.Add(1)
				go func() {
					defer all.Done()
					runtime.LockOSThread() // the thread ends with the goroutine
					for range 20 {
						time.Sleep(time.Duration(i) * 100 * time.Microsecond)
						for n := range 10000 {
							_ = n
						}
					}
				}()
			}
			all.Wait()
		})
	},
	"maxprocs": func() {
		sampled(1000, func() {
			for i := range rounds(20, 60) {
				runtime.GOMAXPROCS(1 + i*7%13)
				time.Sleep(3 * time.Millisecond)
			}
		})
	},
	"setuid": func() { // runs on every thread in turn, also on the tick thread
		sampled(1000, func() {
			for range 100 {
				time.Sleep(time.Millisecond)
				if err := syscall.Setuid(os.Getuid()); err != nil {
					fail("setuid: %v", err)
				}
			}
		})
	},
	"thread": func() { // sends a signal to the tick thread
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		sampled(1000, func() {
			timers, err := os.ReadFile("/proc/self/timers")
			_, at, ok := strings.Cut(string(timers), "notify: signal/tid.")
			tid, _ := strconv.Atoi(strings.Fields(at + " 0")[0])
			if err != nil || !ok {
				fail("no timer: %v", err)
			}
			for range 50 {
				if err := unix.Tgkill(os.Getpid(), tid, unix.SIGTERM); err != nil {
					fail("tgkill: %v", err)
				}
				<-c
			}
		})
	},
	"notify": func() {
		// With asyncpreemptoff=1 the runtime sends no SIGURG. It cannot preempt the running goroutine then.
		debug.SetGCPercent(-1)
		runtime.GOMAXPROCS(4)
		c := make(chan os.Signal, 1000)
		signal.Notify(c)
		n := map[os.Signal]int{}
		sampled(1000, func() {
			for _, sig := range []syscall.Signal{syscall.SIGWINCH, syscall.SIGUSR1} {
				syscall.Kill(os.Getpid(), sig)
				for n[sig] == 0 {
					n[<-c]++
				}
			}
		})
		for len(c) > 0 {
			n[<-c]++
		}
		// The program also gets signals of the profiler that come late. How many depends on the machine's load.
		delete(n, syscall.SIGURG)
		if n[syscall.SIGWINCH] != 1 || n[syscall.SIGUSR1] != 1 || len(n) > 2 {
			fail("received %v", n)
		}
		signal.Reset()
		sampled(1000, func() {
			more()
			signal.Ignore()
			more()
			signal.Reset()
		})
	},
	"signals": func() {
		for _, rate := range []int{1000, 10000} {
			sampled(rate, func() { ownSignals(rounds(10, 300)) })
		}
	},
	// A signal that all threads block is for a signalfd. The program that executed this one has blocked it.
	"blocked": func() {
		blocked := unix.Sigset_t{Val: [16]uint64{1 << (unix.SIGUSR1 - 1)}}
		if os.Getenv("GENERATION") == "" {
			runtime.LockOSThread()
			if err := unix.PthreadSigmask(unix.SIG_BLOCK, &blocked, nil); err != nil {
				fail("%v", err)
			}
			os.Setenv("GENERATION", "1")
			fail("exec: %v", syscall.Exec(os.Args[0], os.Args, os.Environ()))
		}
		fd, err := unix.Signalfd(-1, &blocked, unix.SFD_CLOEXEC)
		if err != nil {
			fail("%v", err)
		}
		sampled(1000, func() {
			for range 20 {
				if err := unix.Kill(os.Getpid(), unix.SIGUSR1); err != nil {
					fail("%v", err)
				}
				n, err := 0, error(unix.EINTR)
				for err == unix.EINTR {
					n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
				}
				var info [128]byte
				if n != 1 || err != nil {
					fail("the signal did not reach the signalfd: %d, %v", n, err)
				}
				if n, err := unix.Read(fd, info[:]); n != len(info) || info[0] != byte(unix.SIGUSR1) {
					fail("%d bytes, signal %d, %v", n, info[0], err)
				}
				time.Sleep(time.Millisecond)
			}
		})
	},
	"preempt": func() { sampled(10000, func() { preempt(rounds(3, 100)) }) },
	"exec": func() {
		// Each generation runs a session, starts other programs, and then executes the next one.
		n, _ := strconv.Atoi(os.Getenv("GENERATION"))
		if n == rounds(2, 15) {
			return
		}
		sampled(10000, func() {
			for range 10 {
				if out, err := exec.Command("true").CombinedOutput(); err != nil {
					fail("true: %v %s", err, out)
				}
			}
		})
		s := native.New()
		if err := s.Start(source.Config{Rate: 10000, Budget: 20, Start: time.Now()}, &counter{}); err != nil {
			fail("Start: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
		os.Setenv("GENERATION", strconv.Itoa(n+1))
		err := syscall.Exec(os.Args[0], os.Args, os.Environ())
		fail("exec: %v", err)
	},
	"profilers": func() {
		var cpu, wall, tr bytes.Buffer
		sampled(1000, func() {
			if err := pprof.StartCPUProfile(&cpu); err != nil {
				fail("%v", err)
			}
			if err := trace.Start(&tr); err != nil {
				fail("%v", err)
			}
			stop := fgprof.Start(&wall, fgprof.FormatPprof)
			burn(100 * time.Millisecond) // 10 ticks of both
			if err := stop(); err != nil {
				fail("%v", err)
			}
			trace.Stop()
			pprof.StopCPUProfile()
		})
		for _, b := range []*bytes.Buffer{&cpu, &wall} {
			z, err := gzip.NewReader(b)
			if err != nil {
				fail("%v", err)
			}
			if text, err := io.ReadAll(z); err != nil || !bytes.Contains(text, []byte("main.spin")) {
				fail("a profile of %d bytes: %v", len(text), err)
			}
		}
		if !bytes.HasPrefix(tr.Bytes(), []byte("go 1.")) {
			fail("a trace of %d bytes", tr.Len())
		}
	},
	"seccomp timer_create":      func() { fallsBack(unix.SYS_TIMER_CREATE, "timer_create") },
	"seccomp rt_tgsigqueueinfo": func() { fallsBack(unix.SYS_RT_TGSIGQUEUEINFO, "rt_tgsigqueueinfo") },
	"seccomp process_vm_readv":  func() { fallsBack(unix.SYS_PROCESS_VM_READV, "process_vm_readv") },
	"seccomp timer_settime":     func() { fallsBack(unix.SYS_TIMER_SETTIME, "timer_settime") },
	"unmaps":                    func() { fallsBack(-1, "unmaps stacks") },
	"race cover":                func() { fallsBack(-1, "-race") },
	"msan":                      func() { fallsBack(-1, "has a handler that is not Go's") }, // the sanitizer has put its own before it
	"seccomp clock_gettime":     func() { fallsBack(unix.SYS_CLOCK_GETTIME, "clock_gettime") },
	"max threads": func() {
		spareThreads()
		_, threads, _, _ := inventory()
		debug.SetMaxThreads(threads + 3)
		refused("SetMaxThreads")
		if debug.SetMaxThreads(10000) != threads+3 {
			fail("the limit is another one")
		}
	},
	"max processes": func() {
		spareThreads()
		if os.Getuid() == 0 { // the limit does not hold for root
			if err := syscall.Setuid(54321); err != nil {
				fail("setuid: %v", err)
			}
		}
		if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: 1, Max: 1}); err != nil {
			fail("setrlimit: %v", err)
		}
		refused("RLIMIT_NPROC")
	},
	"max tasks": func() {
		spareThreads()
		cgroup := os.Getenv("GOTACH_CGROUP")
		set := func(file string, n any) {
			if err := os.WriteFile(filepath.Join(cgroup, file), fmt.Append(nil, n), 0); err != nil {
				fail("%v", err)
			}
		}
		set("cgroup.procs", os.Getpid())
		_, threads, _, _ := inventory()
		for room := range native.Threads {
			set("pids.max", threads+room)
			refused("pids.max")
		}
		set("pids.max", "max")
		sampled(1000, func() {})
	},
	"handler": func() {
		action := [4]uint64{uint64(reflect.ValueOf(fail).Pointer())}
		_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGURG), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
		if e != 0 {
			fail("rt_sigaction: %v", e)
		}
		fallsBack(-1, "has a handler that is not Go's")
		var now [4]uint64
		unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGURG), 0, uintptr(unsafe.Pointer(&now)), 8, 0, 0)
		if now[0] != action[0] {
			fail("the handler is no more")
		}
	},
	"leaks": func() {
		sampled(1000, func() {})
		fds, threads, maps, goroutines := inventory()
		for range rounds(10, 50) {
			s := native.New()
			if err := s.Start(source.Config{Rate: 10000, Budget: 20, Start: time.Now()}, &counter{}); err != nil {
				fail("Start: %v", err)
			}
			time.Sleep(5 * time.Millisecond)
			s.Stop()
		}
		// The runtime may start a thread or map an arena meanwhile.
		for begin := time.Now(); ; time.Sleep(time.Millisecond) {
			fds2, threads2, maps2, goroutines2 := inventory()
			// With many Ps the runtime starts threads for them as it needs them. Each has up to five mappings.
			if fds2 <= fds && threads2 <= max(threads+3, runtime.GOMAXPROCS(0)+6) && maps2 <= maps+12+5*max(0, threads2-threads) && goroutines2 <= goroutines {
				return
			}
			if time.Since(begin) > time.Minute {
				fail("not all is given back: %d of %d descriptors, %d of %d threads, %d of %d mappings, %d of %d goroutines",
					fds2, fds, threads2, threads, maps2, maps, goroutines2, goroutines)
			}
		}
	},
}

// burn returns when the process has used the CPU for some more time.
func burn(d time.Duration) {
	used := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			fail("getrusage: %v", err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	until := used() + d
	await("CPU time", func() bool { return used() >= until })
}

func main() {
	modes[os.Args[1]]()
	fmt.Println("ok")
}
