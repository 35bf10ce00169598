// Package e2e tests gotach as its users use it: with programs in other modules that one line profiles.
// The command gotach and tools of other projects read the profiles.
package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// root returns the root directory of the repository.
func root(t *testing.T) string {
	os.Getenv("GOTACH_RUN") // so that Go's cache has this result for the same run of .ci/run only
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// run runs a command in dir and returns what it printed to stdout.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	testenv.StopIf(t, err != nil, "%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, stderr.String())
	return string(out)
}

// programs are functions that the test binary runs instead of the tests. The key is the environment
// variable that selects the program.
var programs = map[string]func(){}

func TestMain(m *testing.M) {
	for variable, run := range programs {
		if os.Getenv(variable) != "" {
			run()
			return
		}
	}
	m.Run()
}

// moduleEnv makes the go command complete go.mod without the network.
var moduleEnv = []string{"GOWORK=off", "GOFLAGS=-mod=mod", "GOPROXY=off"}

// module creates a module with a program of testdata. It requires this module in its present state.
// module returns its directory.
func module(t *testing.T, name, file string) string {
	t.Helper()
	dir := t.TempDir()
	src := testenv.Must(os.ReadFile(filepath.Join("testdata", name)))
	mod := testenv.Must(os.ReadFile(filepath.Join(root(t), "go.mod")))
	// Use the requirements of this module, so that the go command needs no others.
	_, require, _ := strings.Cut(string(mod), "\nrequire")
	text := fmt.Sprintf("module example.com/program\n\ngo 1.25.0\n\nrequire github.com/gotach/profiler v0.0.0\n\nreplace github.com/gotach/profiler => %s\n\nrequire%s", root(t), require)
	sum := testenv.Must(os.ReadFile(filepath.Join(root(t), "go.sum")))
	for path, data := range map[string][]byte{file: src, "go.mod": []byte(text), "go.sum": sum} {
		testenv.OK(t, os.WriteFile(filepath.Join(dir, path), data, 0o600))
	}
	return dir
}

// ends runs a program in dir that must end within four minutes. It returns its output and exit code.
func ends(t *testing.T, dir string, env []string, bin string, args ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) {
		t.Errorf("%v %q: %v\n%s", env, args, err, out)
		return "", -1
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// again is the command of a program of this test binary. env selects it.
func again(t *testing.T, env ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), append(env, "GOCOVERDIR="+t.TempDir())...)
	return cmd
}

// buildProgram builds a program of testdata without cgo.
func buildProgram(t *testing.T, name string, flags ...string) (bin string) {
	t.Helper()
	bin = filepath.Join(t.TempDir(), name)
	testenv.OK(t, testenv.Build(bin, "./testdata/"+name, []string{"CGO_ENABLED=0"}, flags...))
	return bin
}

// metadata returns the metadata of a file with a session, and whether the file is unfinished.
func metadata(t *testing.T, path string) (m *tachyon.Metadata, unfinished bool) {
	t.Helper()
	r, err := reader.Open(path)
	if err == nil {
		defer r.Close()
		if m, err = r.Metadata(); err == nil && m.Session != nil {
			return m, r.Unfinished()
		}
	}
	t.Errorf("%s: %+v, %v", path, m, err)
	return &tachyon.Metadata{Session: &tachyon.Session{}}, false
}
