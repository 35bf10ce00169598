//go:build linux && (amd64 || arm64)

package native

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// build builds a program of testdata.
func build(t *testing.T, prog string, flags ...string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), prog)
	args := append([]string{"build", "-o", bin}, append(flags, "./testdata/"+prog)...)
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return bin
}

// run runs a program that prints ok at its end.
func run(t *testing.T, bin string, args ...string) {
	t.Helper()
	out, err := exec.Command(bin, args...).CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil || !strings.HasSuffix(text, "ok") {
		if len(text) > 5000 {
			text = text[:5000]
		}
		t.Fatalf("%v\n%s", err, text)
	}
	t.Log(text)
}

// TestBuilds samples a program built in the ways that programs are built.
func TestBuilds(t *testing.T) {
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

// TestPrograms samples programs that do what could get in the way.
func TestPrograms(t *testing.T) {
	bin := build(t, "prog")
	for _, mode := range []string{"locked", "maxprocs", "notify", "exec", "profilers", "leaks"} {
		t.Run(mode, func(t *testing.T) { run(t, bin, mode) })
	}
}

// TestCgo samples a program with C threads that call back into Go, some with all
// signals blocked.
func TestCgo(t *testing.T) {
	for name, flags := range map[string][]string{"plain": nil, "race": {"-race"}, "pie": {"-buildmode=pie"}} {
		t.Run(name, func(t *testing.T) { run(t, build(t, "cgoprog", flags...)) })
	}
}
