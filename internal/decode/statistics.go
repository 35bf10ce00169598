package decode

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/gotach/profiler/tachyon"
)

// The statistics block is directly before the footer:
//
//	 0 f64 duration, rate, error rate, missed
//	32 u32 presence: bit 0 the error rate, bit 1 missed
//	36     4 zero bytes
//	40     "TACHSTAT"
//	48 u32 version = 1
//	52 u32 size of the block
//
// An older form has the duration, the rate and then "TACHSTAT".
const (
	statsMagic   = "TACHSTAT"
	statsTrailer = 16 // bytes from the magic to the end
	statsOld     = 32
	statsSize    = 56
)

// EncodeStatistics returns the block, or nil for nil. It returns an error for numbers that
// are not finite, since CPython's reader refuses them.
func EncodeStatistics(s *tachyon.Statistics) ([]byte, error) {
	if s == nil {
		return nil, nil
	}
	values, present := [4]float64{s.Duration, s.Rate}, uint32(0)
	for i, v := range []*float64{s.ErrorRate, s.Missed} {
		if v != nil {
			values[2+i] = *v
			present |= 1 << i
		}
	}
	b := make([]byte, statsSize)
	le := binary.LittleEndian
	for i, v := range values {
		if !finite(v) {
			return nil, fmt.Errorf("the statistics hold %v", v)
		}
		le.PutUint64(b[8*i:], math.Float64bits(v))
	}
	le.PutUint32(b[32:], present)
	copy(b[40:], statsMagic)
	le.PutUint32(b[48:], 1)
	le.PutUint32(b[52:], statsSize)
	return b, nil
}
