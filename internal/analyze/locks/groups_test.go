package locks

import (
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// Three connections have a lock and a channel each. They are one lock and one channel, with the sums of all. Two locks of
// another type stay two, though it is not always known which of them a goroutine waits for.
func TestLockGroups(t *testing.T) {
	r := analyzetest.Record(t)
	var objects []tachyon.Object
	for n := range int32(3) {
		objects = append(objects,
			tachyon.Object{Number: 10 + n, Kind: tachyon.ObjectMutex, Addr: 0xc000010000 + 64*uint64(n)},
			tachyon.Object{Number: 20 + n, Kind: tachyon.ObjectChannel, Addr: 0xc000020000 + 64*uint64(n)},
			tachyon.Object{Number: 30 + n, Kind: tachyon.ObjectSelect, Members: []int32{40 + n, 50 + n}})
	}
	objects = append(objects, tachyon.Object{Number: 1, Kind: tachyon.ObjectMutex, Addr: 0xc000030000}, tachyon.Object{Number: 2, Kind: tachyon.ObjectMutex, Addr: 0xc000030040})
	for at := uint64(1000); at <= 10_000; at += 1000 {
		for n := range int32(3) {
			r.Add(uint64(10+n), at, 0, append(analyzetest.WaitFor("sync.Mutex.Lock", 10+n), analyzetest.Place("main.(*cache).get", 4))...)
			r.Add(uint64(20+n), at, 0, append(analyzetest.WaitFor("chan receive", 20+n), analyzetest.Place("main.(*cache).get", 5))...)
			r.Add(uint64(30+n), at, 0, append(analyzetest.WaitFor("select", 30+n), analyzetest.Place("main.loop", 7))...)
			if n < 2 {
				r.Add(uint64(40+n), at, 0, append(analyzetest.WaitFor("sync.Mutex.Lock", 1+n), analyzetest.Place("main.twice", 9))...)
			} else { // for one of these two
				r.Add(50, at, 0, append(analyzetest.WaitFor("sync.Mutex.Lock", 0), analyzetest.Place("main.twice", 9))...)
			}
		}
	}
	// One goroutine waits for each of the locks. It counts once.
	for n := range int32(3) {
		at := 20_000 + 2000*uint64(n)
		r.Add(60, at, analyzetest.Running, analyzetest.Place("main.f", 1))
		r.Add(60, at+1000, 0, append(analyzetest.WaitFor("sync.Mutex.Lock", 10+n), analyzetest.Place("main.f", 2))...)
	}
	l := locksOf(r, Options{Source: readLockSource, Channels: true}, objects...)
	g := l.Group()
	testenv.Same(t, "objects", len(l.Locks), 12)
	var waited, sum time.Duration
	for i := range l.Locks {
		waited += l.Locks[i].Waited
	}
	for i := range g.Locks {
		x := &g.Locks[i]
		sum += x.Waited
		if h := x.Holder; h != nil && h.Seen+h.Inferred+h.Unknown != x.Waited {
			t.Errorf("%s waited %v: %+v", x.Name, x.Waited, h)
		}
	}
	testenv.Same(t, "time in groups", [2]time.Duration{sum, g.Waited}, [2]time.Duration{waited, l.Waited})
	testenv.Same(t, "groups", text(g), `
sync.Mutex c.mu 0*3  [0]: 33ms (0s by site), 6 of 4, at most 10ms; 2 at main.(*cache).get:4 sync.Mutex.Lock 3 30ms
sync.Mutex Mutex in main.twice 0*0  [0]: 10ms (0s by site), 1 of 1, at most 10ms; 1 at main.twice:9 sync.Mutex.Lock 1 10ms
sync.Mutex Mutex in main.twice 1*0 0xc000030000 [0]: 10ms (0s by site), 1 of 1, at most 10ms; 1 at main.twice:9 sync.Mutex.Lock 1 10ms
sync.Mutex Mutex in main.twice 2*0 0xc000030040 [0]: 10ms (0s by site), 1 of 1, at most 10ms; 1 at main.twice:9 sync.Mutex.Lock 1 10ms
chan c.jobs 0*3  [0]: 30ms (0s by site), 3 of 3, at most 10ms; 1 at main.(*cache).get:5 chan receive 3 30ms
select select of another channel, another channel 0*3  [0]: 30ms (0s by site), 3 of 3, at most 10ms; 1 at main.loop:7 select 3 30ms
`)
}

// Goroutines that wait in a select to send wait for those that receive from that channel. Who waits for the signal that the select waits for
// too is not on the other side, and idle waits on a channel are not part of the time for which its other side is told.
func TestSelectSends(t *testing.T) {
	below := testenv.Must(source.Below([]string{"../../../testdata"}))
	for program, want := range map[string]struct{ name, other string }{
		"slow-consumer": {"events", "main.upload"}, "grpc-stream": {"changes", "main.(*feed).publish"},
	} {
		f := testenv.Must(reader.Open("../findings/testdata/causes/" + program + ".tach"))
		s := analyzetest.SamplesOf(t, stream.Options{Labels: true, Objects: true}, f)
		found := false
		for _, x := range testenv.Must(Find(s, Options{Channels: true, Source: below.Read})).Group().Locks {
			h := x.Holder
			if h != nil && h.Seen+h.Inferred > x.Waited {
				t.Errorf("%s, %s: %v of %v", program, x.Name, h.Seen+h.Inferred, x.Waited)
			}
			if x.Name != want.name || x.Waited < time.Second {
				continue
			}
			found = true
			right := time.Duration(0)
			for _, line := range h.Lines {
				if line.Func == want.other {
					right += line.Time
				}
			}
			if !x.Sites[0].Sends || right < x.Waited*95/100 {
				t.Errorf("%s: %v of %v wait for %s: %+v", program, right, x.Waited, want.other, h.Lines)
			}
		}
		testenv.Same(t, program+": somebody waits for "+want.name, found, true)
		testenv.OK(t, f.Close())
	}
}
