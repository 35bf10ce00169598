package portable

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

var update = flag.Bool("update", false, "write the .want files anew")

// newSnapshot returns a snapshot and what gets its samples.
func newSnapshot(waitFrames bool) (*recorder, *snapshot) {
	r, s := newRecorder(), new(snapshot)
	s.init(r, waitFrames)
	return r, s
}

// readText reads one text of runtime.Stack as the source does.
func readText(text []byte) (*recorder, lost) {
	r, s := newSnapshot(true)
	l := s.read(text, true)
	s.emit(time.Second, 2, func(int) int { return 0 })
	return r, l
}

// describe prints the calls of Out.
func describe(r *recorder, l lost) string {
	var b strings.Builder
	fmt.Fprintf(&b, "dropped %d torn %d\n", l.dropped, l.torn)
	for i := range r.samples {
		p := &r.samples[i]
		g := r.goroutines[p.Goroutine]
		fmt.Fprintf(&b, "\ngoroutine %d status %06b parent %d created by %q at %q\n", p.Goroutine, p.Status, g.Parent, g.CreatedBy, g.CreatedAt)
		for _, set := range r.labels[p.Goroutine] {
			for _, k := range slices.Sorted(maps.Keys(set)) {
				fmt.Fprintf(&b, "  label %q %q\n", k, set[k])
			}
		}
		for _, f := range r.stack(p) {
			fmt.Fprintf(&b, "  %s %s:%d\n", f.Func, f.File, f.Line)
		}
	}
	return b.String()
}

// TestGolden reads texts of all supported Go versions, which testdata/stacks/gen.go has printed.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/stacks/*.txt")
	if err != nil || len(files) != 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text := testenv.Must(os.ReadFile(file))
		r, l := readText(text)
		testenv.Golden(t, strings.TrimSuffix(file, ".txt")+".want", describe(r, l), *update)
		if n := bytes.Count(text, []byte("\n\ngoroutine ")); n != len(r.samples) || l != (lost{}) {
			t.Errorf("%s: %d samples of %d goroutines, %+v", file, len(r.samples), n, l)
		}
	}
}

// stackText returns a text of runtime.Stack with these goroutines.
func stackText(goroutines ...string) []byte {
	own := "goroutine 99 [running]:\nown.f()\n\t/own.go:1 +0x1\n"
	return []byte(strings.Join(append([]string{own}, goroutines...), "\n"))
}

func goroutineText(id int, state, fn string) string {
	return fmt.Sprintf("goroutine %d [%s]:\n%s(0x1)\n\t/a.go:%d +0x1d\ncreated by main.main in goroutine 1\n\t/a.go:1 +0x2\n", id, state, fn, id)
}

// TestNotStarted reads goroutines that have not run yet. The text shows a wrapper if the go statement
// has arguments; then the go statement's function takes its place.
func TestNotStarted(t *testing.T) {
	const goexit = "runtime.goexit({})\n\t/go/asm_amd64.s:1693 +0x1\n"
	by := "created by main.start in goroutine 1\n\t/a.go:5 +0x2d\n"
	tests := []struct{ name, body, want string }{
		{"plain", "main.f()\n\t/a.go:9\n", "[runnable, not started]:0 main.f:9"},
		{"wrapper", "main.start.gowrap12()\n\t/a.go:5\n" + goexit, "[runnable, not started]:0 main.start:5"},
		{"inlined", "main.g(...)\n\t/a.go:19\nmain.f()\n\t/a.go:9\n", "[runnable, not started]:0 main.f:9"},
		{"running", "main.f()\n\t/a.go:9 +0x1\n", "[runnable]:0 main.f:9"},
		{"running, goexit shown", "main.f()\n\t/a.go:9 +0x1\n" + goexit, "[runnable]:0 main.f:9 runtime.goexit:1693"},
		{"called", "main.g()\n\t/a.go:19\nmain.f()\n\t/a.go:9 +0x1\n", "[runnable]:0 main.g:19 main.f:9"},
	}
	for _, state := range []string{"runnable", "preempted"} {
		for _, tt := range tests {
			text := stackText(fmt.Sprintf("goroutine 5 [%s]:\n%s%s", state, tt.body, by))
			for _, waitFrames := range []bool{true, false} {
				r, s := newSnapshot(waitFrames)
				s.read(text, true)
				s.emit(time.Second, 0, nil)
				var got []string
				for _, f := range r.stack(&r.samples[0]) {
					got = append(got, fmt.Sprintf("%s:%d", f.Func, f.Line))
				}
				want := tt.want
				if !waitFrames {
					_, want, _ = strings.Cut(want, ":0 ")
				}
				if strings.Join(got, " ") != want || r.samples[0].Status != tachyon.GILRequested {
					t.Errorf("%s, %s: %q with status %b, want %s", state, tt.name, got, r.samples[0].Status, want)
				}
			}
		}
	}
}

