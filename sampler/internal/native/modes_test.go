//go:build linux && (amd64 || arm64)

package native

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
	"golang.org/x/sys/unix"
)

// build builds a program of testdata. An argument that begins with a dash is a flag of go build, the others are
// variables of the environment. Under an emulator it skips the test: the kernel would have to start a program for
// another processor. It also skips the test where that would only repeat it.
func build(t *testing.T, prog string, args ...string) (bin string) {
	t.Helper()
	testenv.NotEmulated(t, "it starts a program of testdata")
	testenv.Again(t)
	bin = filepath.Join(t.TempDir(), prog)
	var flags, env []string
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") {
			flags = append(flags, arg)
		} else {
			env = append(env, arg)
		}
	}
	testenv.OK(t, testenv.Build(bin, "./testdata/"+prog, env, flags...))
	return bin
}

// output runs a program that prints ok at its end, and returns all that it prints.
func output(t *testing.T, env []string, bin string, args ...string) (text string, ok bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // it must not hang
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	text = strings.TrimSpace(string(out))
	if len(text) > 5000 {
		text = text[:2500] + "\n...\n" + text[len(text)-2500:]
	}
	if err != nil {
		return text + "\n" + err.Error(), false
	}
	return text, strings.HasSuffix(text, "ok")
}

func run(t *testing.T, env []string, bin string, args ...string) {
	t.Helper()
	text, ok := output(t, env, bin, args...)
	testenv.FailIf(t, !ok, "%v", text)
}

// stripped builds testdata/prog without symbols: once for all tests.
func stripped(t *testing.T) (bin string) { return build(t, "prog", "-ldflags=-s -w") }

// TestPrograms runs the modes of testdata/prog, without symbols. The mode "plain" and other ways to build it are in
// TestPeerBuilds.
func TestPrograms(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	bin := stripped(t)
	for dir := filepath.Dir(bin); dir != filepath.Clean(os.TempDir()); dir = filepath.Dir(dir) {
		testenv.OK(t, os.Chmod(dir, 0o755)) // "max processes" becomes another user
	}
	for _, c := range []struct{ mode, debug string }{
		// Behaviour that could conflict with the source.
		{"locked", ""}, {"maxprocs", ""}, {"setuid", ""}, {"thread", ""}, {"notify", "asyncpreemptoff=1"}, {"signals", ""}, {"blocked", ""},
		{"preempt", ""}, {"exec", ""}, {"profilers", ""}, {"leaks", ""},
		// Goroutines whose stacks cannot be read, or not all of them.
		{"foreign", ""},
		// Things that the source needs are refused, and the portable source takes over.
		{"seccomp clock_gettime", ""}, {"seccomp timer_create", ""}, {"seccomp timer_settime", ""},
		{"seccomp rt_tgsigqueueinfo", ""}, {"seccomp process_vm_readv", ""},
		{"handler", "asyncpreemptoff=1"}, // the runtime's handler is replaced, so it must get no signals
		{"unmaps", "efence=1"}, {"unmaps", "harddecommit=1"}, {"unmaps", "efence=0,harddecommit=0,harddecommit=2"},
		// There is no room for threads.
		{"max threads", ""}, {"max processes", ""},
		// During a session, the kernel refuses a system call, or C code changes the signal's action. The session must
		// end with the reason, or set its handler again and count that.
		{"late seccomp rt_tgsigqueueinfo", ""}, {"late seccomp process_vm_readv", ""}, {"late handler", ""},
		{"late default", ""}, {"late ignore", ""},
	} {
		t.Run(strings.TrimSpace(c.mode+" "+c.debug), func(t *testing.T) {
			t.Parallel()
			run(t, []string{"GODEBUG=" + c.debug}, bin, c.mode)
		})
	}
}

// TestBusy takes profiles beside goroutines that need all cores, while GOMAXPROCS changes and the collector stops the world. Stop
// does not wait for goroutines of the source that have no turn.
func TestBusy(t *testing.T) {
	t.Parallel()
	run(t, nil, stripped(t), "busy", "4", "0", t.TempDir())
}

// TestGoDebug checks that goruntime.GoDebug reads settings as the runtime does.
func TestGoDebug(t *testing.T) {
	for _, c := range []struct {
		environment []string
		want        int32
	}{
		{nil, 0},
		{[]string{"HOME=/", "GODEBUG=efence=1"}, 1},
		{[]string{"GODEBUG=gctrace=1,efence=1,x", "GODEBUG=efence=0"}, 1},
		{[]string{"GODEBUG=efence=1,efence=0"}, 0},
		{[]string{"GODEBUG=efence=1,efence=yes"}, 1},
		{[]string{"GODEBUG=xefence=1", "MYGODEBUG=efence=1"}, 0},
	} {
		testenv.Same(t, c.environment, goruntime.GoDebug("efence", c.environment), c.want)
	}
}

