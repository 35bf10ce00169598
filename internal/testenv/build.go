package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Programs that tests build have no DWARF if the test sets no -ldflags: linking takes six tenths of the time.
func init() { os.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -ldflags=-w") }

// BuildGotach builds the command into dir and returns its path.
func BuildGotach(dir string) (string, error) {
	path := filepath.Join(dir, "gotach")
	out, err := exec.Command("go", "build", "-o", path, "github.com/gotach/profiler/cmd/gotach").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
}