// TestLabelChanges has a goroutine with other labels at some looks. Out gets only changes.
func TestLabelChanges(t *testing.T) {
	r, s := newSnapshot(true)
	for _, labels := range []string{"", ` {a: b}`, ` {a: b}`, ` {c: d, "e f": }`, ` {a: b}`, "", ""} {
		s.read(stackText(strings.Replace(goroutineText(4, "select", "main.f"), "]:", "]"+labels+":", 1)), true)
		s.emit(time.Second, 1, nil)
	}
	ab := map[string]string{"a": "b"}
	testenv.Same(t, "labels", fmt.Sprint(r.labels[4]), fmt.Sprint([]map[string]string{ab, {"c": "d", "e f": ""}, ab, nil}))
}

// TestPanicEnds has a goroutine that panics at one look only.
func TestPanicEnds(t *testing.T) {
	r, s := newSnapshot(true)
	for i, fn := range []string{"main.f", "panic", "main.f"} {
		s.read(stackText(goroutineText(4, "select", fn)), true)
		s.emit(time.Second, 1, nil)
		testenv.Same(t, fn, r.samples[i].Status == tachyon.HasException, fn == "panic")
	}
}

// TestGarbage reads texts with one goroutine in an unknown form. Only its sample is dropped, and
// it is counted.
func TestGarbage(t *testing.T) {
	tests := []struct {
		name, bad string
		torn      int64
	}{
		{"header", "goroutine 5 {running}:\nmain.f()\n\t/a.go:1 +0x1\n", 0},
		{"no id", "goroutine five [running]:\nmain.f()\n\t/a.go:1 +0x1\n", 0},
		{"frame", "goroutine 5 [running]:\nmain.f\n\t/a.go:1 +0x1\n", 0},
		{"complaint", "goroutine 5 [running]:\nruntime: g 5: unexpected return pc for main.f called from 0x0\nstack: frame={sp:0x1, fp:0x2} stack=[0x1,0x2)\n0x0001:  0x0002\n\nmain.f()\n\t/a.go:1 +0x1\n", 0},
		{"unavailable", "goroutine 5 [running]:\n\tgoroutine running on other thread; stack unavailable\ncreated by main.main in goroutine 1\n\t/a.go:1 +0x2\n", 1},
		{"twice", goroutineText(4, "select", "main.f"), 0},
	}
	for _, tt := range tests {
		r, l := readText(stackText(goroutineText(4, "select", "main.a"), tt.bad, goroutineText(6, "select", "main.b")))
		if l.dropped != 1 || l.torn != tt.torn {
			t.Errorf("%s: %+v", tt.name, l)
		}
		if len(r.samples) != 2 || r.samples[0].Goroutine != 4 || r.samples[1].Goroutine != 6 {
			t.Errorf("%s: %v", tt.name, r.samples)
		}
	}
}

