//go:build linux && (amd64 || arm64)

package native

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
)

// runs returns how often survives runs a program.
func runs(few int) int {
	switch {
	case os.Getenv("GOTACH_NIGHT") != "":
		return 100
	case testing.Short():
		return few/3 + 1
	}
	return few
}

// cc builds a C program of testdata/c.
func cc(t *testing.T, prog string, args ...string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), prog)
	args = append([]string{"-O2", "-Wall", "-Werror", "-o", bin, "testdata/c/" + prog + ".c"}, args...)
	if out, err := exec.Command("cc", append(args, "-lpthread", "-ldl")...).CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	return bin
}

// survives runs a program several times. Each time it must print ok at its end. survives returns the
// outputs and how often each came.
func survives(t *testing.T, times int, bin string, args ...string) (said map[string]int) {
	t.Helper()
	good, bad := 0, ""
	said = make(map[string]int)
	for range times {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // it must not hang
		out, err := exec.CommandContext(ctx, bin, args...).CombinedOutput()
		cancel()
		text := strings.TrimSpace(string(out))
		if err == nil && strings.HasSuffix(text, "ok") {
			good++
			_, line, _ := strings.Cut("\n"+text, "\nnative ")
			line, _, _ = strings.Cut(line, ",")
			said["native "+line]++
			continue
		}
		bad = text
		if len(bad) > 1000 {
			bad = bad[:1000]
		}
		if err != nil {
			bad = err.Error() + "\n" + bad
		}
	}
	t.Logf("%d of %d runs: %v", good, times, said)
	if good != times {
		t.Errorf("%d of %d runs, the last that failed:\n%s", good, times, bad)
	}
	return said
}

// sampled checks that at least one run of a mode of chain had a native session. On a busy machine
// Start may fall back in some runs.
func sampled(t *testing.T, mode string, said map[string]int) {
	t.Helper()
	if (strings.HasSuffix(mode, "during") || strings.HasSuffix(mode, "after")) && said["native 1"] == 0 {
		t.Error("no session was native")
	}
}

// TestChainedHandler has a C library that replaces the handler of SIGURG by its own, which calls the
// old handler as a C function.
func TestChainedHandler(t *testing.T) {
	t.Parallel()
	bin := cc(t, "chain", build(t, "clib", "-buildmode=c-archive"))
	for _, mode := range []string{"none", "before", "during", "after", "reporter before", "reporter during"} {
		t.Run(mode, func(t *testing.T) { sampled(t, mode, survives(t, runs(10), bin, strings.Fields(mode)...)) })
	}
}

// TestChainedHandlerArm64 is TestChainedHandler for the registers of arm64, under an emulator.
func TestChainedHandlerArm64(t *testing.T) {
	const install = "apt-get install gcc-aarch64-linux-gnu qemu-user-static"
	gcc := testenv.Command(t, "aarch64-linux-gnu-gcc", install)
	qemu := testenv.Command(t, "qemu-aarch64-static", install)
	t.Parallel()
	bin := filepath.Join(t.TempDir(), "chain")
	lib := buildIn(t, []string{"GOARCH=arm64", "CGO_ENABLED=1", "CC=" + gcc}, "clib", "-buildmode=c-archive")
	if out, err := exec.Command(gcc, "-static", "-O2", "-o", bin, "testdata/c/chain.c", lib, "-lpthread").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, mode := range []string{"during", "after"} {
		t.Run(mode, func(t *testing.T) {
			sampled(t, mode, survives(t, runs(5), qemu, append([]string{"-E", "GOTACH_PLAIN_READS=1", bin}, strings.Fields(mode)...)...))
		})
	}
}

// TestTwoLibraries runs two Go runtimes in one process, each with a profiler.
func TestTwoLibraries(t *testing.T) {
	t.Parallel()
	lib := build(t, "clib", "-buildmode=c-shared")
	other := filepath.Join(t.TempDir(), "other")
	// The second library must be another file: dlopen loads the same inode only once.
	b, err := os.ReadFile(lib)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other, b, 0o700); err != nil {
		t.Fatal(err)
	}
	bin := cc(t, "two")
	for _, mode := range []string{"none", "first", "second", "both", "late", "nested", "crossed"} {
		t.Run(mode, func(t *testing.T) { survives(t, runs(10), bin, lib, other, mode) })
	}
}
