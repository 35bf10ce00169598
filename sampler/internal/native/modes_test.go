//go:build linux && (amd64 || arm64)

package native

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/source"
)

// build builds a program of testdata. Under an emulator it skips the test: the kernel would have to
// start a program for another processor. It also skips the test where that would only repeat it.
// Tests that want the same program share it.
func build(t *testing.T, prog string, flags ...string) string {
	t.Helper()
	return buildIn(t, nil, prog, flags...)
}

// buildIn is build with some environment variables.
func buildIn(t *testing.T, env []string, prog string, flags ...string) string {
	t.Helper()
	testenv.NotEmulated(t, "it starts a program of testdata")
	testenv.Again(t)
	key := fmt.Sprintf("%q %q %q", env, prog, flags)
	builds.Lock()
	b := builds.of[key]
	if b == nil {
		b = new(built)
		builds.of[key] = b
	}
	builds.Unlock()
	b.once.Do(func() {
		if b.dir, b.err = os.MkdirTemp("", "gotach-native-"); b.err != nil {
			return
		}
		args := append([]string{"build", "-o", filepath.Join(b.dir, prog)}, append(flags, "./testdata/"+prog)...)
		cmd := exec.Command("go", args...)
		cmd.Env = append(os.Environ(), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			b.err = fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	})
	if b.err != nil {
		t.Fatal(b.err)
	}
	return filepath.Join(b.dir, prog)
}

// built is a program that several tests use. TestMain removes it.
type built struct {
	once sync.Once
	dir  string
	err  error
}

var builds = struct {
	sync.Mutex
	of map[string]*built
}{of: map[string]*built{}}

func removeBuilds() {
	for _, b := range builds.of {
		os.RemoveAll(b.dir)
	}
}

// run runs a program that prints ok at its end.
func run(t *testing.T, bin string, args ...string) {
	t.Helper()
	runIn(t, nil, bin, args...)
}

// runIn is run with some environment variables.
func runIn(t *testing.T, env []string, bin string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // it must not hang
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil || !strings.HasSuffix(text, "ok") {
		if len(text) > 5000 {
			text = text[:5000]
		}
		t.Fatalf("%v\n%s", err, text)
	}
	t.Log(text)
}

// TestBuilds samples a program in several build modes.
func TestBuilds(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{
		"stripped":         {"-ldflags=-s -w"},
		"pie":              {"-buildmode=pie"},
		"pie stripped":     {"-buildmode=pie", "-ldflags=-s -w"},
		"race":             {"-race"},
		"cover":            {"-cover", "-coverpkg=./..."},
		"cover atomic":     {"-cover", "-covermode=atomic", "-coverpkg=./..."},
		"no optimisation":  {"-gcflags=all=-N -l"},
		"external linking": {"-ldflags=-linkmode=external"},
	} {
		t.Run(name, func(t *testing.T) { run(t, build(t, "prog", flags...), "plain") })
	}
}

// TestPrograms samples programs with behaviour that could conflict with the source.
func TestPrograms(t *testing.T) {
	t.Parallel()
	bin := build(t, "prog")
	for _, mode := range []string{"locked", "maxprocs", "setuid", "thread", "notify", "signals", "preempt", "exec", "profilers", "leaks"} {
		t.Run(mode, func(t *testing.T) { run(t, bin, mode) })
	}
}

// TestFallsBack refuses things that the native source needs.
func TestFallsBack(t *testing.T) {
	t.Parallel()
	bin := build(t, "prog")
	for _, mode := range []string{"seccomp clock_gettime", "seccomp timer_create", "seccomp timer_settime", "seccomp rt_tgsigqueueinfo", "seccomp process_vm_readv", "handler"} {
		t.Run(mode, func(t *testing.T) {
			var env []string
			if mode == "handler" {
				env = []string{"GODEBUG=asyncpreemptoff=1"} // the runtime's handler is replaced, so it must get no signals
			}
			runIn(t, env, bin, mode)
		})
	}
}

// TestFallsBackFromSettings runs the program with settings that the native source does not support.
func TestFallsBackFromSettings(t *testing.T) {
	t.Parallel()
	bin := build(t, "prog")
	for _, setting := range []string{"efence=1", "harddecommit=1", "efence=0,harddecommit=0,harddecommit=2"} {
		t.Run(setting, func(t *testing.T) {
			runIn(t, []string{"GODEBUG=" + setting}, bin, "unmaps")
		})
	}
	t.Run("race cover", func(t *testing.T) {
		run(t, build(t, "prog", "-race", "-cover", "-covermode=atomic", "-coverpkg=./..."), "race cover")
	})
}

// TestNoRoom runs programs that cannot have more threads.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	bin := build(t, "prog")
	if err := os.Chmod(filepath.Dir(bin), 0o755); err != nil {
		t.Fatal(err)
	}
	env := []string{"GOTACH_CGROUP=" + testenv.LimitTasks(t)}
	for _, mode := range []string{"max threads", "max processes", "max tasks"} {
		t.Run(mode, func(t *testing.T) { runIn(t, env, bin, mode) })
	}
}

