//go:build linux && (amd64 || arm64) && !gotach_portable

package sampler

import (
	"fmt"

	"github.com/gotach/profiler/sampler/internal/native"
	"github.com/gotach/profiler/sampler/internal/source"
)

// nativeSource returns the native source.
func nativeSource() (source.Source, error) { return native.New(), nil }

// room returns an error if the program cannot have the threads that a session needs. Without this
// check the runtime would end the program.
func room() error {
	if err := native.Room(native.Threads); err != nil {
		return fmt.Errorf("sampler: no room for more threads: %w", err)
	}
	return nil
}
