package locks

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// readHolderText returns the text of all functions of these tests.
func readHolderText(name string) *source.File {
	if name != "/home/u/app/cache.go" {
		return nil
	}
	return &source.File{Text: testenv.Must(os.ReadFile("testdata/cache.go"))}
}

// in is a line of testdata/cache.go.
func in(function string, line int32) tachyon.Frame {
	return tachyon.Frame{File: "/home/u/app/cache.go", Func: "main." + function, Line: line}
}

// A stepper writes what goroutines do, a tick at a time.
type stepper struct {
	*analyzetest.Recording
	at uint64
}

type did struct {
	goroutine uint64
	status    tachyon.Status
	stack     []tachyon.Frame
}

// ticks adds ticks at which goroutines do the same.
func (s *stepper) ticks(n int, list ...did) {
	for range n {
		s.at += 1000
		for _, d := range list {
			s.Add(d.goroutine, s.at, d.status, d.stack...)
		}
	}
}

func waitsFor(g uint64, object int32, stack ...tachyon.Frame) did {
	return did{g, 0, slices.Concat(analyzetest.WaitFor("sync.Mutex.Lock", object), stack)}
}

func sleeps(g uint64, stack ...tachyon.Frame) did {
	return did{g, 0, slices.Concat([]tachyon.Frame{{Func: "[sleep]"}}, stack)}
}

var mutexes = []tachyon.Object{
	{Number: 1, Kind: tachyon.ObjectMutex, Addr: 0xc000010000}, {Number: 2, Kind: tachyon.ObjectMutex, Addr: 0xc000020000},
}

func checkHolder(t *testing.T, l *Locks, object int32, seen, inferred, unknown int, state string) *Holder {
	t.Helper()
	for _, x := range l.Locks {
		if x.Object != object {
			continue
		}
		h, ms := x.Holder, time.Millisecond
		testenv.Same(t, fmt.Sprintf("object %d: seen, inferred, unknown, in ms", object), [3]int{int(h.Seen / ms), int(h.Inferred / ms), int(h.Unknown / ms)}, [3]int{seen, inferred, unknown})
		testenv.FailIf(t, state != "" && h.States[state] != h.Seen+h.Inferred, "object %d: states %v, want %s", object, h.States, state)
		return h
	}
	t.Fatalf("no object %d: %+v", object, l.Locks)
	return nil
}

// Of two goroutines, each where it holds a lock of the type, one gives its lock to a waiter at its end.
// The other one's lock is the second one then.
func TestHolderOfTwoLocks(t *testing.T) {
	s := stepper{Recording: analyzetest.Record(t)}
	refresh, rest := in("(*cache).refresh", 11), in("rest", 200)
	get, inside := in("(*cache).get", 4), in("(*cache).get", 5)
	s.ticks(6, sleeps(1, refresh), sleeps(2, refresh), waitsFor(3, 1, get), waitsFor(4, 2, get))
	s.ticks(6, sleeps(1, rest), sleeps(2, refresh), sleeps(3, inside), waitsFor(4, 2, get))
	s.ticks(6, sleeps(1, rest), sleeps(2, rest), sleeps(3, rest), sleeps(4, inside))
	l := locksOf(s.Recording, Options{Source: readHolderText}, mutexes...)
	checkHolder(t, l, 1, 0, 6, 0, "sleep")
	checkHolder(t, l, 2, 0, 12, 0, "sleep")
}

// Without anything that tells them apart, the holder is unknown.
func TestHolderUnknown(t *testing.T) {
	s := stepper{Recording: analyzetest.Record(t)}
	refresh := in("(*cache).refresh", 11)
	s.ticks(6, sleeps(1, refresh), sleeps(2, refresh), waitsFor(3, 1, in("(*cache).get", 4)))
	checkHolder(t, locksOf(s.Recording, Options{Source: readHolderText}, mutexes...), 1, 0, 0, 6, "")
}

