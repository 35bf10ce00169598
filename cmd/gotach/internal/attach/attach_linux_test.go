//go:build amd64 || arm64

package attach

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/analyze/instant"
	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
)

// build builds the target with a toolchain, "" for the one of this test.
func build(t *testing.T, toolchain string, flags ...string) string {
	return buildOf(t, "target", toolchain, flags...)
}

// buildOf builds a program of testdata that imports nothing of ours.
func buildOf(t *testing.T, name, toolchain string, flags ...string) string {
	notEmulated(t)
	dir := t.TempDir()
	if toolchain == "" {
		program := filepath.Join(dir, "target")
		testenv.OK(t, testenv.Build(program, "./testdata/"+name, nil, flags...))
		return program
	}
	source := testenv.Must(os.ReadFile("testdata/" + name + "/main.go"))
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "main.go"), source, 0o644))
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module target\n\ngo 1.19\n"), 0o644))
	cmd := exec.Command("go", append(append([]string{"build", "-o", "target"}, flags...), "main.go")...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOTOOLCHAIN="+toolchain)
	testenv.Run(t, cmd)
	return filepath.Join(dir, "target")
}

// notEmulated skips a test that reads a process.
func notEmulated(t *testing.T) { testenv.NotEmulated(t, "it reads no memory of processes") }

// A target is a running one.
type target struct {
	pid  int
	in   io.Writer
	out  *bufio.Reader
	wait func() error
}

func start(t *testing.T, program string, args ...string) *target {
	return startAs(t, nil, program, args...)
}

// startAs starts it as another user.
func startAs(t *testing.T, attr *syscall.SysProcAttr, program string, args ...string) *target {
	return launch(t, attr, program, args...).waits(t)
}

func launch(t *testing.T, attr *syscall.SysProcAttr, program string, args ...string) *target {
	cmd := exec.Command(program, args...)
	cmd.SysProcAttr, cmd.Dir, cmd.Env = attr, filepath.Dir(program), append(os.Environ(), "GOTRACEBACK=crash")
	in, out := testenv.Must(cmd.StdinPipe()), testenv.Must(cmd.StdoutPipe())
	testenv.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &target{cmd.Process.Pid, in, bufio.NewReader(out), cmd.Wait}
}

// waits returns when most goroutines of a target wait.
func (x *target) waits(t *testing.T) *target {
	waiting := 0
	testenv.Await(func() bool {
		waiting = 0
		for _, g := range x.stack(t) {
			if g.State != "running" && g.State != "runnable" {
				waiting++
			}
		}
		return waiting >= 32
	})
	testenv.FailIf(t, waiting < 32, "%d goroutines wait", waiting)
	return x
}

// stack returns what the program itself says.
func (x *target) stack(t *testing.T) map[uint64]instant.Goroutine {
	testenv.Must(fmt.Fprintln(x.in))
	return parseStack(testenv.Must(x.out.ReadString('\f')))
}

var (
	headLine  = regexp.MustCompile(`^goroutine (\d+) \[([^],]*)[^]]*\]:$`)
	arguments = regexp.MustCompile(`\([^()]*\)$`)
	created   = regexp.MustCompile(`^created by (.*?)(?: in goroutine (\d+))?$`)
	place1    = regexp.MustCompile(`^\t(.*):(\d+)(?: \+0x[0-9a-f]+)?$`)
)

