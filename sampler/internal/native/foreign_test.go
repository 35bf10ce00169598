//go:build linux && (amd64 || arm64)

package native

import "testing"

// TestForeign samples goroutines whose stacks cannot be read, or not all of them: see testdata/foreign.
func TestForeign(t *testing.T) { run(t, nil, build(t, "foreign")) }
