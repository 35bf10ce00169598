//go:build (amd64 || arm64) && peers

package e2e

import "testing"

// The kernel may put a program at any address. The names of its variables are right all the same.
func TestPeerObjectNames(t *testing.T) {
	objectNames(t, buildProgram(t, "objects", "-buildmode=pie"), false, "")
}
