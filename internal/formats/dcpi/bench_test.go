package dcpi

import (
	"bytes"
	"io"
	"slices"
	"testing"
)

// big is a profile of a million addresses, every third one beside the last.
func big(b *testing.B) *Profile {
	p := &Profile{Header: header("tsize 4000000")}
	counts := make([]addrCount, 1_000_000)
	for i := range counts {
		counts[i] = addrCount{0x401000 + uint64(i*3+i%3), uint32(i%100 + 1)}
	}
	if err := p.Add(slices.Values(counts)); err != nil {
		b.Fatal(err)
	}
	return p
}

func BenchmarkWrite(b *testing.B) {
	p := big(b)
	for b.Loop() {
		if err := p.Write(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*1e6/b.Elapsed().Seconds(), "addresses/s")
}

func BenchmarkRead(b *testing.B) {
	file := write(b, big(b))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Read(bytes.NewReader(file), "x", Options{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*1e6/b.Elapsed().Seconds(), "addresses/s")
}
