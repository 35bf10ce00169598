package tach

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// evened writes samples (thread, time since the start in µs, frame) into a file
// with an interval of 1 ms and counts what even makes of it: samples by thread
// and frame. Each thread has as much time as its weights say, but for an interval.
func evened(t *testing.T, samples [][3]uint64) (count [100][3]int, interval uint64) {
	t.Helper()
	const start = 1_000_000_000
	f := testenv.Closes(t, testenv.Must(os.Create(filepath.Join(t.TempDir(), "x.tach"))))
	w := testenv.Must(writer.New(f, writer.Options{Start: start, Interval: 1000}))
	for _, s := range samples {
		id := w.Intern(tachyon.Frame{Func: string(rune('a' + s[2]))})
		testenv.OK(t, w.Write(&tachyon.Sample{Thread: s[0], Time: start + s[1], Stack: []uint32{id}}))
	}
	testenv.OK(t, w.Close())
	r := testenv.Closes(t, testenv.Must(reader.Open(f.Name())))
	src := testenv.Must(stream.New([]stream.File{{Stream: r}}, stream.Options{Markers: true, Objects: true}))
	out, begin, interval, err := even(src)
	testenv.OK(t, err)
	testenv.Same(t, "start", begin, start-1000+min(samples[0][1], 1000)) // where the time of the first sample begins
	var last [len(count)]uint64
	for s := range testenv.All(t, out) {
		if (s.Time-begin)%interval != 0 || s.Time <= last[s.Goroutine] {
			t.Fatalf("thread %d has a sample at %d after %d", s.Goroutine, s.Time-begin, last[s.Goroutine])
		}
		last[s.Goroutine] = s.Time
		count[s.Goroutine][src.Frames()[src.Stacks()[s.Stack].Frame].Func[0]-'a']++
	}
	var weights [len(count)]uint64
	for s := range testenv.All(t, src.Samples()) {
		weights[s.Goroutine] += uint64(s.Wall.Microseconds())
	}
	for id, weight := range weights {
		n := count[id][0] + count[id][1] + count[id][2]
		testenv.Within(t, fmt.Sprint("µs of even samples of thread ", id), uint64(n)*interval+interval, weight, weight+2*interval)
	}
	return count, interval
}

// A thinned profile has as many samples of each stack as its time says.
func TestEven(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var samples [][3]uint64
	now := uint64(1000)
	for range 100 { // 40 ms of running, seen each 1 ms or so; 60 ms of waiting, seen rarely
		for end := now + 40_000; now < end; now += 940 + random.Uint64N(120) {
			samples = append(samples, [3]uint64{1, now, 0})
		}
		for end := now + 60_000; now < end; {
			now += min(17_000+random.Uint64N(9000), end-now)
			samples = append(samples, [3]uint64{1, now, 1})
		}
	}
	samples = append(samples, [3]uint64{2, now, 2}) // seen once: one interval
	count, interval := evened(t, samples)
	testenv.Same(t, "interval", interval, 1000)
	testenv.Within(t, "samples of 4 s running", count[1][0], 3900, 4200)
	testenv.Within(t, "samples of 6 s waiting", count[1][1], 5900, 6200)
	testenv.Same(t, "samples of a goroutine seen once", count[2][2], 1)
}

// A clock that goes back gives no weight, and no two samples at one time. The first sample's time may begin before the file.
func TestEvenBack(t *testing.T) {
	count, _ := evened(t, [][3]uint64{{1, 1000, 0}, {1, 5000, 0}, {1, 3000, 0}, {1, 9000, 0}})
	testenv.Same(t, "samples of 11 ms", count[1][0], 1+4+6)
	evened(t, [][3]uint64{{1, 400, 0}})
}

// However long goroutines waited, the number of samples is bounded.
func TestEvenBound(t *testing.T) {
	testenv.Again(t)
	var samples [][3]uint64
	for g := range uint64(100) {
		samples = append(samples, [3]uint64{g, 1000, 0}, [3]uint64{g, 3600e6, 0})
	}
	count, interval := evened(t, samples)
	var n int
	for _, c := range count {
		n += c[0]
	}
	testenv.Within(t, "samples", n, mostEvenSamples/2, mostEvenSamples)
	testenv.Within(t, "µs", interval, 1001, 1_000_000)
}

// In CPython's layout numbers of objects become line 0, and stacks that differ in them alone become equal. In the document's layout they stay.
func TestWithoutObjects(t *testing.T) {
	caller := tachyon.Frame{File: "a.go", Func: "main.work", Line: 7}
	stacks := []struct{ was, is tachyon.Frame }{
		{tachyon.Frame{Func: "[sync.Mutex.Lock]", Line: 17}, tachyon.Frame{Func: "[sync.Mutex.Lock]"}},
		{tachyon.Frame{Func: "[sync.Mutex.Lock]", Line: 18}, tachyon.Frame{Func: "[sync.Mutex.Lock]"}},
		{tachyon.Frame{Func: "[sync.Mutex.Lock]"}, tachyon.Frame{Func: "[sync.Mutex.Lock]"}},
		{tachyon.Frame{Func: "[select]", Line: 3}, tachyon.Frame{Func: "[select]"}},
		{tachyon.Frame{Func: "odd", Line: 4}, tachyon.Frame{Func: "odd", Line: 4}},                                 // not a wait
		{tachyon.Frame{File: "x.py", Func: "[odd]", Line: 5}, tachyon.Frame{File: "x.py", Func: "[odd]", Line: 5}}, // not a wait
	}
	var was, is []tachyon.Frame
	for _, s := range stacks {
		was, is = append(was, s.was), append(is, s.is)
	}
	in := testenv.Must(InMemory(func(create Create) error {
		w := testenv.Must(create(1, 1))
		for i, f := range was {
			testenv.OK(t, w.WriteFrames(&tachyon.Sample{Thread: 1, Time: uint64(i + 1)}, []tachyon.Frame{f, caller}))
		}
		return nil
	}))
	for layout, want := range map[tachyon.Layout][]tachyon.Frame{tachyon.CPython315: is, tachyon.Document: was} {
		f := testenv.Closes(t, testenv.Must(os.Create(filepath.Join(t.TempDir(), "x"))))
		src := testenv.Must(stream.New([]stream.File{{Stream: in}}, stream.Options{Markers: true, Objects: true}))
		testenv.OK(t, Write(f, src, Options{Layout: layout}))
		r := testenv.Closes(t, testenv.Must(reader.Open(f.Name())))
		var got []tachyon.Frame
		ids := map[tachyon.Frame]uint32{}
		for s := range testenv.All(t, r.Samples()) {
			top := r.Frames()[s.Stack[0]]
			id, again := ids[top]
			testenv.FailIf(t, again && id != s.Stack[0] || r.Frames()[s.Stack[1]] != caller, "%v: stack %v of %v", layout, s.Stack, top)
			ids[top] = s.Stack[0]
			got = append(got, top)
		}
		testenv.NoDiff(t, layout.String(), cmp.Diff(want, got))
	}
}
