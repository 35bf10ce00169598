// Package gotest runs go test so that all test binaries are profiled, and makes one profile of all.
//
// Nothing is written into the module under test, and it need not require gotach. The go command
// gets an overlay: each package under test gets a test file more, which begins the profile, and
// ends it in a TestMain if the package has none. The profile of a package with a TestMain stays
// unfinished; it is read with its journal. The file imports the profiler. That is a copy of its
// source, with the packages that it needs, in one module of its own that requires no other: so the
// versions of the modules under test stay the same. A copy of go.mod (-modfile) or of go.work names
// it.
//
// Each process writes a file into a temporary directory, and beside it which package it tests. A
// goroutine gets the labels "package" and "test": a test's own goroutine by its stack, and those
// that descend from it by go statements. The tests see no other environment.
package gotest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/gotest/hook"
)

// Options say what to run.
type Options struct {
	Args   []string // of go test
	Output string   // the profile

	Stdin          io.Reader
	Stdout, Stderr io.Writer // of go test
}

// A Result is what was run.
type Result struct {
	Code     int      // the exit code of go test
	Packages int      // with a profile
	Tests    int      // that have samples, with benchmarks, fuzz targets and examples
	Without  []string // packages with tests that are in no profile, each with the reason
}

// A UsageError says that the arguments are wrong.
type UsageError struct{ error }