// TestManyVariables starts a session in a program with so many variables that the search takes long.
func TestManyVariables(t *testing.T) {
	t.Parallel()
	run(t, build(t, "globals"))
}

// TestGoDebug checks that goDebug reads settings as the runtime does.
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
		if got := goDebug("efence", c.environment); got != c.want {
			t.Errorf("%q: %d, want %d", c.environment, got, c.want)
		}
	}
}

// TestUnknownVersion starts the source with unknown Go versions.
func TestUnknownVersion(t *testing.T) {
	for _, version := range []string{"go1.24.9", "go1.28.0", "devel go1.28-abcdef0 Thu Jan 1", ""} {
		s := New()
		s.version = version
		err := s.Start(source.Config{Rate: 100, Budget: 1, Start: time.Now()}, newRecorder())
		if err == nil || !strings.Contains(err.Error(), strconv.Quote(version)) {
			t.Errorf("%q: %v", version, err)
		}
	}
}

// TestLayoutOf has version strings of releases, patch releases, release candidates, vendors, experiments
// and development versions.
func TestLayoutOf(t *testing.T) {
	for version, want := range map[string]string{
		"go1.25":                        "go1.25",
		"go1.25.3":                      "go1.25",
		"go1.26":                        "go1.26",
		"go1.26.8":                      "go1.26",
		"go1.26.99":                     "go1.26",
		"go1.27.5":                      "go1.27",
		"go1.27rc1":                     "go1.27",
		"go1.27beta2":                   "go1.27",
		"go1.26-bigcorp":                "go1.26",
		"go1.26.8-bigcorp.3":            "go1.26",
		"go1.26.8+bigcorp":              "go1.26",
		"go1.26.1-bigcorp X:jsonv2":     "go1.26",
		"go1.26.8-X:jsonv2":             "go1.26",
		"go1.26.1 X:nocoverageredesign": "go1.26",
		"go1.25.3 X:boringcrypto":       "go1.25",
		"go1.26.8 (bigcorp build 7)":    "go1.26",

		"":                                  "",
		"go":                                "",
		"go1":                               "",
		"go1.":                              "",
		"go1.2":                             "",
		"go1.24.9":                          "",
		"go1.28":                            "",
		"go1.28.0":                          "",
		"go1.28rc1":                         "",
		"go1.265":                           "",
		"go2.26":                            "",
		"1.26.8":                            "",
		"gccgo1.26":                         "",
		"tinygo1.26":                        "",
		"weekly.2011-01-01":                 "",
		"devel +abcdef Thu Jan 1 00:00:00":  "",
		"devel go1.27-abcdef0 Thu Jan 1":    "",
		"devel go1.28-abcdef0 Thu Jan 1":    "",
		"go1.27-devel_abcdef0 Thu Jan 1":    "",
		"go1.28-devel_abcdef0 X:jsonv2":     "",
		"go1.26.8-devel_abcdef0 Thu Jan 1 ": "",
	} {
		got, err := layoutOf(version)
		if got != layouts[want] || (err == nil) != (want != "") {
			t.Errorf("%q has not the layout of %q: %v", version, want, err)
		}
	}
}

