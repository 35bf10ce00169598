//go:build linux && (amd64 || arm64)

package native

import (
	"runtime"
	"strings"
	"testing"
)

// TestLosses has the kernel or the program take from a session, in its course, what it needs. It ends and says why,
// or takes it back and counts that.
func TestLosses(t *testing.T) {
	bin := build(t, "prog")
	for _, mode := range []string{"late seccomp rt_tgsigqueueinfo", "late seccomp process_vm_readv", "late handler", "late default", "late ignore"} {
		t.Run(mode, func(t *testing.T) { run(t, bin, mode) })
	}
}

// TestSecrets has a program work in secret.Do while it is sampled. Of what it worked with there, nothing is
// anywhere in memory afterwards.
func TestSecrets(t *testing.T) {
	if version := strings.Split(runtime.Version(), "."); version[1] == "25" {
		return // before runtime/secret
	}
	t.Setenv("GOEXPERIMENT", "runtimesecret")
	bin := build(t, "secretprog")
	for _, mode := range []string{"plain", "sampled"} {
		t.Run(mode, func(t *testing.T) { run(t, bin, mode) })
	}
}

// TestPlugin samples the code of a plugin that is loaded before the session, and of one that comes in its course.
func TestPlugin(t *testing.T) {
	// The plugin's packages have to be built like the program's.
	lib, bin := build(t, "plugin", "-buildmode=plugin"), build(t, "pluginprog")
	for _, when := range []string{"early", "late"} {
		t.Run(when, func(t *testing.T) { run(t, bin, lib, when) })
	}
}
