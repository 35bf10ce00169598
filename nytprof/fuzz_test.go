package nytprof

import (
	"bytes"
	"os"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// addGoldens seeds a fuzz target with the real files and hostile ones.
func addGoldens(f *testing.F) {
	for _, file := range goldens(f) {
		b := testenv.Must(os.ReadFile(file))
		f.Add(b[:min(len(b), 8<<10)])
	}
	f.Add([]byte("NYTProf 5 0\nS\x01\x01'\xff\x00\xff\xff\xff"))
	f.Add([]byte("NYTProf 5 0\n@\xff\xff\xff\xff\xff\x00\x00\x06\x00\x00'\x01a+\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
}

func FuzzReader(f *testing.F) {
	addGoldens(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var out []byte
		inflated := 0
		grown := testenv.Allocated(func() {
			for c, err := range NewReader(bytes.NewReader(b)).Chunks() {
				if err == nil {
					out = c.encode(out[:0])
					inflated += len(out)
				}
			}
		})
		// Buffers, then every chunk once and once more as out.
		if limit := uint64(1<<20 + 8*(len(b)+inflated)); grown > limit {
			t.Errorf("%d bytes (%d inflated) allocated %d", len(b), inflated, grown)
		}
		again, err := reencode(t, b)
		if err != nil && len(again) == 0 {
			return
		}
		third, _ := reencode(t, again)
		if !bytes.Equal(third, again) {
			t.Errorf("what was written reads differently: %q, then %q", again, third)
		}
	})
}
