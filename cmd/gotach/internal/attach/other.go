//go:build !linux || !(amd64 || arm64)

package attach

import (
	"context"
	"errors"
	"time"

	"github.com/gotach/profiler/internal/analyze/instant"
)

// A Process is one that runs a Go program. On this system there is none.
type Process struct {
	PID          int
	Name, Second string
	Pauses       bool
}

// Open returns an error.
func Open(context.Context, int) (*Process, error) {
	return nil, errors.New("other processes can be read on Linux only, on amd64 and arm64")
}

// OpenCore returns an error.
func OpenCore(string, string) (*Process, error) { return Open(context.Background(), 0) }

// Instant is never called.
func (*Process) Instant(string, time.Time) error { return nil }

// Goroutines is never called.
func (*Process) Goroutines() ([]instant.Goroutine, int, error) { return nil, 0, nil }

// Record is never called.
func (*Process) Record(context.Context, string, Options) (*Recording, error) { return nil, nil }
