//go:build peers && linux && (amd64 || arm64)

package native

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

const unoptimised = "-gcflags=all=-N -l"

// TestPeerBuilds samples a program that is built in several ways, which all need another standard library.
func TestPeerBuilds(t *testing.T) {
	for _, c := range []struct {
		name, mode string
		flags      []string
	}{
		{"pie stripped", "plain", []string{"-buildmode=pie", "-ldflags=-s -w"}},
		{"race", "plain", []string{"-race"}},
		{"cover", "plain", []string{"-cover", "-coverpkg=./..."}},
		{"cover atomic", "plain", []string{"-cover", "-covermode=atomic", "-coverpkg=./..."}},
		{"race cover", "race cover", []string{"-race", "-cover", "-covermode=atomic", "-coverpkg=./..."}}, // falls back
		{"external linking", "plain", []string{"-ldflags=-linkmode=external"}},
		// As for a debugger. The linker bounds the stack of the handler's functions, which is largest then.
		{"no optimisation", "plain", []string{unoptimised}},
		{"no optimisation, race", "plain", []string{unoptimised, "-race"}},
		{"no optimisation, race cover", "race cover", []string{unoptimised, "-race", "-cover", "-covermode=atomic", "-coverpkg=./..."}},
		{"asan", "plain", []string{"-asan"}},
		{"asan cover", "plain", []string{"-asan", "-cover", "-covermode=atomic", "-coverpkg=./..."}},
		{"msan", "msan", []string{"-msan", "CC=clang"}}, // falls back
	} {
		t.Run(c.name, func(t *testing.T) {
			if slices.Contains(c.flags, "-msan") {
				testenv.Night(t, "clang is large, and builds the standard library for long")
				testenv.Command(t, "clang", "apt-get install clang libclang-rt-dev")
			}
			if slices.Contains(c.flags, "-asan") {
				testenv.Night(t, "one more standard library, for few programs")
			}
			if slices.Contains(c.flags, unoptimised) && slices.Contains(c.flags, "-race") {
				testenv.Night(t, "one more standard library; the bound on the handler's stack is half as high without -race")
			}
			run(t, nil, build(t, "prog", c.flags...), c.mode)
		})
	}
	// With atomic counters and without optimization, the handler is over the linker's bound: such a program has to leave the
	// native source out. -race doubles the bound.
	t.Run("no optimisation, cover atomic, portable", func(t *testing.T) {
		const program = "github.com/gotach/profiler/bench/harmless/testdata/cases"
		testenv.OK(t, testenv.Build(t.TempDir()+"/cases", program, nil, "-tags=gotach_portable", "-cover", "-covermode=atomic", "-coverpkg=github.com/gotach/profiler/...", unoptimised))
	})
	for name, flags := range map[string][]string{
		"no optimisation": {unoptimised},
		"cover atomic":    {"-cover", "-covermode=atomic", "-coverpkg=./..."},
	} {
		t.Run(name+", arm64", func(t *testing.T) {
			if name != "no optimisation" { // whose stacks are larger
				testenv.Night(t, "one more standard library, for one program")
			}
			build(t, "prog", append(flags, "GOARCH=arm64", "CGO_ENABLED=0")...)
		})
	}
}

// TestPeerCgo samples a program with threads of C that call Go, some with all signals blocked.
func TestPeerCgo(t *testing.T) {
	for name, flags := range map[string][]string{"plain": nil, "race": {"-race"}, "pie": {"-buildmode=pie"}, "static": {"-ldflags=-extldflags=-static"}} {
		t.Run(name, func(t *testing.T) { run(t, nil, build(t, "cgoprog", flags...)) })
	}
}

// TestPeerPlugin samples code of a plugin that is loaded before the session, and of one that is loaded during it.
func TestPeerPlugin(t *testing.T) {
	// The packages of plugin and program must be built in the same way.
	lib, bin := build(t, "plugin", "-buildmode=plugin"), build(t, "pluginprog")
	for _, when := range []string{"early", "late"} {
		t.Run(when, func(t *testing.T) { run(t, nil, bin, lib, when) })
	}
}

// TestPeerTasks runs a program that cannot have more threads because of its cgroup.
func TestPeerTasks(t *testing.T) {
	run(t, []string{"GOTACH_CGROUP=" + testenv.LimitTasks(t)}, build(t, "prog"), "max tasks")
}