// Run runs go test and writes the profile. go test's output is passed on as it is. An error means
// that go test was not run, or that there is no profile of it; in the second case Result.Code is go
// test's exit code.
func Run(ctx context.Context, o Options) (*Result, error) {
	line, err := parse(o.Args)
	if err != nil {
		return nil, UsageError{err}
	}
	work, err := os.MkdirTemp("", "gotach-test-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	r := &run{ctx: ctx, o: o, line: line, work: work}
	if err := r.prepare(); err != nil {
		return nil, err
	}
	if r.refused {
		return r.plain()
	}
	code, err := r.test()
	if err != nil {
		return nil, err
	}
	res := &Result{Code: code}
	return res, r.merge(res)
}

// A run is one call of Run.
type run struct {
	ctx  context.Context
	o    Options
	line *commandLine
	work string // temporary directory

	env      []string // variables for the go command, beside those of this process
	restore  []string // see hook.Restore
	dir      string   // where go test runs
	goenv    goEnv
	modFlags []string
	packages []*listedPackage
	overlay  string
	without  []string
	refused  bool // the go command refuses these arguments, or the module
}

// goEnv is what go env says.
type goEnv struct{ GOMODCACHE, GOCACHE, GOFLAGS, GOMOD, GOWORK, GOOS, GOARCH string }

// A listedPackage is a package under test.
type listedPackage struct {
	ImportPath, Dir, Name     string
	Standard                  bool
	TestGoFiles, XTestGoFiles []string
}

// plain runs go test as it is, for its error message.
func (r *run) plain() (*Result, error) {
	cmd := exec.Command("go", append([]string{"test"}, r.o.Args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r.o.Stdin, r.o.Stdout, r.o.Stderr
	code, err := r.execute(cmd)
	return &Result{Code: code}, err
}

// prepare makes all that go test needs.
func (r *run) prepare() (err error) {
	if r.dir, err = filepath.Abs(r.line.dir); err != nil {
		return err
	}
	if err := r.goJSON(&r.goenv, "env", "-json", "GOMODCACHE", "GOCACHE", "GOFLAGS", "GOMOD", "GOWORK", "GOOS", "GOARCH"); err != nil {
		return err
	}
	if err := r.list(); err != nil || r.refused {
		return err
	}
	source, err := copySource(r.ctx, filepath.Join(r.goenv.GOCACHE, "gotach"), r.goenv.GOOS, r.goenv.GOARCH)
	if err != nil {
		return err
	}
	if err := r.requirement(source); err != nil {
		return err
	}
	return r.replace()
}

// list finds the packages under test.
func (r *run) list() error {
	args := append([]string{"list", "-e", "-json=ImportPath,Dir,Name,Standard,TestGoFiles,XTestGoFiles"}, r.userFlags()...)
	out, err := r.gocmd(append(args, r.line.packages...)...)
	if err != nil {
		r.refused = true
		return context.Cause(r.ctx)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		p := &listedPackage{}
		if err := d.Decode(p); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 || p.Name == "" {
			continue
		}
		switch {
		case p.Standard:
			r.without = append(r.without, p.ImportPath+": it is of the standard library")
		case below(r.goenv.GOMODCACHE, p.Dir):
			r.without = append(r.without, p.ImportPath+": it is in the module cache")
		default:
			r.packages = append(r.packages, p)
		}
	}
}

// replace writes the overlay.
func (r *run) replace() error {
	o := &overlay{dir: filepath.Join(r.work, "overlay"), replace: map[string]string{}}
	if err := os.Mkdir(o.dir, 0o755); err != nil {
		return err
	}
	theirs := r.line.overlay
	for f := range strings.FieldsSeq(r.goenv.GOFLAGS) {
		if value, ok := strings.CutPrefix(strings.TrimLeft(f, "-"), "overlay="); ok && theirs == "" {
			theirs = value
		}
	}
	if theirs != "" {
		if err := o.merge(theirs, r.dir); err != nil {
			return err
		}
	}
	for _, p := range r.packages {
		if err := o.addTo(p); err != nil {
			return err
		}
	}
	var err error
	r.overlay, err = o.write()
	return err
}

// test runs go test and returns its exit code.
func (r *run) test() (int, error) {
	files := filepath.Join(r.work, "files")
	if err := os.Mkdir(files, 0o777); err != nil {
		return 0, err
	}
	args := []string{"test"}
	rest := r.line.args
	if r.line.dir != "" { // -C must come first
		n := 1
		if !strings.Contains(rest[0], "=") {
			n = 2
		}
		args, rest = append(args, rest[:n]...), rest[n:]
	}
	args = append(args, "-overlay="+r.overlay)
	args = append(args, r.modFlags...)
	if !r.line.counted {
		args = append(args, "-count=1")
	}
	cmd := exec.Command("go", append(args, rest...)...)
	cmd.Env = append(append(os.Environ(), r.env...), hook.Dir+"="+files)
	if len(r.restore) > 0 {
		cmd.Env = append(cmd.Env, hook.Restore+"="+strings.Join(r.restore, hook.Separator))
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r.o.Stdin, r.o.Stdout, r.o.Stderr
	return r.execute(cmd)
}

// execute runs go test and returns its exit code.
func (r *run) execute(cmd *exec.Cmd) (int, error) {
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	// A terminal has sent its interrupt to go test and its tests too. Other senders have not, and
	// go test does not pass it on: it waits for the tests.
	ended := make(chan struct{})
	stop := context.AfterFunc(r.ctx, func() {
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case <-ended:
		case <-time.After(interruptTests):
			for _, pid := range Children(cmd.Process.Pid) {
				if test, err := os.FindProcess(pid); err == nil {
					_ = test.Signal(os.Interrupt)
				}
			}
		}
	})
	defer stop()
	err := cmd.Wait()
	close(ended)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return max(1, exit.ExitCode()), nil // -1: a signal
	}
	return 0, err
}

// interruptTests is the time after which an interrupt is passed on to the tests.
const interruptTests = time.Second

// Children returns the processes that a process has started, on Linux.
func Children(pid int) (list []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is right
	for _, file := range files {
		text, _ := os.ReadFile(file) // the thread may have ended
		for field := range strings.FieldsSeq(string(text)) {
			if id, err := strconv.Atoi(field); err == nil {
				list = append(list, id)
			}
		}
	}
	return list
}

// userFlags returns the user's flags for go list.
func (r *run) userFlags() (flags []string) {
	if r.line.modfile != "" {
		flags = append(flags, "-modfile="+r.line.modfile)
	}
	if r.line.mod != "" {
		flags = append(flags, "-mod="+r.line.mod)
	}
	if r.line.overlay != "" {
		flags = append(flags, "-overlay="+r.line.overlay)
	}
	return append(flags, r.line.build...)
}

// setenv sets a variable for the go command. The tests see what it was.
func (r *run) setenv(name, value string) {
	r.env = append(r.env, name+"="+value)
	if old, ok := os.LookupEnv(name); ok {
		name += "=" + old
	}
	r.restore = append(r.restore, name)
}

// gocmd runs the go command where go test will run, and returns its output.
func (r *run) gocmd(args ...string) ([]byte, error) { return r.gocmdEnv(nil, args...) }

func (r *run) gocmdEnv(env []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(r.ctx, "go", args...)
	cmd.Dir = r.dir
	cmd.Env = append(append(append(os.Environ(), "PWD="+r.dir), r.env...), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.Bytes(), nil
}

// below reports whether a path is in a directory.
func below(dir, path string) bool {
	return dir != "" && strings.HasPrefix(path, dir+string(filepath.Separator))
}
