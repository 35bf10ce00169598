//go:build linux && (amd64 || arm64)

package native

import (
	"runtime"
	"strings"
	"testing"
)

// TestLosses runs programs in which, during a session, the kernel refuses a system call or C code changes the
// signal's action. The session must end with the reason, or set its handler again and count that.
func TestLosses(t *testing.T) {
	t.Parallel()
	bin := build(t, "prog")
	for _, mode := range []string{"late seccomp rt_tgsigqueueinfo", "late seccomp process_vm_readv", "late handler", "late default", "late ignore"} {
		t.Run(mode, func(t *testing.T) { run(t, bin, mode) })
	}
}

// TestSecrets samples a program that works in secret.Do. After that, its memory must have none of the data that
// it used there.
func TestSecrets(t *testing.T) {
	if version := strings.Split(runtime.Version(), "."); version[1] == "25" {
		return // this version has no runtime/secret
	}
	t.Parallel()
	bin := buildIn(t, []string{"GOEXPERIMENT=runtimesecret"}, "secretprog")
	for _, mode := range []string{"plain", "sampled"} {
		t.Run(mode, func(t *testing.T) { run(t, bin, mode) })
	}
	// Without the runtime's own signals only the profiler's can make the runtime erase signal stacks.
	t.Run("no preemption", func(t *testing.T) {
		runIn(t, []string{"GODEBUG=asyncpreemptoff=1"}, bin, "sampled")
	})
}

// TestPlugin samples code of a plugin that is loaded before the session, and of one that is loaded during it.
func TestPlugin(t *testing.T) {
	t.Parallel()
	// The packages of plugin and program must be built in the same way.
	lib, bin := build(t, "plugin", "-buildmode=plugin"), build(t, "pluginprog")
	for _, when := range []string{"early", "late"} {
		t.Run(when, func(t *testing.T) { run(t, bin, lib, when) })
	}
}
