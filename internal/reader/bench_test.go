package reader_test

import (
	"path/filepath"
	"testing"

	"github.com/gotach/profiler/internal/reader"
)

// BenchmarkBig reads 200,000 samples of 5 threads, 38.5 frames deep on
// average, compressed with zstd. CPython's own reader does 488,000 a second.
func BenchmarkBig(b *testing.B) {
	for _, folder := range []string{"document-v2", "cpython-3.15"} {
		b.Run(folder, func(b *testing.B) {
			benchmark(b, folder, func(r *reader.Reader) (samples, sum int) {
				for s, err := range r.Samples() {
					if err != nil { // OK would take longer than the sample
						b.Fatal(err)
					}
					samples++
					sum += len(s.Stack)
				}
				return samples, sum
			})
		})
	}
}

// benchmark reads the file big b.N times and reports the cost of one sample.
func benchmark(b *testing.B, folder string, read func(*reader.Reader) (samples, sum int)) {
	r := open(b, filepath.Join(testdata, folder, "big.zstd.bin"))
	b.ReportAllocs()
	samples := 0
	for b.Loop() {
		n, sum := read(r)
		if samples += n; sum == 0 {
			b.Fatal("no frames, or no time")
		}
	}
	b.ReportMetric(float64(samples)/b.Elapsed().Seconds(), "samples/s")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(samples), "ns/sample")
}
