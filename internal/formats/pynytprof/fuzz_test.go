package pynytprof

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
)

func FuzzDecode(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte(strings.Replace(sample, "S\x38", "S\xff", 1)))
	f.Add([]byte("NYTProf 5 0\n:x-file-1=/a.go\n:x-sub-1=1,10,11\n" + sample[strings.Index(sample, "\n\n")+1:]))
	f.Fuzz(func(t *testing.T, b []byte) {
		var file *file
		var err error
		if grown := testenv.Allocated(func() { file, err = decode(bytes.NewReader(b)) }); grown > uint64(1<<20+100*len(b)) {
			t.Errorf("%d bytes allocated %d", len(b), grown)
		}
		if err != nil {
			return
		}
		var again bytes.Buffer
		testenv.OK(t, file.Encode(&again))
		third := testenv.Must(decode(bytes.NewReader(again.Bytes())))
		var b3 bytes.Buffer
		if err := third.Encode(&b3); err != nil || !bytes.Equal(b3.Bytes(), again.Bytes()) {
			t.Errorf("reads differently: %q, then %q, %v", again.Bytes(), b3.Bytes(), err)
		}
		var p *profile.Profile
		if grown := testenv.Allocated(func() { p, err = file.Profile() }); grown > uint64(4<<20+5000*len(b)) {
			t.Errorf("the profile of %d bytes allocated %d", len(b), grown)
		}
		testenv.OK(t, err)
		for _, r := range p.Records {
			if r.Wall < 0 || r.Count < 0 {
				t.Errorf("record %+v", r)
			}
		}
	})
}
