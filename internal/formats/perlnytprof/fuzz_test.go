package perlnytprof

import (
	"bytes"
	"os"
	"testing"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/nytprof"
)

func FuzzRead(f *testing.F) {
	for _, file := range goldens(f) {
		b := testenv.Must(os.ReadFile(file))
		f.Add(b[:min(len(b), 8<<10)])
	}
	f.Add([]byte("NYTProf 5 0\n@\xff\xff\xff\xff\xff\x00\x00\x06\x00\x00'\x01a+\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var inflated bytes.Buffer
		w := nytprof.NewWriter(&inflated)
		for c, err := range nytprof.NewReader(bytes.NewReader(b)).Chunks() {
			if _, deflates := c.(*nytprof.StartDeflate); err == nil && !deflates {
				_ = w.Write(c)
			}
		}
		_ = w.Close()
		size := len(b) + inflated.Len()
		var d *nytprof.Data
		if grown := testenv.Allocated(func() { d, _ = nytprof.Load(bytes.NewReader(b)) }); grown > uint64(1<<20+200*size) {
			t.Errorf("%d bytes allocated %d", size, grown)
		}
		var p *profile.Profile
		var err error
		if grown := testenv.Allocated(func() { p, err = Profile(d) }); grown > uint64(4<<20+5000*size) {
			t.Errorf("the profile of %d bytes allocated %d", size, grown)
		}
		if err != nil {
			return
		}
		for _, r := range p.Records {
			if r.Wall < 0 || r.Count < 0 {
				t.Errorf("record %+v", r)
			}
			for _, id := range r.Stack {
				_ = p.Frames[id]
			}
		}
		var out bytes.Buffer
		if err := Write(&out, p, Options{NoSource: true, Uncompressed: true}); err != nil && out.Len() < 1<<20 {
			t.Error(err)
		}
	})
}
