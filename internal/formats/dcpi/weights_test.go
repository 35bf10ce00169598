package dcpi

import (
	"path/filepath"
	"testing"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// Frames have the time that reader.Weighted gives their samples.
func TestFrameCounts(t *testing.T) {
	files, err := filepath.Glob("../../../testdata/tachyon/document-v2/*.bin")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		r := testenv.Must(reader.Open(name))
		defer r.Close()
		var want count
		var lost int64
		for s, err := range reader.Weighted(r) {
			switch {
			case err != nil:
				t.Fatal(err)
			case len(s.Stack) == 0:
				lost++
				continue
			case s.Status&tachyon.OnCPU != 0:
				want.add(count{cpu: 1, cpuTime: s.Weight})
			}
			want.add(count{wall: 1, wallTime: s.Weight})
		}
		counts, gotLost, err := frameCounts(r)
		testenv.OK(t, err)
		var got count
		for _, c := range counts {
			got.add(*c)
		}
		if got != want || gotLost != lost {
			t.Errorf("%s: %+v and %d lost, want %+v and %d", name, got, gotLost, want, lost)
		}
	}
}