// TestGarbageIsNoEnd checks that a goroutine does not count as ended if it could not be read once,
// or if it is missing from a text that is cut off.
func TestGarbageIsNoEnd(t *testing.T) {
	r, s := newSnapshot(true)
	a, b := goroutineText(4, "select", "main.a"), goroutineText(5, "select", "main.b")
	s.read(stackText(a, b), true)
	for _, bad := range []string{
		strings.Replace(b, "main.b(", "main.b", 1),
		strings.Replace(b, "]:", "]", 1),
	} {
		testenv.Same(t, "dropped", s.read(stackText(a, bad), true).dropped, 1)
	}
	if l := s.read(stackText(a, b[:20]), false); l.dropped != 0 || s.goroutines != 1 {
		t.Errorf("%+v, %d goroutines in a text that is cut off", l, s.goroutines)
	}
	testenv.Same(t, "gone", len(r.gone), 0)
	s.read(stackText(a, b), true)
	s.emit(0, 1, nil)
	if len(r.samples) != 2 || len(r.stack(&r.samples[1])) != 2 {
		t.Errorf("samples %v", r.samples)
	}
	// If every text is cut off, the memory for goroutines must stay bounded.
	for range 2 * oldAge {
		s.read(stackText(a, b[:20]), false)
	}
	testenv.SameList(t, "gone", r.gone, []uint64{5})
	s.read(stackText(), true)
	if !slices.Equal(r.gone, []uint64{5, 4}) || len(s.known) != 0 {
		t.Errorf("%v are gone, want 5 and 4", r.gone)
	}
}

// TestWhoRuns checks how many runnable goroutines are marked as running, and that each of them is
// marked equally often.
func TestWhoRuns(t *testing.T) {
	var text []string
	for id := range 6 {
		text = append(text, goroutineText(id+10, "runnable", "main.f"))
	}
	text = append(text, goroutineText(20, "running", "main.f"), goroutineText(21, "select", "main.f"))
	r, s := newSnapshot(false)
	turns := make(map[uint64]int)
	seed := 0
	for range 300 {
		r.samples = nil
		s.read(stackText(text...), true)
		s.emit(0, 3, func(k int) int { seed++; return seed * 7 % k })
		n := 0
		for _, p := range r.samples {
			switch {
			case p.Goroutine == 21:
				if p.Status != 0 {
					t.Fatalf("a waiting goroutine has status %b", p.Status)
				}
			case p.Status == tachyon.HasGIL|tachyon.OnCPU:
				n++
				turns[p.Goroutine]++
			case p.Status != tachyon.GILRequested:
				t.Fatalf("a runnable goroutine has status %b", p.Status)
			}
			if len(p.Stack) != 1 {
				t.Fatalf("goroutine %d has a wait frame", p.Goroutine)
			}
		}
		testenv.Same(t, "running goroutines", n, 3)
	}
	testenv.Same(t, "samples of the running goroutine that are marked", turns[20], 300)
	for id := range uint64(6) {
		if n := turns[id+10]; n < 50 || n > 150 {
			t.Errorf("goroutine %d was running in %d of 300 samples, want about 100", id+10, n)
		}
	}
}

// TestUnchanged checks that goroutines with unchanged frames cause no calls of Frame and no
// allocations, even if their headers have changed.
func TestUnchanged(t *testing.T) {
	var out quiet
	var s snapshot
	s.init(&out, true)
	var first, second []string
	for id := range 100 {
		first = append(first, goroutineText(id+1, "select", "main.f"))
		second = append(second, goroutineText(id+1, `chan receive, 5 minutes, locked to thread labels:{"a": "b"}`, "main.f"))
	}
	texts := [][]byte{stackText(first...), stackText(second...)}
	i := 0
	tick := func() {
		s.read(texts[i%2], true)
		s.emit(0, 2, nil)
		i++
	}
	tick()
	tick()
	asked := out.frames
	testenv.Same(t, "allocations a tick of 100 goroutines", testing.AllocsPerRun(100, tick), 0)
	testenv.Same(t, "calls of Frame", out.frames, asked)
	// New arguments change only the hash.
	texts[0] = bytes.ReplaceAll(texts[0], []byte("(0x1)"), []byte("(0x2)"))
	testenv.Same(t, "allocations a tick of 100 goroutines with new arguments", testing.AllocsPerRun(100, tick), 0)
}

// quiet is an Out that keeps nothing.
type quiet struct{ frames, samples int }

func (q *quiet) Frame(tachyon.Frame) uint32                      { q.frames++; return uint32(q.frames) }
func (q *quiet) Goroutine(g source.Goroutine) bool               { return !own.Created(g.CreatedBy) }
func (q *quiet) Labels(uint64, time.Duration, map[string]string) {}
func (q *quiet) Gone(uint64)                                     {}
func (q *quiet) Sample(*source.Sample)                           { q.samples++ }
func (*quiet) Counted()                                          {}

func (q *quiet) Batch(f func()) { f() }
func (q *quiet) Fail(error)     {}
