//go:build amd64 || arm64

package attach

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/rotate"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// Files that follow each other have all the time of a goroutine, and each has what is known of it. Old ones are deleted.
func TestRotates(t *testing.T) {
	const tick, every, moves, ends = 10 * time.Millisecond, 3 * time.Second, 8 * time.Second, 14 * time.Second
	s := newScripted()
	r, path := scriptedRecorder(t, s, Options{Interval: tick, Rotate: rotate.Options{Every: every, Keep: 3, KeepBytes: 1 << 40}})
	for r.now < ends {
		r.before, r.now = r.now, r.now+tick
		if r.now == moves {
			s.set(theG+uint64(goruntime.Layouts["go1.26"].GSchedPC), 0x400101)
		}
		testenv.OK(t, r.step(r.now >= ends))
		r.w.Settle()
	}
	testenv.OK(t, r.close(nil))
	if len(r.Files) != 3 || r.number < 4 {
		t.Fatalf("%d files, kept %q", r.number, r.Files)
	}
	if present := testenv.Must(os.ReadDir(filepath.Dir(path))); len(present) != 3 {
		t.Errorf("present: %v", present)
	}
	slices.Reverse(r.Files)
	at := time.UnixMicro(1e15).Add(ends)
	for i, path := range r.Files { // from the last one
		f := testenv.Must(reader.Open(path))
		defer f.Close()
		m := testenv.Must(f.Metadata())
		d := m.Session
		if d.Part != r.number-i || !d.SessionStart.Equal(time.UnixMicro(1e15)) || !d.Start.Add(d.Duration).Equal(at) || d.TicksReached != int64(d.Duration/tick) || d.Error != "" {
			t.Errorf("file %d: %+v", d.Part, d)
		}
		at = d.Start
		labels := []tachyon.LabelSpan{{Labels: map[string]string{"a": "b"}}}
		if g := m.Goroutines; len(g) != 1 || g[0].ID != 7 || g[0].Last != micros(d.Duration) || !reflect.DeepEqual(g[0].Labels, labels) {
			t.Errorf("file %d has goroutines %+v", d.Part, g)
		}
	}
	sums, _ := wallOf(t, r.Files...)
	begin := at.Sub(time.UnixMicro(1e15))
	if inner, other := sums["main.inner"], sums["main.other"]; inner+other != ends-begin || other < ends-moves || other > ends-moves+moves/restPart+tick {
		t.Errorf("%v, then %v, from %v on", inner, other, begin)
	}
}