// TestWrongLayout makes each offset wrong. The self-check must find that, unless the field does not matter in
// this program.
func TestWrongLayout(t *testing.T) {
	others := goleak.IgnoreCurrent()
	right, err := layoutOf(New().version)
	if err != nil {
		t.Fatal(err)
	}
	wrong := map[string]func(l *layout){
		"g.goid":       func(l *layout) { l.gID += 8 },
		"g.stack":      func(l *layout) { l.gStackLo += 16; l.gStackHi += 16 },
		"g.status":     func(l *layout) { l.gStatus += 4 },
		"g.m":          func(l *layout) { l.gM -= 8 },
		"g.sched.pc":   func(l *layout) { l.gSchedPC += 8 },
		"g.sched.bp":   func(l *layout) { l.gSchedBP -= 16 },
		"g.waitreason": func(l *layout) { l.gWaitReason++ },
		"g.parentGoid": func(l *layout) { l.gParent += 8 },
		"g.gopc":       func(l *layout) { l.gGoPC += 8 },
		"g.labels":     func(l *layout) { l.gLabels += 8 },
		"m.curg":       func(l *layout) { l.mCurG += 8 },
		"m.procid":     func(l *layout) { l.mProcID += 8 },
		"m.p":          func(l *layout) { l.mP += 8 },
		"p.id":         func(l *layout) { l.pID += 24 },
		"p.status":     func(l *layout) { l.pStatus += 4 },
		"p.m":          func(l *layout) { l.pM += 8 },
		"moduledata":   func(l *layout) { l.modText += 8 },
		"func tables":  func(l *layout) { l.modFTab += 24 },
		"inlining":     func(l *layout) { l.modGoFunc -= 8 },
	}
	for name, f := range wrong {
		bad := *right
		f(&bad)
		layouts["go0.0"] = &bad
		// With Fallback the source does not try for long. Where that is too short, the check has not run.
		err := startWith("go0.0", true)
		if err != nil && strings.Contains(err.Error(), "gave up") {
			err = startWith("go0.0", false)
		}
		if err == nil {
			t.Errorf("the wrong offset of %s was not found", name)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
	delete(layouts, "go0.0")
	goleak.VerifyNone(t, others)
}

// startWith starts a source with the layout of a Go version, and stops it.
func startWith(version string, fallback bool) error {
	s := New()
	s.version = version
	err := s.Start(source.Config{Rate: 100, Budget: 1, Start: time.Now(), Fallback: fallback}, newRecorder())
	if err == nil {
		s.Stop()
	}
	return err
}

// TestTwice starts a source while another one runs.
func TestTwice(t *testing.T) {
	others := goleak.IgnoreCurrent()
	session(t, source.Config{}, func() {
		if err := New().Start(source.Config{Rate: 100, Budget: 1, Start: time.Now()}, newRecorder()); err == nil {
			t.Error("a second source could start")
		}
		time.Sleep(100 * time.Millisecond)
	})
	session(t, source.Config{}, func() { time.Sleep(100 * time.Millisecond) })
	goleak.VerifyNone(t, others)
}

// TestPanicDownstream has an Out that panics.
func TestPanicDownstream(t *testing.T) {
	others := goleak.IgnoreCurrent()
	r := newRecorder()
	r.keep = func(*taken) bool { panic("no room") }
	s := New()
	if err := s.Start(source.Config{Rate: 1000, Budget: 50, WaitFrames: true, Start: time.Now()}, r); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	s.Stop()
	if r.err == nil || !strings.Contains(r.err.Error(), "no room") {
		t.Errorf("Fail got %v", r.err)
	}
	goleak.VerifyNone(t, others)
}

// TestNoStopTheWorld checks that a session does not stop the world.
func TestNoStopTheWorld(t *testing.T) {
	defer park(1000)()
	session(t, source.Config{Rate: 1000, Budget: 20, WaitFrames: true}, func() {
		before := testenv.Pauses()
		time.Sleep(time.Second)
		if after := testenv.Pauses(); after != before {
			t.Errorf("%d pauses in a second", after-before)
		}
	})
}

// TestCgo samples a program with threads of C that call Go, some with all signals blocked.
func TestCgo(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"plain": nil, "race": {"-race"}, "pie": {"-buildmode=pie"}, "static": {"-ldflags=-extldflags=-static"}} {
		t.Run(name, func(t *testing.T) { run(t, build(t, "cgoprog", flags...)) })
	}
}
