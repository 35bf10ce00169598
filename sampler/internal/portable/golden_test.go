package portable

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

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
		g := r.Told[p.Goroutine]
		fmt.Fprintf(&b, "\ngoroutine %d status %06b parent %d created by %q at %q\n", p.Goroutine, p.Status, g.Parent, g.CreatedBy, g.CreatedAt)
		for _, set := range r.Sets[p.Goroutine] {
			for _, k := range slices.Sorted(maps.Keys(set)) {
				fmt.Fprintf(&b, "  label %q %q\n", k, set[k])
			}
		}
		for _, f := range r.Stack(p) {
			fmt.Fprintf(&b, "  %s %s:%d\n", f.Func, f.File, f.Line)
		}
	}
	return b.String()
}

// TestGolden reads texts of all supported Go versions, which testdata/stacks/gen.go has printed.
func TestGolden(t *testing.T) {
	for _, file := range testenv.Files(t, "testdata/stacks/*.txt", 5) {
		text := testenv.Must(os.ReadFile(file))
		r, l := readText(text)
		testenv.Golden(t, strings.TrimSuffix(file, ".txt")+".want", describe(r, l), *update)
		testenv.Same(t, file+": samples", len(r.samples), bytes.Count(text, []byte("\n\ngoroutine ")))
		testenv.Same(t, file, l, lost{})
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
				for _, f := range r.Stack(&r.samples[0]) {
					got = append(got, fmt.Sprintf("%s:%d", f.Func, f.Line))
				}
				want := tt.want
				if !waitFrames {
					_, want, _ = strings.Cut(want, ":0 ")
				}
				testenv.FailIf(t, strings.Join(got, " ") != want || r.samples[0].Status != tachyon.GILRequested, "%s, %s: %q with status %b, want %s", state, tt.name, got, r.samples[0].Status, want)
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
	testenv.Same(t, "labels", fmt.Sprint(r.Sets[4]), fmt.Sprint([]map[string]string{ab, {"c": "d", "e f": ""}, ab, nil}))
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
		testenv.Same(t, tt.name, l, lost{dropped: 1, torn: tt.torn})
		testenv.Prints(t, tt.name, "2 4 6", len(r.samples), r.samples[0].Goroutine, r.samples[1].Goroutine)
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
	testenv.Prints(t, "dropped and goroutines in a text that is cut off", "0 1", s.read(stackText(a, b[:20]), false).dropped, s.goroutines)
	testenv.Same(t, "gone", len(r.Ended), 0)
	s.read(stackText(a, b), true)
	s.emit(0, 1, nil)
	testenv.Prints(t, "samples and the second one's frames", "2 2", len(r.samples), len(r.Stack(&r.samples[1])))
	// If every text is cut off, the memory for goroutines must stay bounded.
	for range 2 * oldAge {
		s.read(stackText(a, b[:20]), false)
	}
	testenv.SameList(t, "gone", r.Ended, []uint64{5})
	s.read(stackText(), true)
	testenv.Prints(t, "gone and known", "[5 4] 0", r.Ended, len(s.known))
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
			want := tachyon.GILRequested
			switch {
			case p.Goroutine == 21:
				want = 0 // it waits
			case p.Status&tachyon.OnCPU != 0:
				want = tachyon.HasGIL | tachyon.OnCPU
				n++
				turns[p.Goroutine]++
			}
			testenv.Same(t, p.Goroutine, p.Status, want)
			testenv.Same(t, "frames, without a wait frame", len(p.Stack), 1)
		}
		testenv.Same(t, "running goroutines", n, 3)
	}
	testenv.Same(t, "samples of the running goroutine that are marked", turns[20], 300)
	for id := range uint64(6) {
		testenv.Within(t, "samples of 300 in which a goroutine was running", turns[id+10], 50, 150)
	}
}

// TestUnchanged checks that goroutines with unchanged frames cause no calls of Frame and no
// allocations, even if their headers have changed.
func TestUnchanged(t *testing.T) {
	var s snapshot
	out := newQuiet()
	s.init(out, true)
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

// quiet is an Out that keeps no samples and labels, and counts calls of Frame.
type quiet struct {
	*recorder
	frames int
}

func newQuiet() *quiet { return &quiet{recorder: newRecorder()} }

func (q *quiet) Frame(f tachyon.Frame) uint32                  { q.frames++; return q.recorder.Frame(f) }
func (*quiet) Labels(uint64, time.Duration, map[string]string) {}
func (*quiet) Sample(*source.Sample)                           {}
