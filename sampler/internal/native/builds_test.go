//go:build peers && linux && (amd64 || arm64)

package native

import (
	"os/exec"
	"slices"
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
		{"msan", "plain", []string{"-msan", "CC=clang"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if slices.Contains(c.flags, "-msan") {
				testenv.Night(t, "clang is large, and builds the standard library for long")
				testenv.Command(t, "clang", "apt-get install clang")
			}
			run(t, nil, build(t, "prog", c.flags...), c.mode)
		})
	}
	// With atomic counters and without optimization, the handler is over the linker's bound: such a program has to leave the
	// native source out. -race doubles the bound.
	t.Run("no optimisation, cover atomic, portable", func(t *testing.T) {
		program := "github.com/gotach/profiler/bench/harmless/testdata/cases"
		out, err := exec.Command("go", "build", "-o", t.TempDir(), "-tags=gotach_portable", "-cover", "-covermode=atomic", "-coverpkg=github.com/gotach/profiler/...", unoptimised, program).CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	for name, flags := range map[string][]string{
		"no optimisation": {unoptimised},
		"cover atomic":    {"-cover", "-covermode=atomic", "-coverpkg=./..."},
	} {
		t.Run(name+", arm64", func(t *testing.T) { build(t, "prog", append(flags, "GOARCH=arm64", "CGO_ENABLED=0")...) })
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
	if out, err := exec.Command(compiler, append(args, "-lpthread", "-ldl")...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", compiler, err, out)
	}
	return bin
}
