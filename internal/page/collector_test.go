package page

import (
	"testing"
	"time"

	"github.com/gotach/profiler/tachyon"
)

// TestPageCollector: the strip shows when the garbage collector worked: its own goroutines, and those of the program that help it.
func TestPageCollector(t *testing.T) {
	r := newRecording(t)
	for ms := uint64(10); ms <= 1000; ms += 10 {
		work := []tachyon.Frame{frame("main.work", 10)}
		if ms > 700 && ms <= 800 {
			work = append([]tachyon.Frame{{Func: "runtime.gcDrainN", File: "/go/mgcmark.go", Line: 5}, {Func: "runtime.gcAssistAlloc", File: "/go/mgcmark.go", Line: 9}}, work...)
		}
		r.add(1, 1000*ms, running, work...)
		if ms < 300 || ms > 400 {
			continue
		}
		s := tachyon.Sample{Thread: 5, Interpreter: tachyon.Runtime, Time: begin + 1000*ms, Status: running}
		if err := r.w.WriteFrames(&s, []tachyon.Frame{{Func: "runtime.scanobject", File: "/go/mgcmark.go", Line: 1}, {Func: "runtime.gcBgMarkWorker", File: "/go/mgc.go", Line: 2}}); err != nil {
			t.Fatal(err)
		}
	}
	p := open(t, pageOf(t, Options{}, r.input(time.Second)), "", 1280, 800)
	p.press("#strip-twin summary")
	p.wait(`document.querySelectorAll('#strip-twin tbody tr').length === 20`)
	column := eval[[]string](p, `[...document.querySelectorAll('#strip-twin tbody tr')].map((r) => r.lastElementChild.textContent)`)
	if head := eval[string](p, `document.querySelector('#strip-twin thead tr').lastElementChild.textContent`); head != "garbage collector" {
		t.Fatalf("the last column is %q", head)
	}
	for row, want := range map[int]string{2: "0.00", 6: "1.00", 7: "1.00", 10: "0.00", 14: "1.00", 15: "1.00", 18: "0.00"} {
		if column[row] != want {
			t.Errorf("%d ms: %s cores, want %s; all %v", 50*row, column[row], want, column)
		}
	}
	if eval[bool](open(t, pageOf(t, Options{}, server(t)), "", 1280, 800), `document.getElementById('gc') !== null`) {
		t.Error("a profile in which the garbage collector did nothing has it in the legend")
	}
}