// TestUnknownVersion starts the source with unknown Go versions.
func TestUnknownVersion(t *testing.T) {
	for _, version := range []string{"go1.24.9", "go1.28.0", "devel go1.28-abcdef0 Thu Jan 1", ""} {
		s := New()
		s.version = version
		err := s.Start(source.Config{Rate: 100, Budget: 1, Start: time.Now()}, newRecorder())
		testenv.Fails(t, version, err, strconv.Quote(version))
	}
}

// TestLayoutOf has version strings of releases, patch releases, release candidates, vendors, experiments
// and development versions.
func TestLayoutOf(t *testing.T) {
	for want, versions := range map[string][]string{
		"go1.25": {"go1.25", "go1.25.3", "go1.25.3 X:boringcrypto"},
		"go1.26": {"go1.26", "go1.26.8", "go1.26.99", "go1.26-bigcorp", "go1.26.8-bigcorp.3", "go1.26.8+bigcorp",
			"go1.26.1-bigcorp X:jsonv2", "go1.26.8-X:jsonv2", "go1.26.1 X:nocoverageredesign", "go1.26.8 (bigcorp build 7)"},
		"go1.27": {"go1.27.5", "go1.27rc1", "go1.27beta2"},
		"": {"", "go", "go1", "go1.", "go1.2", "go1.24.9", "go1.28", "go1.28.0", "go1.28rc1", "go1.265", "go2.26", "1.26.8",
			"gccgo1.26", "tinygo1.26", "weekly.2011-01-01", "devel +abcdef Thu Jan 1 00:00:00", "devel go1.27-abcdef0 Thu Jan 1",
			"devel go1.28-abcdef0 Thu Jan 1", "go1.27-devel_abcdef0 Thu Jan 1", "go1.28-devel_abcdef0 X:jsonv2",
			"go1.26.8-devel_abcdef0 Thu Jan 1 "},
	} {
		for _, version := range versions {
			got, err := goruntime.LayoutOf(version)
			testenv.FailIf(t, got != goruntime.Layouts[want] || (err == nil) != (want != ""), "%q has not the layout of %q: %v", version, want, err)
		}
	}
}

// crowded is what the goroutines of TestNotStarted do.
type crowded struct{ left sync.WaitGroup }

var turns atomic.Int64

//go:noinline
func (c *crowded) method(n int) { c.busy(n) }

//go:noinline
func (c *crowded) Plain() { c.busy(1) }

func (c *crowded) inlined(n int) { c.busy(n) }

//go:noinline
func (c *crowded) busy(n int) {
	for range 2 {
		for end := time.Now().Add(1500 * time.Microsecond); time.Now().Before(end); {
			turns.Add(int64(n))
		}
		runtime.Gosched() // from here it waits for a P behind all others, and has run
	}
	c.left.Done()
}

type busier interface{ method(int) }

//go:noinline
func startCrowd(c *crowded, b busier) {
	for range 20 {
		c.left.Add(7)
		go c.Plain()                                   // a call without arguments but the receiver
		go c.method(2)                                 // a call
		go c.inlined(3)                                // its body becomes part of the wrapper
		go b.method(4)                                 // which method it is, the code does not say
		go func() { c.busy(5) }()                      // no wrapper
		go func(n int) { c.busy(n) }(6)                // a closure: the code does not say which
		go func(c *crowded, n int) { c.busy(n) }(c, 7) // a function
	}
}

// TestNotStarted starts more goroutines than there are Ps. Those that have not run yet are shown with
// the function that the go statement calls, those that have run with their stack.
func TestNotStarted(t *testing.T) {
	var mu sync.Mutex
	missing := map[string]bool{"": true, "(*crowded).Plain": true, "(*crowded).method": true, "(*crowded).inlined": true, "startCrowd": true, "startCrowd.func1": true, "startCrowd.func3": true}
	functions := append(slices.Collect(maps.Keys(missing)), "startCrowd.func2") // "" is of those that have run. Of func2, "not started" says startCrowd only
	r := newRecorder()
	r.keep = func(s *taken) bool {
		if s.status != tachyon.GILRequested || !strings.HasPrefix(r.Told[s.goroutine].CreatedBy, here) {
			return false
		}
		name := ""
		if s.stack[0].Func == "[runnable, not started]" {
			name = strings.TrimPrefix(s.stack[len(s.stack)-1].Func, here)
		}
		mu.Lock()
		defer mu.Unlock()
		delete(missing, name)
		return true
	}
	none := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(missing) == 0
	}
	sessionWith(t, source.Config{WaitFrames: true}, r, func() {
		testenv.Await(func() bool {
			var c crowded
			startCrowd(&c, &c)
			c.left.Wait()
			return none()
		})
	})
	testenv.Prints(t, "functions whose goroutine was not seen waiting for a P", "map[]", missing)
	for _, s := range r.samples {
		stack, f := names(s.stack), s.stack[min(1, len(s.stack)-1)]
		ours := slices.Contains(functions, strings.TrimPrefix(f.Func, here))
		switch {
		case stack[0] == "[runnable, not started]" && len(stack) == 2 && ours && f.Func != here+"startCrowd.func2" && f.Line > 0 && strings.HasSuffix(f.File, "_test.go"):
		case stack[0] != "[runnable]":
			t.Fatalf("a runnable goroutine's stack is %q, at %s:%d", stack, f.File, f.Line)
		case len(stack) == 2 && f.Func == "runtime.goexit1":
			// The function has returned: the goroutine was preempted where goexit1 begins.
		case len(stack) == 2 && (ours && f.Func != here+"startCrowd" || strings.HasPrefix(f.Func, here+"startCrowd.gowrap")):
			// It was preempted where it begins, or where the wrapper of its call begins.
		case len(stack) < 3 || strings.Contains(fmt.Sprint(stack), "gowrap"):
			t.Fatalf("%q", stack)
		}
	}
}

