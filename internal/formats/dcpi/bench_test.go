package dcpi

import (
	"bytes"
	"io"
	"slices"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// big is a profile of a million addresses, every third one beside the last.
func big(b *testing.B) *Profile {
	p := &Profile{Header: header("tsize 4000000")}
	counts := make([]addrCount, 1_000_000)
	for i := range counts {
		counts[i] = addrCount{0x401000 + uint64(i*3+i%3), uint32(i%100 + 1)}
	}
	testenv.OK(b, p.Add(slices.Values(counts)))
	return p
}

func BenchmarkWrite(b *testing.B) {
	p := big(b)
	for b.Loop() {
		testenv.OK(b, p.Write(io.Discard))
	}
	b.ReportMetric(float64(b.N)*1e6/b.Elapsed().Seconds(), "addresses/s")
}

func BenchmarkRead(b *testing.B) {
	file := write(b, big(b))
	b.ReportAllocs()
	for b.Loop() {
		testenv.Must(Read(bytes.NewReader(file), "x", Options{}))
	}
	b.ReportMetric(float64(b.N)*1e6/b.Elapsed().Seconds(), "addresses/s")
}
