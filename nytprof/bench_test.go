package nytprof

import (
	"bytes"
	"io"
	"runtime"
	"testing"
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

// A file of 100,000,000 events is read in constant memory.
func TestConstantMemory(t *testing.T) {
	const perBlock = 100_000
	blocks := 1000
	if raceEnabled || testing.Short() {
		blocks = 20
	}
	r := NewReader(newSynthetic(block(perBlock), blocks))
	var before, after runtime.MemStats
	n := 0
	for _, err := range r.Chunks() {
		if err != nil {
			t.Fatal(err)
		}
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

func reportRate(b *testing.B, n int) {
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

func BenchmarkReader(b *testing.B) {
	const n = 1_000_000
	file := append([]byte("NYTProf 5 0\n"), block(n)...)
	var deflated bytes.Buffer
	w := NewWriter(&deflated)
	_ = w.Write(&Version{Major: 5})
	_ = w.Write(&StartDeflate{})
	for c, err := range NewReader(bytes.NewReader(file)).Chunks() {
		if _, ok := c.(*Version); !ok && err == nil {
			_ = w.Write(c)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		file []byte
	}{{"raw", file}, {"deflated", deflated.Bytes()}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.file)))
			b.ReportAllocs()
			for b.Loop() {
				got := 0
				for _, err := range NewReader(bytes.NewReader(c.file)).Chunks() {
					if err != nil {
						b.Fatal(err)
					}
					got++
				}
				if got < n {
					b.Fatal(got, "chunks")
				}
			}
			reportRate(b, n)
		})
	}
}

func BenchmarkWriter(b *testing.B) {
	const n = 1_000_000
	line := &TimeLine{FID: 2, Line: 333}
	ret := &SubReturn{Depth: 3, Incl: 88, Excl: 7, Sub: String{Text: "main::work"}}
	for _, c := range []struct {
		name    string
		deflate bool
	}{{"raw", false}, {"deflated", true}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w := NewWriter(io.Discard)
				_ = w.Write(&Version{Major: 5})
				if c.deflate {
					_ = w.Write(&StartDeflate{})
				}
				for i := range n {
					if i%10 == 9 {
						_ = w.Write(ret)
						continue
					}
					line.Ticks = int32(i * 37 % 5000)
					_ = w.Write(line)
				}
				if err := w.Close(); err != nil {
					b.Fatal(err)
				}
			}
			reportRate(b, n)
		})
	}
}
