//go:build linux && (amd64 || arm64)

package native

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// children are functions that run in a new process of this test binary.
var children = map[string]func(){}

// child runs one of the children and returns its output.
func child(t *testing.T, name string, env ...string) (string, error) {
	t.Helper()
	args := []string{os.Args[0]}
	if emulator := os.Getenv("GOTACH_EMULATOR"); emulator != "" {
		args = append([]string{emulator}, args...)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), append(env, "GOTACH_NATIVE_CHILD="+name)...)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}
