//go:build amd64 || arm64

package attach

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
)

// scriptedRecorder returns a recorder of a scripted process, and its file.
func scriptedRecorder(t *testing.T, s *scripted, o Options) (*recorder, string) {
	s.PID = os.Getpid()
	path := filepath.Join(t.TempDir(), "x.tach")
	r := &recorder{Process: s.Process, o: o, start: time.UnixMicro(1e15), base: 1e15, byG: map[uint64]*known{}}
	testenv.OK(t, r.create(path))
	return r, path
}

// A goroutine that waits for a minute is looked at some hundred times and has a sample a second. The sum of its samples is the time of the recording,
// and the end of its wait is known to a 64th of its length.
func TestRests(t *testing.T) {
	const tick, wakes, ends = 10 * time.Millisecond, 10 * time.Second, time.Minute
	s := newScripted()
	r, path := scriptedRecorder(t, s, Options{Interval: tick})
	looks, ticks, woke := 0, 0, false
	s.before = func(addr uint64) {
		if addr == theG {
			looks++
		}
	}
	for ; r.now < ends; ticks++ {
		r.before, r.now = r.now, r.now+tick
		if r.now > wakes && !woke {
			woke = true
			s.set(theG+uint64(goruntime.Layouts["go1.26"].GSchedPC), 0x400101)
		}
		testenv.OK(t, r.step(r.now >= ends))
	}
	testenv.OK(t, r.close(nil))
	if most := ticks / 6; looks > most {
		t.Errorf("%d looks at %d ticks", looks, ticks)
	}
	f := testenv.Must(reader.Open(path))
	defer f.Close()
	sums, n := map[string]time.Duration{}, 0
	src := samples(f)
	for x, err := range src.Samples() {
		testenv.OK(t, err)
		sums[src.Frames()[src.AppendStack(nil, x.Stack)[1]].Func] += x.Wall
		n++
	}
	inner, other := sums["main.inner"], sums["main.other"]
	if inner+other != ends || inner > wakes || inner < wakes-wakes/restPart-tick {
		t.Errorf("%v, then %v", inner, other)
	}
	if most := int(ends/lastBeat) + 20; n > most*4/3 {
		t.Errorf("%d samples", n)
	}
}
