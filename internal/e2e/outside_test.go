package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A program outside this module can read a file with only the packages reader and tachyon.
func TestReadOutside(t *testing.T) {
	source := filepath.Join("..", "..", "..", "reader", "testdata", "goroutines", "main.go")
	cmd := exec.Command("go", "run", "main.go", filepath.Join(root(t), "reader", "testdata", "goroutines", "app.tach"))
	cmd.Dir = module(t, source, "main.go")
	cmd.Env = append(os.Environ(), moduleEnv...)
	out, err := cmd.CombinedOutput()
	const want = "goroutine 1: 3ms on CPU, 0s waiting, labels []\n" +
		"goroutine 7: 1ms on CPU, 5ms waiting, labels [{1000 map[endpoint:/cart]} {4000 map[endpoint:/pay]}]\n"
	if err != nil || string(out) != want {
		t.Errorf("the program prints %q, want %q (%v)", out, want, err)
	}
}
