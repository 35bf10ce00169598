package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Programs that tests build have no DWARF if the test sets no -ldflags: linking takes six tenths of the time.
func init() { os.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -ldflags=-w") }

// Build builds the program or library of a package, as go build does with the same flags. Its environment has env too.
func Build(bin, pkg string, env []string, flags ...string) error {
	// Linking takes most of the time, and what go run has linked is in Go's cache. So it runs cp with the program.
	args := slices.Concat([]string{"run", "-exec=cp", "-ldflags=-s=false"}, flags, []string{pkg, bin})
	if runtime.GOOS == "windows" || slices.ContainsFunc(flags, func(f string) bool { return strings.HasPrefix(f, "-buildmode=c-") || f == "-buildmode=plugin" }) {
		args = slices.Concat([]string{"build", "-o", bin}, flags, []string{pkg})
	}
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
