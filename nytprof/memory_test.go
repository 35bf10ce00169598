package nytprof

import (
	"io"
	"runtime"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// block encodes n chunks in the mix of a real file: time lines, some discounts
// and returns.
func block(n int) []byte {
	var b []byte
	for i := 0; i < n; i++ {
		switch i % 10 {
		case 4:
			b = (&Discount{}).encode(b)
		case 7:
			b = (&SubReturn{Depth: uint32(i%9 + 1), Incl: float64(i), Excl: 7, Sub: String{Text: "main::work"}}).encode(b)
		default:
			b = (&TimeLine{Ticks: int32(i * 37 % 5000), FID: uint32(i%3 + 1), Line: uint32(i % 700)}).encode(b)
		}
	}
	return b
}

// synthetic is a file of blocks that is nowhere as a whole.
type synthetic struct {
	block, rest []byte
	blocks      int
}

func newSynthetic(block []byte, blocks int) *synthetic {
	return &synthetic{block: block, rest: []byte("NYTProf 5 0\n:ticks_per_sec=10000000\n"), blocks: blocks}
}

func (s *synthetic) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		if s.blocks == 0 {
			return 0, io.EOF
		}
		s.blocks--
		s.rest = s.block
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// A file of millions of events is read in constant memory.
func TestConstantMemory(t *testing.T) {
	const perBlock = 100_000
	blocks := testenv.Times(20, 1000)
	r := NewReader(newSynthetic(block(perBlock), blocks))
	var before, after runtime.MemStats
	n := 0
	for _, err := range r.Chunks() {
		testenv.OK(t, err)
		if n++; n == perBlock {
			runtime.ReadMemStats(&before)
		}
	}
	runtime.ReadMemStats(&after)
	if n != 2+perBlock*blocks {
		t.Errorf("%d chunks", n)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
		t.Errorf("%d chunks more allocated %d bytes", n-perBlock, grown)
	}
}