// cc builds a C program of testdata/c.
func cc(t *testing.T, compiler, prog string, args ...string) (bin string) {
	t.Helper()
	bin = t.TempDir() + "/" + prog
	args = append([]string{"-O2", "-Wall", "-Werror", "-o", bin, "testdata/c/" + prog + ".c"}, args...)
	out, err := exec.Command(compiler, append(args, "-lpthread", "-ldl")...).CombinedOutput()
	testenv.StopIf(t, err != nil, "%s: %v\n%s", compiler, err, out)
	return bin
}

// survives runs a program several times, a hundred times at night. Each time it must print ok at its end. If sampled,
// at least one run must say that its session was native: on a busy machine Start may fall back in some.
func survives(t *testing.T, sampled bool, few int, bin string, args ...string) {
	t.Helper()
	natives := 0
	for range testenv.Times(few, 100) {
		text, ok := output(t, nil, bin, args...)
		testenv.FailIf(t, !ok, "%v", text)
		if strings.Contains("\n"+text, "\nnative 1") {
			natives++
		}
	}
	testenv.FailIf(t, sampled && natives == 0, "no session was native")
}

// TestPeerChainedHandler has a C library that replaces the handler of SIGURG by its own, which calls the
// old handler as a C function.
func TestPeerChainedHandler(t *testing.T) {
	bin := cc(t, "cc", "chain", build(t, "clib", "-buildmode=c-archive"))
	for mode, sampled := range map[string]bool{
		"none": false, "before": false, "during": true, "after": true, "reporter before": false, "reporter during": true,
	} {
		t.Run(mode, func(t *testing.T) { survives(t, sampled, 5, bin, strings.Fields(mode)...) })
	}
}

// TestPeerChainedHandlerArm64 is TestPeerChainedHandler for the registers of arm64, under an emulator.
func TestPeerChainedHandlerArm64(t *testing.T) {
	const install = "apt-get install gcc-aarch64-linux-gnu qemu-user-static"
	gcc := testenv.Command(t, "aarch64-linux-gnu-gcc", install)
	qemu := testenv.Command(t, "qemu-aarch64-static", install)
	lib := build(t, "clib", "-buildmode=c-archive", "GOARCH=arm64", "CGO_ENABLED=1", "CC="+gcc)
	bin := cc(t, gcc, "chain", lib, "-static")
	for _, mode := range []string{"during", "after"} {
		t.Run(mode, func(t *testing.T) { survives(t, true, 2, qemu, "-E", "GOTACH_PLAIN_READS=1", bin, mode) })
	}
}

// TestPeerTwoLibraries runs two Go runtimes in one process, each with a profiler.
func TestPeerTwoLibraries(t *testing.T) {
	lib := build(t, "clib", "-buildmode=c-shared")
	// The second library must be another file: dlopen loads the same inode only once.
	other := filepath.Join(t.TempDir(), "other")
	b := testenv.Must(os.ReadFile(lib))
	testenv.OK(t, os.WriteFile(other, b, 0o700))
	bin := cc(t, "cc", "two")
	for _, mode := range []string{"none", "first", "second", "both", "late", "nested", "crossed"} {
		t.Run(mode, func(t *testing.T) { survives(t, false, 5, bin, lib, other, mode) })
	}
}

// stalling are the functions in which a thread may lose its core between two statements.
var stalling = map[string][]string{
	"handler.go":   {"takeTicks", "onTick"},
	"interrupt.go": {"interruptAll", "interrupt"},
	"ring.go":      {"harvest"},
	"census.go":    {"census", "addNew"},
	"pace.go":      {"next", "hasRun", "usesCPU", "wakeDrain"},
	"turns.go":     {"visitSome", "visitMovers", "visitNew", "sweep"},
	"loop.go":      {"loop", "rest", "listen", "endWaits", "lookOnce"},
	"drain.go":     {"pass"},
	"passes.go":    {"pass", "losses", "giveUp"},
	"start.go":     {"Start", "start", "begin", "Stop", "silence", "finishRing"},
	"setup.go":     {"prepare", "giveBack", "release", "takeOver", "memoryInUse"},
	"verify.go":    {"verify", "sampleHere", "parked"},
	"tick.go":      {"startTicker", "create", "arm", "delete", "leave", "stop"},

	"verify_offsets.go": {"checkSyscall", "checkRuns", "checkTimers", "checkIdle", "checkPreempt"},
	"verify_objects.go": {"checkObjects", "findPoll", "pollsOf"},
}

