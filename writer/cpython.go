package writer

import "fmt"

// configWall is the config word of a wall-clock profile whose features are unknown.
const configWall = 1

// CPythonInfo has the fields of the CPython315 layout that the document's layout lacks.
type CPythonInfo struct {
	Version [3]uint8 // version of the profiled Python; zero for a Go program
	Config  uint32   // mode and features, as in tachyon.Header
	Stats   []byte   // the statistics block; nil: none
}

// check returns an error for a config that CPython's reader refuses. It does not check the
// statistics.
func (c *CPythonInfo) check() error {
	if mode := c.Config & 7; mode > 5 {
		return fmt.Errorf("tachyon writer: unknown CPython profiling mode %d, must be 0 to 5", mode)
	}
	return nil
}
