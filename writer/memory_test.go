package writer

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

func heap() int64 {
	runtime.GC()
	runtime.GC() // a sync.Pool keeps its content for one collection
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// sampled returns a writer that has written samples of n threads at each of the ticks, with
// stacks of 38 frames that change at every period-th tick.
func sampled(t testing.TB, n, ticks, period int, o Options) *Writer {
	t.Helper()
	w, err := New(new(void), o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5000 {
		w.Intern(tachyon.Frame{File: "file.go", Func: fmt.Sprintf("function%d", i), Line: int32(i)})
	}
	stack := make([]uint32, 38)
	for tick := range ticks {
		for k := range n {
			for d := range stack {
				stack[d] = uint32((tick/period + k + d*131) % 5000)
			}
			if err := w.Write(&tachyon.Sample{Thread: uint64(k), Time: uint64(tick) * 1000, Stack: stack}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return w
}

// A writer takes at most 16 MB with 1,000 threads and at most 1 KB for each further thread,
// for any length of the runs of repeats.
func TestMemory(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct{ threads, ticks, period int }{
		{5, 30_000, 1 << 30}, {1000, 1500, 1 << 30}, {1000, 300, 3}, {100_000, 12, 1 << 30}, {100_000, 12, 4},
	} {
		before := heap()
		w := sampled(t, c.threads, c.ticks, c.period, Options{})
		used := heap() - before
		runtime.KeepAlive(w)
		limit := int64(16*mb) + 1024*int64(max(0, c.threads-1000))
		t.Logf("%d threads, %d ticks: %.1f MB", c.threads, c.ticks, float64(used)/mb)
		if used > limit {
			t.Errorf("%d threads, %d ticks: %d bytes, more than %d", c.threads, c.ticks, used, limit)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Threads begin one after the other, and each holds back as much as its share allows at
// that time. In the end each takes no more than its final share.
func TestMemoryGrowingCrowd(t *testing.T) {
	before := heap()
	w, err := New(new(void), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for k := range 1000 {
		for i := range 8000 {
			if err := w.Write(&tachyon.Sample{Thread: uint64(k), Time: uint64(i)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	used := heap() - before
	runtime.KeepAlive(w)
	t.Logf("%.1f MB", float64(used)/(1<<20))
	if used > 16<<20 {
		t.Errorf("%d bytes", used)
	}
}

// Forget frees the memory of ended threads.
func TestForget(t *testing.T) {
	d := new(disk)
	w, err := New(d, Options{Uncompressed: true}) // zstd allocates its window late
	if err != nil {
		t.Fatal(err)
	}
	f, g := w.Intern(tachyon.Frame{Func: "f"}), w.Intern(tachyon.Frame{Func: "g"})
	const n = 20_000
	var before int64
	for k := range n {
		if k == n/10 {
			before = heap()
		}
		for i, stack := range [][]uint32{{f}, {f}, {g, f}, {g, f}} {
			if err := w.Write(&tachyon.Sample{Thread: uint64(k), Time: uint64(1000*k + i), Stack: stack}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Forget(uint64(k), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Forget(n+1, 0); err != nil { // an unknown thread
		t.Fatal(err)
	}
	d.b = append([]byte(nil), d.b...)
	if used := heap() - before - int64(len(d.b)); used > 1<<20 {
		t.Errorf("%d bytes more after %d threads", used, n)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got := decode(t, d.b)
	if got.header.Threads != n || got.header.Samples != 4*n {
		t.Errorf("%d threads, %d samples", got.header.Threads, got.header.Samples)
	}
	for i, s := range got.samples {
		if s.Thread != uint64(i/4) || s.Time != uint64(1000*(i/4)+i%4) || len(s.Stack) != 1+i%4/2 {
			t.Fatalf("sample %d is %+v", i, s)
		}
	}
}

// A sample of a known thread with known frames needs no allocation.
func TestNoAllocs(t *testing.T) {
	p := newTape(t, "interp", tachyon.Document)
	for _, asFrames := range []bool{false, true} {
		w, err := New(new(void), p.o)
		if err != nil {
			t.Fatal(err)
		}
		p.intern(w)
		play := &player{w: w, frames: p.frames, asFrames: asFrames}
		if err := play.play(p.at, 0, 50_000); err != nil {
			t.Fatal(err)
		}
		first := 50_000
		if n := testing.AllocsPerRun(5, func() {
			if err := play.play(p.at, first, 100_000); err != nil {
				t.Fatal(err)
			}
			first += 100_000
		}); n > 10 {
			t.Errorf("%v allocations for 100,000 samples (as frames: %v)", n, asFrames)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Warning returns ErrCPythonLimit if a CPython315 file is too large for CPython.
func TestCPythonLimit(t *testing.T) {
	testenv.Again(t)
	for _, l := range []tachyon.Layout{tachyon.CPython315, tachyon.Document} {
		w, err := New(new(void), Options{Layout: l, Uncompressed: true})
		if err != nil {
			t.Fatal(err)
		}
		stacks := [2][]uint32{}
		for i := range tachyon.MaxDepth {
			stacks[0] = append(stacks[0], w.Intern(tachyon.Frame{Line: int32(1e6 + 2*i)}))
			stacks[1] = append(stacks[1], w.Intern(tachyon.Frame{Line: int32(1e6 + 2*i + 1)}))
		}
		for i := 0; w.out.raw <= cpythonLimit; i++ {
			if err := w.Warning(); err != nil && w.out.raw+bufferSize <= cpythonLimit {
				t.Fatalf("%v after %d bytes", err, w.out.raw)
			}
			if err := w.Write(&tachyon.Sample{Stack: stacks[i%2]}); err != nil {
				t.Fatal(err)
			}
		}
		want := map[tachyon.Layout]error{tachyon.CPython315: ErrCPythonLimit}[l]
		if err := w.Warning(); err != want {
			t.Errorf("%v: Warning says %v", l, err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := w.Warning(); err != want {
			t.Errorf("%v: Warning says %v after Close", l, err)
		}
	}
}
