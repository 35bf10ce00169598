package dcpi

import (
	"bytes"
	"io"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

func FuzzRead(f *testing.F) {
	bad, _ := filepath.Glob("testdata/bad/*.dcpi")
	for _, name := range append(goldens(f), bad...) {
		f.Add(read(f, name), false)
	}
	h := without(without(header(), "tstart"), "version")
	f.Add(append(h.append(nil), oneSample...), true)
	f.Fuzz(func(t *testing.T, b []byte, lax bool) {
		var p *Profile
		var err error
		if grown := testenv.Allocated(func() { p, err = Read(bytes.NewReader(b), "fuzz", Options{Lax: lax}) }); grown > uint64(1<<20+64*len(b)) {
			t.Errorf("%d bytes allocated %d", len(b), grown)
		}
		if err != nil {
			return
		}
		if !bytes.Equal(write(t, p), b) {
			t.Errorf("%q is written as %q", b, write(t, p))
		}
		if err := p.Cat(io.Discard); err != nil {
			t.Error(err)
		}
		p.Epoch()
		p.Path()
		if err := p.Add(slices.Values(slices.Collect(p.Counts()))); err == nil {
			write(t, p)
		}
	})
}
