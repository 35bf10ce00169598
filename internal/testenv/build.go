package testenv

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// Programs that tests build have no DWARF if the test sets no -ldflags: linking takes six tenths of
// the time.
func init() { os.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -ldflags=-w") }

// built has the programs that this process has built: each once, because go takes half a second to
// find that nothing has changed.
var built sync.Map

type program struct {
	sync.Once
	file *os.File // what the first call has built. A test may have removed it since
	err  error
}

// Build builds the program or library of a package, as go build does with the same flags. Its
// environment has env too.
func Build(bin, pkg string, env []string, flags ...string) error {
	if runtime.GOOS == "windows" || slices.ContainsFunc(flags, func(f string) bool { return strings.HasPrefix(f, "-buildmode=c-") || f == "-buildmode=plugin" }) {
		return goes(env, append(append([]string{"build", "-o", bin}, flags...), pkg))
	}
	folder, _ := os.Getwd()
	p, first := &program{}, false
	if found, ok := built.LoadOrStore(fmt.Sprint(folder, pkg, env, flags, os.Environ()), p); ok {
		p = found.(*program)
	}
	p.Do(func() {
		first = true
		// Linking takes most of the time, and what go run has linked is in Go's cache. So it runs
		// cp with the program.
		if p.err = goes(env, slices.Concat([]string{"run", "-exec=cp", "-ldflags=-s=false"}, flags, []string{pkg, bin})); p.err == nil {
			p.file, p.err = os.Open(bin)
		}
	})
	if first || p.err != nil {
		return p.err
	}
	syscall.ForkLock.RLock() // a process that begins now would have the file open, and then it does not run
	defer syscall.ForkLock.RUnlock()
	to, err := os.OpenFile(bin, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, io.NewSectionReader(p.file, 0, 1<<40))
	return errors.Join(err, to.Close())
}

// Run runs a command that has to succeed, and returns what it prints.
func Run(t test, cmd *exec.Cmd) string {
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Helper()
		t.Fatal(fmt.Sprintf("%v: %v\n%s", cmd.Args, err, out))
	}
	return string(out)
}

// goes runs go.
func goes(env, args []string) error {
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
	}
	return nil
}

// BuildGotach builds the command into dir and returns its path.
func BuildGotach(dir string) (string, error) {
	path := filepath.Join(dir, "gotach")
	return path, Build(path, "github.com/gotach/profiler/cmd/gotach", nil)
}
