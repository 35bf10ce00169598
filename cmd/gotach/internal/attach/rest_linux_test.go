//go:build amd64 || arm64

package attach

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/goruntime"
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
	sums, n := wallOf(t, path)
	inner, other := sums["main.inner"], sums["main.other"]
	if inner+other != ends || inner > wakes || inner < wakes-wakes/restPart-tick {
		t.Errorf("%v, then %v", inner, other)
	}
	if most := int(ends/lastBeat) + 20; n > most*4/3 {
		t.Errorf("%d samples", n)
	}
}

// Goroutines that live for 20 ms each and have one runtime.g, which is looked at rarely between them, have their time on average.
func TestLivesAfterRests(t *testing.T) {
	const tick, lives, n = time.Millisecond, 20 * time.Millisecond, 100
	s := newScripted()
	r, path := scriptedRecorder(t, s, Options{Interval: tick})
	l := goruntime.Layouts["go1.26"]
	chance := rand.New(rand.NewPCG(1, 2))
	for id := range uint64(n) {
		live := func(status byte, d time.Duration) {
			s.part(theG + uint64(l.GStatus))[0] = status
			for end := r.now + d; r.now < end; {
				r.before, r.now = r.now, r.now+tick
				testenv.OK(t, r.step(false))
			}
		}
		s.set(theG+uint64(l.GID), id+7)
		live(goruntime.GDead, time.Second+time.Duration(chance.IntN(200))*tick)
		live(goruntime.GWaiting, lives)
	}
	r.before, r.now = r.now, r.now+tick
	testenv.OK(t, r.step(true))
	testenv.OK(t, r.close(nil))
	sums, _ := wallOf(t, path)
	sum := sums["main.inner"]
	if want := n * lives; sum < want*95/100 || sum > want*105/100 {
		t.Errorf("%v, want %v", sum, want)
	}
}
