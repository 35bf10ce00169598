//go:build peers && linux && (amd64 || arm64)

package native

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// survives runs a program several times, a hundred times at night. Each time it must print ok at its end. If sampled,
// at least one run must say that its session was native: on a busy machine Start may fall back in some.
func survives(t *testing.T, sampled bool, few int, bin string, args ...string) {
	t.Helper()
	natives := 0
	for range testenv.Times(few, 100) {
		text, ok := output(t, nil, bin, args...)
		if !ok {
			t.Error(text)
		}
		if strings.Contains("\n"+text, "\nnative 1") {
			natives++
		}
	}
	if sampled && natives == 0 {
		t.Error("no session was native")
	}
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
		t.Run(mode, func(t *testing.T) { survives(t, true, 5, qemu, "-E", "GOTACH_PLAIN_READS=1", bin, mode) })
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
