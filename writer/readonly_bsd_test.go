//go:build darwin || dragonfly || freebsd || netbsd

package writer

import (
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

func readOnly(t *testing.T, _ string) string {
	testenv.Missing(t, "read-only tmpfs", "it is tried on Linux")
	return ""
}
