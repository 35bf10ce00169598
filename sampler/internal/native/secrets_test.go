//go:build peers && go1.26 && linux && (amd64 || arm64)

package native

import "testing"

// TestPeerSecrets samples a program that works in secret.Do. After that, its memory must have none of the data that
// it used there.
func TestPeerSecrets(t *testing.T) {
	bin := build(t, "secretprog", "GOEXPERIMENT=runtimesecret")
	for _, mode := range []string{"plain", "sampled"} {
		t.Run(mode, func(t *testing.T) { run(t, nil, bin, mode) })
	}
	// Without the runtime's own signals only the profiler's can make the runtime erase signal stacks.
	t.Run("no preemption", func(t *testing.T) { run(t, []string{"GODEBUG=asyncpreemptoff=1"}, bin, "sampled") })
}
