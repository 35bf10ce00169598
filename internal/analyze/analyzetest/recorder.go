package analyzetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Recorder builds the program that makes the sessions. What it returns records one of them anew.
func Recorder(t *testing.T) func(name string) *Session {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "record")
	run := func(cmd *exec.Cmd) {
		t.Helper()
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
	}
	run(exec.Command("go", "build", "-trimpath", "-o", program, "../testdata/record"))
	return func(name string) *Session {
		t.Helper()
		run(exec.Command(program, "-o", dir, name))
		return OpenSession(t, dir, name)
	}
}