// stallHere is what the tests insert. It makes the thread sleep for two seconds, once, without telling the runtime.
const stallHere = `package native

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/mem"
)

var stallAt uint64

var stallUntil [2]uint64

func init() { fmt.Sscan(os.Getenv("GOTACH_STALL"), &stallAt) }

//go:nosplit
//go:norace
//go:nocheckptr
func stallHere(n uint64) {
	if n == stallAt && mem.Cas64(uintptr(unsafe.Pointer(&stallAt)), n, 0) {
		// Until a time: a sleep for a time that signals interrupt again and again would begin anew each time.
		at := uintptr(unsafe.Pointer(&stallUntil))
		mem.Syscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC, at, 0, 0, 0, 0)
		stallUntil[0] += 2
		for -mem.Syscall(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, at, 0, 0, 0) == uintptr(unix.EINTR) {
		}
	}
}
`

// stalls returns a file's text with stallHere before each statement of the functions, and where these are. They are
// numbered from the length of places + 1 on.
func stalls(t *testing.T, file string, functions, places []string) ([]byte, []string) {
	text := testenv.Must(os.ReadFile(file))
	fset := token.NewFileSet()
	f := testenv.Must(parser.ParseFile(fset, file, text, 0))
	var out bytes.Buffer
	var offsets []int // of statements
	done, seen := 0, 0
	for _, decl := range f.Decls {
		d, ok := decl.(*ast.FuncDecl)
		if !ok || !slices.Contains(functions, d.Name.Name) {
			continue
		}
		seen++
		ast.Inspect(d.Body, func(n ast.Node) bool {
			if b, ok := n.(*ast.BlockStmt); ok {
				for _, s := range b.List {
					switch s.(type) {
					case *ast.CaseClause, *ast.CommClause:
					default:
						offsets = append(offsets, fset.Position(s.Pos()).Offset)
					}
				}
			}
			return true
		})
	}
	testenv.Same(t, fmt.Sprintf("functions of %q in %s", functions, file), seen, len(functions))
	slices.Sort(offsets)
	for _, at := range offsets {
		places = append(places, fset.Position(f.FileStart+token.Pos(at)).String())
		fmt.Fprintf(&out, "%sstallHere(%d);", text[done:at], len(places))
		done = at
	}
	out.Write(text[done:])
	return out.Bytes(), places
}

// TestPeerStalls makes a thread lose its core for two seconds, which is longer than others wait for it, at each step of
// Start, a tick, the drain and Stop. The program must neither end nor hang, must say an error if there is no profile, and
// must be able to sample again.
func TestPeerStalls(t *testing.T) {
	dir := testenv.Must(filepath.Abs("."))
	temp, replace, places := t.TempDir(), map[string]string{}, []string(nil)
	add := func(name string, text []byte) {
		replace[filepath.Join(dir, name)] = filepath.Join(temp, name)
		testenv.OK(t, os.WriteFile(filepath.Join(temp, name), text, 0o644))
	}
	add("stallhere.go", []byte(stallHere))
	for file, functions := range stalling {
		var text []byte
		text, places = stalls(t, file, functions, places)
		add(file, text)
	}
	overlay := testenv.Must(json.Marshal(map[string]any{"Replace": replace}))
	file := filepath.Join(temp, "overlay.json")
	testenv.OK(t, os.WriteFile(file, overlay, 0o644))
	bin := build(t, "stalls", "-overlay="+file)
	t.Logf("%d steps", len(places))
	steps := make(chan int)
	var all sync.WaitGroup
	for range 24 { // they sleep most of the time
		all.Go(func() {
			for i := range steps {
				text, ok := output(t, []string{fmt.Sprint("GOTACH_STALL=", i+1)}, bin, t.TempDir())
				testenv.FailIf(t, !ok, "%s: %s", places[i], text)
			}
		})
	}
	every := testenv.Times(5, 1)
	for i := 0; i < len(places); i += every {
		steps <- i
	}
	close(steps)
	all.Wait()
}
