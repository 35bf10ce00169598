package writer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// configWall is the config word of a wall-clock profile that says nothing of features.
const configWall = 1

// CPythonInfo is what the CPython315 layout tells of a profile beyond the
// document. Other layouts have no place for it.
type CPythonInfo struct {
	Version [3]uint8      // of the Python profiled; zero for a Go program
	Config  uint32        // mode and features, as in tachyon.Header
	Stats   *CPythonStats // nil: none
}

// CPythonStats is how a profile went, as CPython's profiler counts it.
type CPythonStats struct {
	Duration  float64  // seconds
	Rate      float64  // samples a second
	ErrorRate *float64 // percent of samples that failed; nil is unknown
	Missed    *float64 // percent of samples missed; nil is unknown
}

// check refuses what CPython's reader refuses.
func (c *CPythonInfo) check() error {
	if mode := c.Config & 7; mode > 5 {
		return fmt.Errorf("tachyon writer: CPython knows no profiling mode %d", mode)
	}
	if c.Stats == nil {
		return nil
	}
	d, _ := c.Stats.values()
	for _, v := range d {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return errors.New("tachyon writer: CPython's statistics must be finite numbers")
		}
	}
	return nil
}

// values returns the numbers and which of the last two are there, as bits.
func (s *CPythonStats) values() (d [4]float64, present uint32) {
	d[0], d[1] = s.Duration, s.Rate
	if s.ErrorRate != nil {
		d[2], present = *s.ErrorRate, present|1
	}
	if s.Missed != nil {
		d[3], present = *s.Missed, present|2
	}
	return d, present
}

const statsSize = 56

// encode returns the statistics block:
//
//	 0 f64 duration, rate, error rate, missed
//	32 u32 presence: bit 0 the error rate, bit 1 missed
//	36     4 zero bytes
//	40     "TACHSTAT"
//	48 u32 version = 1
//	52 u32 size of the block
func (s *CPythonStats) encode() (b [statsSize]byte) {
	le := binary.LittleEndian
	d, present := s.values()
	for i, v := range d {
		le.PutUint64(b[8*i:], math.Float64bits(v))
	}
	le.PutUint32(b[32:], present)
	copy(b[40:], "TACHSTAT")
	le.PutUint32(b[48:], 1)
	le.PutUint32(b[52:], statsSize)
	return b
}