// TestCoroutine walks the stack of a coroutine that is switched all the time between two stops, by writes in the
// order of runtime.coroswitch_m. All PCs of a record must be of the same stop.
func TestCoroutine(t *testing.T) {
	l := testenv.Must(goruntime.LayoutOf(runtime.Version()))
	const frames, size, text = 60, 1 << 13, 1 << 32
	memory := testenv.Must(mem.Map(unsafe.Sizeof(shared{}) + 2*size + ringWords*8))
	defer unix.Munmap(memory)
	s := at(memory.Addr())
	g := memory.Addr() + (unsafe.Sizeof(shared{})+7)&^7
	lo := g + size
	s.ring = lo + size
	s.Off, s.waits, s.random, s.tornAfter = l.Offsets, l.WaitSets(), 1, 1<<40
	s.Program = goruntime.Code{Text: text, Etext: text + 1<<16}
	reason := uint32(slices.Index(l.Reasons, "coroutine"))
	word := (g + l.GWaitReason) &^ 3
	mem.Store32(word, mem.Load32(word)|reason<<(8*(g+l.GWaitReason-word)))
	mem.Store64(g+l.GID, 7)
	mem.Store64(g+l.GStackLo, uint64(lo))
	mem.Store64(g+l.GStackHi, uint64(lo+size))
	mem.Store64(g+l.GSchedSP, uint64(lo+64))
	mem.Store64(g+l.GSchedPC, text+1)
	mem.Store64(g+l.GSchedBP, uint64(lo+64))
	frame := func(i uintptr) uintptr { return lo + 64 + i*64 }
	for i := range uintptr(frames) {
		mem.Store64(frame(i), uint64(frame(i+1)))
	}
	mem.Store64(frame(frames), 0)
	stopAt := func(stop uint64) {
		for i := uintptr(frames); i > 0; i-- {
			mem.Store64(frame(i-1)+8, text+uint64(i)*16+8*stop)
		}
	}
	stopAt(0)
	mem.Store32(g+l.GStatus, goruntime.GWaiting)
	barrier := lo + size - 8
	var end atomic.Bool
	var switcher sync.WaitGroup
	switcher.Go(func() {
		for stop := uint64(1); !end.Load(); stop ^= 1 {
			mem.Swap64(g+l.GM, 1)
			mem.Store32(g+l.GStatus, goruntime.GRunning)
			mem.Swap64(barrier, 0)
			stopAt(stop)
			mem.Swap64(barrier, 0)
			mem.Store32(g+l.GStatus, goruntime.GWaiting)
			mem.Swap64(g+l.GM, 0)
			for from, stay := mem.Cycles(), rand.Uint64N(20_000); mem.Cycles()-from < stay; {
			}
			if runtime.GOMAXPROCS(0) == 1 {
				runtime.Gosched()
			}
		}
	})
	defer switcher.Wait()
	defer end.Store(true)
	s.seenStatus, s.seenGoid = goruntime.GWaiting, 7
	read, bare, changes, last := 0, 0, 0, uint64(0)
	for begin := time.Now(); changes < 50 && time.Since(begin) < 30*time.Second; {
		if runtime.GOMAXPROCS(0) == 1 {
			runtime.Gosched()
		}
		if walkParked(s, g, ^uint64(0)) == 0 {
			continue
		}
		rec := s.words(s.write)
		n := mem.Load64(rec+headCounts*8) & 0xffff
		if n == 0 {
			bare++
			continue
		}
		read++
		first := mem.Load64(rec + (headWords+1)*8)
		if first != last {
			changes++
		}
		last = first
		for i := uintptr(1); i < uintptr(n); i++ {
			pc := mem.Load64(rec + (headWords+i)*8)
			testenv.StopIf(t, n != frames+1 || pc&15 != first&15, "walk %d: %d PCs, the first is %#x, that of frame %d %#x", read, n, first, i, pc)
		}
	}
	t.Logf("%d stacks, %d without frames, %d times another", read, bare, changes)
	testenv.FailIf(t, changes < 10, "it has hardly been switched")
}
