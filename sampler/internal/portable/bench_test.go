package portable

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/source"
)

// BenchmarkTick measures one tick, including runtime.Stack, by the number of parked goroutines.
func BenchmarkTick(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			defer park(n, 0)()
			s := New()
			s.cfg, s.out = source.Config{Start: time.Now()}, new(quiet)
			s.limit = newLimit(time.Minute)
			s.buf = make([]byte, n*perGoroutine+minBuffer)
			s.snapshot.init(s.out, true)
			procs := runtime.GOMAXPROCS(0)
			s.tick(procs, false)
			b.ReportAllocs()
			for b.Loop() {
				s.tick(procs, false)
			}
			if d := s.dropped.Load(); d != 0 {
				b.Fatal(d, "dropped")
			}
		})
	}
}

// FuzzParse reads arbitrary text, twice: a future Go version may print a form that the parser does
// not know. testdata/fuzz has one seed for each form.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/stacks/*.txt")
	for _, file := range files {
		text := testenv.Must(os.ReadFile(file))
		for _, g := range strings.SplitAfter(string(text), "\n\n") {
			f.Add([]byte("goroutine 1 [running]:\nmain.f()\n\t/a.go:1 +0x1\n\n"+g), true)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, all bool) {
		r := newRecorder()
		var s snapshot
		s.init(r, true)
		var l lost
		if n := testenv.Allocated(func() {
			l = s.read(text, all)
			s.emit(1, 2, func(k int) int { return k - 1 })
		}); n > uint64(4<<20+1000*len(text)) {
			t.Errorf("%d bytes allocated for a text of %d", n, len(text))
		}
		if l.dropped < l.torn || l.dropped < 0 {
			t.Fatalf("%+v", l)
		}
		if n := int64(s.goroutines) - l.dropped; n != int64(len(r.samples)) {
			t.Fatalf("%d samples of %d goroutines, %+v", len(r.samples), s.goroutines, l)
		}
		for i := range r.samples {
			for _, frame := range r.stack(&r.samples[i]) {
				if frame.Func == "" || frame.Line < 0 || strings.Contains(frame.Func+frame.File, "\n") {
					t.Fatalf("frame %+v", frame)
				}
			}
		}
		// If the whole text was understood, reading it again must give the same result.
		if l.dropped > 0 {
			return
		}
		first := r.samples
		r.samples = nil
		if again := s.read(text, all); again != l {
			t.Fatalf("at first %+v, then %+v", l, again)
		}
		s.emit(1, 2, func(k int) int { return k - 1 })
		if len(first) != len(r.samples) {
			t.Fatalf("at first %d samples, then %d", len(first), len(r.samples))
		}
		for i := range first {
			a, b := first[i], r.samples[i]
			if a.Goroutine != b.Goroutine || a.Status != b.Status || len(a.Stack) != len(b.Stack) {
				t.Fatalf("at first %+v, then %+v", a, b)
			}
		}
	})
}