// A goroutine that stays where another lock of the type is held, while others had the lock, does not hold it.
func TestHolderExcluded(t *testing.T) {
	s := stepper{Recording: analyzetest.Record(t)}
	get, inside, refresh := in("(*cache).get", 4), in("(*cache).get", 5), in("(*cache).refresh", 11)
	s.ticks(3, waitsFor(1, 1, get), waitsFor(3, 1, get), sleeps(2, refresh))
	s.ticks(5, sleeps(1, inside), waitsFor(3, 1, get), sleeps(2, refresh))
	s.ticks(2, sleeps(1, in("rest", 200)), waitsFor(3, 1, get), sleeps(2, refresh))
	s.ticks(5, sleeps(1, in("rest", 200)), sleeps(2, refresh))
	checkHolder(t, locksOf(s.Recording, Options{Source: readHolderText}, mutexes...), 1, 5, 0, 8, "sleep")
}

// Of two locks of one type that a function takes, the one for which it waited is told by the text.
func TestHolderOfTwoTexts(t *testing.T) {
	s := stepper{Recording: analyzetest.Record(t)}
	get := in("(*cache).get", 4)
	s.ticks(3, waitsFor(1, 1, in("move", 17)))
	s.ticks(6, sleeps(1, in("move", 19)), waitsFor(2, 1, get), waitsFor(3, 2, get))
	s.ticks(3, sleeps(1, in("move", 19)))
	l := locksOf(s.Recording, Options{Source: readHolderText}, mutexes...)
	checkHolder(t, l, 1, 6, 0, 3, "sleep")
	checkHolder(t, l, 2, 0, 6, 0, "sleep")
}

// A goroutine that holds a lock does so in the next file of the session too.
func TestHolderInTwoFiles(t *testing.T) {
	get, inside := in("(*cache).get", 4), in("(*cache).get", 5)
	var files []*reader.Reader
	for part := range 2 {
		s := stepper{Recording: analyzetest.Record(t)}
		s.at = uint64(part) * 10_000
		if part == 0 {
			s.ticks(4, waitsFor(1, 1, get), waitsFor(2, 1, get))
		}
		// 3 is inside too, where another lock is held.
		s.ticks(6, sleeps(1, inside), waitsFor(2, 1, get), sleeps(3, in("(*cache).refresh", 11)))
		s.Objects = mutexes
		files = append(files, s.Finish(tachyon.Session{
			Source: "native", Markers: true, Objects: tachyon.AllObjects, Host: "h", PID: 7, Part: part + 1,
			SessionStart: time.UnixMicro(analyzetest.Start), Start: time.UnixMicro(analyzetest.Start), Duration: 10 * time.Millisecond,
		}))
	}
	l := testenv.Must(Find(analyzetest.SamplesOf(t, stream.Options{Objects: true}, files...), Options{Source: readHolderText}))
	h := l.Locks[0].Holder
	testenv.FailIf(t, len(l.Locks) != 1 || h.Seen < 12*time.Millisecond || h.Inferred != 0, "%+v", h)
}

// Windows of a few stretches show nearly the same as one of all.
func TestHolderWindows(t *testing.T) {
	var shares [2]uint64
	for i, most := range []int{maxStretches, 60} {
		s := stepper{Recording: analyzetest.Record(t)}
		get, inside := in("(*cache).get", 4), in("(*cache).get", 5)
		for round := range uint64(200) {
			a, b, c := 1+round%3, 1+(round+1)%3, 1+(round+2)%3
			s.ticks(3, sleeps(a, inside), waitsFor(b, 1, get), waitsFor(c, 1, get), sleeps(9, in("(*cache).pause", 70)))
		}
		f := s.Finish(tachyon.Session{Source: "native", Markers: true, Objects: tachyon.AllObjects})
		l := newLockSums(analyzetest.SamplesOf(t, stream.Options{Objects: true}, f), Options{Source: readHolderText})
		testenv.OK(t, l.read())
		find := newSectionFinder(newHoldIndex(l))
		find.most = most
		var last uint64
		err := find.readAll(func(c *charge) {
			if c.how == seen {
				shares[i] += c.to - c.from
			}
			last = max(last, c.to)
		})
		testenv.FailIf(t, err != nil || last != 600_000 || i == 1 && find.epoch < 8, "%v; charges until %d, %d windows", err, last, find.epoch)
	}
	testenv.FailIf(t, shares[0] < 590_000 || shares[1] < 9*shares[0]/10, "seen for %d µs with one window, %d µs with many", shares[0], shares[1])
}

