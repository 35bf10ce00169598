//go:build darwin || dragonfly || freebsd || netbsd

package writer

import (
	"testing"

	"github.com/gotach/profiler/internal/peers"
)

func readOnly(t *testing.T, _ string) string {
	peers.Missing(t, "read-only tmpfs", "it is tried on Linux")
	return ""
}
