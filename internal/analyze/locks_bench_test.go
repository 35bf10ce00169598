package analyze

import (
	"math/rand/v2"
	"regexp"
	"testing"

	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// BenchmarkLocks reads 1.2 million samples of 200 goroutines: half of them wait for one of ten locks,
// some hold one, and change what they do every few ticks. All of them are targets of waits.
func BenchmarkLocks(b *testing.B) {
	r := record(b)
	rnd := rand.New(rand.NewPCG(1, 2))
	type state struct {
		ticks  int
		frames []tachyon.Frame
		status tachyon.Status
	}
	var list [200]state
	var objects []tachyon.Object
	for i := range 10 {
		objects = append(objects, tachyon.Object{Number: int32(i + 1), Kind: tachyon.ObjectMutex, Addr: uint64(0xc000010000 + 64*i)})
	}
	for tick := range 6000 {
		for g := range list {
			s := &list[g]
			if s.ticks == 0 {
				s.ticks = 1 + rnd.IntN(6)
				serve := place("main.serve", int32(10+rnd.IntN(20)))
				get := place("main.(*cache).get", 4)
				switch {
				case s.status == 0 && s.frames != nil && rnd.IntN(2) == 0: // it has the lock
					s.status = running
					get.Line = 6
					s.frames = []tachyon.Frame{place("main.parse", int32(rnd.IntN(50))), get, serve}
				case rnd.IntN(2) == 0:
					s.status = running
					s.frames = []tachyon.Frame{place("main.render", int32(rnd.IntN(50))), serve}
				default:
					s.status = 0
					s.frames = append(waitFor("sync.Mutex.Lock", int32(1+g%10)), get, serve)
				}
			}
			s.ticks--
			r.add(uint64(g+1), uint64(1000*(tick+1)), s.status, s.frames...)
		}
	}
	if err := r.w.WriteRecords(&tachyon.Records{Objects: objects}); err != nil {
		b.Fatal(err)
	}
	f := r.finish(tachyon.Session{Source: "native", Markers: true, Objects: tachyon.AllObjects})
	b.Run("locks", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			l, err := FindLocks(samplesOf(b, stream.Options{Objects: true}, f), LockOptions{Source: readLockSource})
			if err != nil {
				b.Fatal(err)
			}
			if len(l.Locks) != 10 {
				b.Fatalf("%d locks", len(l.Locks))
			}
		}
	})
	b.Run("waits", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			o := WaitOptions{Func: regexp.MustCompile("serve"), LockOptions: LockOptions{Source: readLockSource}}
			w, err := FindWaits(samplesOf(b, stream.Options{Objects: true}, f), o)
			if err != nil {
				b.Fatal(err)
			}
			if w.Goroutines != 200 {
				b.Fatalf("%d goroutines", w.Goroutines)
			}
		}
	})
}
