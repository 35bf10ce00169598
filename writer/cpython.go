package writer

import (
	"fmt"

	"github.com/gotach/profiler/tachyon"
)

// configWall is the config word of a wall-clock profile that says nothing of features.
const configWall = 1

// CPythonInfo is what the CPython315 layout says of a profile beyond the
// document's layout, which has no place for it.
type CPythonInfo struct {
	Version [3]uint8            // of the Python profiled; zero for a Go program
	Config  uint32              // mode and features, as in tachyon.Header
	Stats   *tachyon.Statistics // nil: none
}

// check refuses what CPython's reader refuses, except statistics.
func (c *CPythonInfo) check() error {
	if mode := c.Config & 7; mode > 5 {
		return fmt.Errorf("tachyon writer: CPython knows no profiling mode %d", mode)
	}
	return nil
}
