//go:build linux && (amd64 || arm64)

package native

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// children are programs of their own: this test binary, started anew.
var children = map[string]func(){}

// child runs one of them and returns what it printed.
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