// A goroutine holds one lock while it waits for another one of the type.
func TestHolderWaits(t *testing.T) {
	s := stepper{Recording: analyzetest.Record(t)}
	get, inside := in("(*cache).get", 4), in("(*cache).get", 5)
	s.ticks(3, waitsFor(1, 1, in("move", 17)), sleeps(2, in("(*cache).get", 5)))
	s.ticks(6, waitsFor(1, 2, in("move", 18)), sleeps(2, inside), waitsFor(3, 1, get))
	s.ticks(6, sleeps(1, in("move", 19)), sleeps(2, in("rest", 200)), waitsFor(3, 1, get))
	l := locksOf(s.Recording, Options{Source: readHolderText}, mutexes...)
	h := checkHolder(t, l, 1, 12, 0, 3, "")
	testenv.Same(t, "states", fmt.Sprint(h.States), "map[sleep:6ms sync.Mutex.Lock:6ms]")
	checkHolder(t, l, 2, 0, 6, 0, "sleep")
}

// A goroutine that waits for a Cond has given the lock back.
func TestHolderNotInCond(t *testing.T) {
	s := stepper{Recording: analyzetest.Record(t)}
	cond := did{1, 0, append(analyzetest.WaitFor("sync.Cond.Wait", 0), in("(*cache).await", 26))}
	s.ticks(6, cond, sleeps(2, in("(*cache).refresh", 11)), waitsFor(3, 1, in("(*cache).get", 4)))
	checkHolder(t, locksOf(s.Recording, Options{Source: readHolderText}, mutexes...), 1, 0, 6, 0, "sleep")
}

// A goroutine that was given the lock and has not run since is the holder.
func TestHolderRunnable(t *testing.T) {
	s := stepper{Recording: analyzetest.Record(t)}
	get := in("(*cache).get", 4)
	s.ticks(3, waitsFor(1, 1, get), waitsFor(2, 1, get))
	given := did{1, tachyon.GILRequested, slices.Concat([]tachyon.Frame{{Func: tachyon.FuncRunnable}}, analyzetest.WaitFor("sync.Mutex.Lock", 1)[1:], []tachyon.Frame{get})}
	s.ticks(4, given, waitsFor(2, 1, get))
	s.ticks(4, sleeps(1, in("(*cache).get", 5)), waitsFor(2, 1, get))
	h := checkHolder(t, locksOf(s.Recording, Options{Source: readHolderText}, mutexes...), 1, 4, 4, 6, "")
	testenv.Same(t, "runnable", h.States["runnable"], 4*time.Millisecond)
}

// Selected waits count. A goroutine that is not selected can be the holder.
func TestSelectLocks(t *testing.T) {
	s := stepper{Recording: analyzetest.Record(t)}
	get, work := in("(*cache).get", 4), in("(*cache).work", 100)
	s.ticks(5, waitsFor(1, 1, get), waitsFor(2, 1, get))
	s.ticks(5, sleeps(1, work, in("(*cache).get", 5)), waitsFor(2, 1, get), waitsFor(3, 1, get))
	s.ticks(5, sleeps(1, in("rest", 200)), sleeps(2, work, in("(*cache).get", 5)), waitsFor(3, 1, get))
	s.Objects = mutexes
	f := s.Finish(tachyon.Session{Source: "native", Markers: true, Objects: tachyon.AllObjects})
	l := testenv.Must(Find(analyzetest.SamplesOf(t, analyzetest.Selection(t, stream.Selection{Goroutines: []uint64{3}}, "", ""), f), Options{Source: readHolderText}))
	checkHolder(t, l, 1, 10, 0, 0, "sleep")
	x := l.Locks[0]
	testenv.Same(t, "waits", fmt.Sprint(x.Waited, x.Waits, x.Goroutines), "10ms 1 1")
	waiting := analyzetest.SamplesOf(t, analyzetest.Selection(t, stream.Selection{States: []string{"sync.Mutex.Lock"}}, "10ms", ""), f)
	w := testenv.Must(FindWaits(waiting, WaitOptions{Goroutine: 3, Options: Options{Source: readHolderText}}))
	// At 10 ms nobody was seen waiting before.
	checkChain(t, w, 5, "sync.Mutex.Lock (*cache).get", "holds sleep (*cache).work")
	testenv.Same(t, "time and duration", fmt.Sprint(w.Time, w.Duration), "5ms 5ms")
}
