package testenv

import (
	"fmt"
	"os/exec"
	"path/filepath"
)

// BuildGotach builds the command into dir and returns its path.
func BuildGotach(dir string) (string, error) {
	path := filepath.Join(dir, "gotach")
	out, err := exec.Command("go", "build", "-o", path, "github.com/gotach/profiler/cmd/gotach").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
}
