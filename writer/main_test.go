package writer

import (
	"testing"

	"go.uber.org/goleak"
)

// A writer has no goroutines, zstd's included.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
