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
	return execute(nil, append(env, "GOTACH_NATIVE_CHILD="+name))
}

// alone reports whether the test is in a process of its own. If not, it runs the test in one.
func alone(t *testing.T) bool {
	t.Helper()
	const variable = "GOTACH_NATIVE_ALONE"
	if os.Getenv(variable) != "" {
		return true
	}
	out, err := execute([]string{"-test.run=^" + t.Name() + "$", "-test.v"}, []string{variable + "=1"})
	if t.Log(out); err != nil {
		t.Error(err)
	}
	return false
}

func execute(args, env []string) (string, error) {
	args = append([]string{os.Args[0]}, args...)
	if emulator := os.Getenv("GOTACH_EMULATOR"); emulator != "" {
		args = append([]string{emulator}, args...)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}