// parseStack parses what runtime.Stack prints.
func parseStack(text string) map[uint64]instant.Goroutine {
	out := map[uint64]instant.Goroutine{}
	for block := range strings.SplitSeq(strings.Trim(text, "\n\f"), "\n\n") {
		lines := strings.Split(block, "\n")
		m := headLine.FindStringSubmatch(lines[0])
		if m == nil {
			continue
		}
		var g instant.Goroutine
		g.State, _, _ = strings.Cut(m[2], " labels:")
		testenv.Must(fmt.Sscan(m[1], &g.ID))
		for i := 2; i < len(lines); i++ {
			at := place1.FindStringSubmatch(lines[i])
			if at == nil {
				continue
			}
			if by := created.FindStringSubmatch(lines[i-1]); by != nil {
				g.CreatedBy, g.CreatedAt = by[1], at[1]+":"+at[2]
				if by[2] != "" {
					testenv.Must(fmt.Sscan(by[2], &g.Parent))
				}
				continue
			}
			f := Frame{Func: arguments.ReplaceAllString(lines[i-1], ""), File: at[1]}
			testenv.Must(fmt.Sscan(at[2], &f.Line))
			g.Frames = append(g.Frames, f)
		}
		out[g.ID] = g
	}
	return out
}

// shownFrames returns those that runtime.Stack prints.
func shownFrames(frames []Frame) (out []Frame) {
	for _, f := range frames {
		name, ok := strings.CutPrefix(f.Func, "runtime.")
		if last := name[strings.LastIndexByte(name, '.')+1:]; ok && !(last[0] >= 'A' && last[0] <= 'Z') && name != "gopanic" {
			continue
		}
		if f.Func == "runtime.gopanic" {
			f.Func = "panic"
		}
		out = append(out, f)
	}
	return out
}

// moves reports whether a goroutine is one that does not stay where it is.
func moves(g instant.Goroutine) bool {
	return slices.ContainsFunc(g.Frames, func(f Frame) bool { return f.Func == "main.move" })
}

// compare compares what is read of a target with what it says itself, of the goroutines that do the same before and after.
func compare(t *testing.T, x *target) {
	t.Helper()
	compareBy(t, testenv.Must(Open(t.Context(), x.pid)), x)
}

func compareBy(t *testing.T, p *Process, x *target) {
	t.Helper()
	before := x.stack(t)
	list, _ := testenv.Must2(p.Goroutines())
	compareTo(t, list, before, x.stack(t))
	testenv.FailIf(t, p.procs() == 0, "GOMAXPROCS is not known")
}

func compareTo(t *testing.T, list []instant.Goroutine, before, after map[uint64]instant.Goroutine) {
	t.Helper()
	same := 0
	for _, g := range list {
		want, ok := before[g.ID]
		if again := after[g.ID]; !ok || g.ID == 1 || moves(want) || want.State == "running" || want.State == "runnable" || !reflect.DeepEqual(want, again) {
			continue
		}
		got := instant.Goroutine{ID: g.ID, Parent: g.Parent, State: g.State, Frames: shownFrames(g.Frames), CreatedBy: g.CreatedBy, CreatedAt: g.CreatedAt}
		testenv.FailIf(t, !reflect.DeepEqual(got, want), "got  %+v\nwant %+v", got, want)
		if same++; g.Labels["tenant"] != "" {
			testenv.Same(t, "labels", fmt.Sprint(g.Labels), "map[kind:test tenant:a]")
		}
	}
	testenv.FailIf(t, same < 31, "%d of %d goroutines compared, of %d that it says", same, len(list), len(before))
}

// A program that was stripped says of itself what is read of it.
func TestGoroutines(t *testing.T) {
	for _, flags := range [][]string{{"-ldflags=-s -w"}, {"-buildmode=pie", "-ldflags=-s -w"}, {"-gcflags=-N -l"}}[:testenv.Brief(1, 3)] {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			t.Parallel()
			program := build(t, "", flags...)
			compare(t, start(t, program))
			x := start(t, program, "move", "burn")
			testenv.OK(t, os.Remove(program)) // it is read all the same
			compare(t, x)
		})
	}
}

