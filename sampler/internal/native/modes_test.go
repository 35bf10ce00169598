//go:build linux && (amd64 || arm64)

package native

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/source"
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
	if text, ok := output(t, env, bin, args...); !ok {
		t.Error(text)
	}
}

// TestPrograms runs the modes of testdata/prog, without symbols. The mode "plain" and other ways to build it are in
// TestPeerBuilds.
func TestPrograms(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	bin := build(t, "prog", "-ldflags=-s -w")
	for dir := filepath.Dir(bin); dir != filepath.Clean(os.TempDir()); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil { // "max processes" becomes another user
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ mode, debug string }{
		// Behaviour that could conflict with the source.
		{"locked", ""}, {"maxprocs", ""}, {"setuid", ""}, {"thread", ""}, {"notify", "asyncpreemptoff=1"}, {"signals", ""}, {"blocked", ""},
		{"preempt", ""}, {"exec", ""}, {"profilers", ""}, {"leaks", ""},
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
	run(t, nil, build(t, "busy"), "8", "0", t.TempDir())
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
			if got, err := goruntime.LayoutOf(version); got != goruntime.Layouts[want] || (err == nil) != (want != "") {
				t.Errorf("%q has not the layout of %q: %v", version, want, err)
			}
		}
	}
}

// TestForeign samples goroutines whose stacks cannot be read, or not all of them: see testdata/foreign.
func TestForeign(t *testing.T) {
	testenv.Long(t)
	run(t, nil, build(t, "foreign"))
}
