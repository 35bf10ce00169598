package writer

import (
	"testing"

	"go.uber.org/goleak"
)

// A writer leaves no goroutines, also none of zstd.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