// What a program leaves when it is killed says the same of it. The kernel makes the file.
func TestCore(t *testing.T) {
	testenv.Long(t)
	if pattern := testenv.Must(os.ReadFile("/proc/sys/kernel/core_pattern")); !strings.HasPrefix(string(pattern), "core") {
		testenv.Skip(t, "the kernel gives cores to "+string(pattern))
	}
	for _, flags := range [][]string{{"-ldflags=-s -w"}, {"-buildmode=pie", "-ldflags=-s -w"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			t.Parallel()
			program := build(t, "", flags...)
			x := start(t, program, "move", "burn")
			said := x.stack(t)
			testenv.OK(t, unix.Prlimit(x.pid, unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1 << 30, Max: 1 << 30}, nil))
			testenv.OK(t, unix.Kill(x.pid, unix.SIGABRT))
			_ = x.wait()
			path := testenv.Must(filepath.Glob(filepath.Join(filepath.Dir(program), "core*")))[0]
			for _, exe := range []string{"", program} {
				p := testenv.Must(OpenCore(path, exe))
				list, moved := testenv.Must2(p.Goroutines())
				testenv.Same(t, "process", p.PID, x.pid)
				compareInstant(t, p, list)
				compareTo(t, list, said, said)
				if i := slices.IndexFunc(list, func(g instant.Goroutine) bool {
					return slices.ContainsFunc(g.Frames, func(f Frame) bool { return f.Func == "main.burn" })
				}); i < 0 || moved > 0 {
					t.Errorf("no goroutine in burn, %d moved", moved)
				}
			}
			other := filepath.Join(t.TempDir(), "other")
			testenv.OK(t, os.WriteFile(other, testenv.Must(os.ReadFile(os.Args[0])), 0o600))
			testenv.Fails(t, "another executable", testenv.Err(OpenCore(path, other)), "another build")
			for _, fd := range testenv.Must(os.ReadDir("/proc/self/fd")) {
				open, _ := os.Readlink("/proc/self/fd/" + fd.Name()) // tests beside this one close theirs
				testenv.FailIf(t, open == other, "the other executable stays open")
			}
			testenv.Fails(t, "no core", testenv.Err(OpenCore(program, "")), "no core file")
		})
	}
}

// compareInstant compares the profile of a core with its goroutines.
func compareInstant(t *testing.T, p *Process, list []instant.Goroutine) {
	path := filepath.Join(t.TempDir(), "x.tach")
	testenv.OK(t, p.Instant(path, time.UnixMicro(1)))
	f := testenv.Closes(t, testenv.Must(reader.Open(path)))
	states := map[uint64]string{}
	for _, g := range list {
		states[g.ID] = g.State
	}
	src := samples(f)
	for s := range testenv.All(t, src.Samples()) {
		state := src.State(s.Status, s.Stack)
		testenv.FailIf(t, state != states[s.Goroutine] || s.Wall != time.Microsecond, "goroutine %d: %s for %v, want %s", s.Goroutine, state, s.Wall, states[s.Goroutine])
		delete(states, s.Goroutine)
	}
	testenv.FailIf(t, len(states) > 0, "no sample of %v", states)
}

// Functions that the compiler made are known in programs of each version.
func TestWrappers(t *testing.T) {
	for _, layouts := range []map[string]*goruntime.Layout{older, goruntime.Layouts} {
		for version := range layouts {
			_, minor, err := layoutOf(version)
			testenv.FailIf(t, err != nil || minor >= len(wrappers) || wrappers[minor] == 0, "%s: %v", version, err)
		}
	}
}

// What cannot be read is refused with a reason.
func TestRefused(t *testing.T) {
	testenv.Fails(t, "no process", testenv.Err(Open(t.Context(), 1<<30)), "there is no process 1073741824")
	testenv.Fails(t, "C", testenv.Err(Open(t.Context(), launch(t, nil, "sleep", "60").pid)), "(sleep): not a Go program") // the kernel maps a program after Start has returned
	for v, known := range map[string]bool{
		"go1.18": false, "devel go1.28-abc": false, "go1.28": false, "go2.1": false, "": false, "go1.27-devel_abc": false, "go1.19.8": true, "go1.27rc1": true, "go1.26.1-fork X:something": true,
	} {
		_, _, err := layoutOf(v)
		testenv.Same(t, v+" is known", err == nil, known)
	}
}
