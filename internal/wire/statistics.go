package wire

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

// DecodeStatistics decodes the block at the end of b. It returns the block's size in bytes,
// which is 0 if there is no block. With an error, before is the distance in bytes of the
// error from the end of b.
func DecodeStatistics(b []byte, o binary.ByteOrder) (s *tachyon.Statistics, size, before int, err error) {
	if len(b) < statsOld || string(b[len(b)-statsTrailer:][:len(statsMagic)]) != statsMagic {
		return nil, 0, 0, nil
	}
	version, n := o.Uint32(b[len(b)-8:]), o.Uint32(b[len(b)-4:])
	if n < statsOld || uint64(n) > uint64(len(b)) {
		return nil, 0, 4, fmt.Errorf("%d bytes of statistics", n)
	}
	if version != 1 {
		return nil, 0, 0, nil // CPython ignores it too
	}
	size = int(n)
	block := b[len(b)-size:]
	known, present := 2, uint32(0)
	if size >= statsSize {
		known, present = 4, o.Uint32(block[32:])
	}
	var values [4]float64
	for i := range known {
		values[i] = math.Float64frombits(o.Uint64(block[8*i:]))
		if !finite(values[i]) {
			return nil, 0, size - 8*i, fmt.Errorf("the statistics hold %v", values[i])
		}
	}
	s = &tachyon.Statistics{Duration: values[0], Rate: values[1]}
	if present&1 != 0 {
		s.ErrorRate = &values[2]
	}
	if present&2 != 0 {
		s.Missed = &values[3]
	}
	return s, size, 0, nil
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
