//go:build peers

package browser

import (
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/page"
	"github.com/gotach/profiler/internal/page/pagetest"

	"github.com/chromedp/chromedp"

	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// gappy makes a profile of 10 s with a tick each 10 ms. From 2 to 2.3 s no tick came while a goroutine ran; from 5 to 8 s nothing ran,
// and a tick came each 200 ms.
func gappy(t *testing.T, counts tachyon.Counts) page.Input {
	r := pagetest.New(t)
	r.Counts = counts
	for ms := uint64(10); ms <= 10_000; ms += 10 {
		idle := ms > 5000 && ms <= 8000
		if ms > 2000 && ms < 2300 || idle && ms%200 != 0 {
			continue
		}
		r.Add(2, 1000*ms, 0, pagetest.Wait("chan receive"), pagetest.Frame("main.wait", 20))
		if idle {
			r.Add(1, 1000*ms, 0, pagetest.Wait("sleep"), pagetest.Frame("main.pause", 12))
		} else {
			r.Add(1, 1000*ms, pagetest.Running, pagetest.Frame("main.work", 10))
		}
	}
	return r.Input(10 * time.Second)
}

// TestPeerPageGaps: the strip and its table say when no samples were taken, for how long, and why.
func TestPeerPageGaps(t *testing.T) {
	in := gappy(t, tachyon.Counts{TicksAsked: 10_000, TicksReached: 686, TicksIdle: 2850, TicksForBudget: 6435, Throttled: 40 * time.Millisecond})
	p := open(t, pagetest.Write(t, page.Options{}, in), "", 1280, 800)
	for id, want := range map[string]string{"gap": "no samples", "rare": "few ticks"} {
		same(t, eval[string](p, `document.getElementById(`+quote(id)+`)?.textContent || ''`), want)
	}
	r := p.rect("#strip")
	hover := func(second float64) string {
		p.do(chromedp.MouseEvent(chromedp.MouseMoved, r.X+second/10*r.Width, r.Y+r.Height/2))
		return p.text("#tip")
	}
	for second, want := range map[float64][]string{
		2.15: {"no sample for 300ms, usually one every 10.4ms", "29 ticks came too late, 6,435 were left out for the budget, the container was throttled for 40.0ms"},
		6.5:  {"15 times in 3.00s no sample for up to 200ms", "hardly anything ran"},
		9:    {},
	} {
		got := hover(second)
		for _, text := range want {
			if !strings.Contains(got, text) {
				t.Errorf("at %v s it says %q, want %q in it", second, got, text)
			}
		}
		if len(want) == 0 && strings.Contains(got, "no sample") {
			t.Errorf("at %v s it says %q", second, got)
		}
	}
	p.press("#strip-twin summary", `document.querySelectorAll('#strip-twin tbody tr').length === 20`)
	column := eval[[]string](p, `[...document.querySelectorAll('#strip-twin tbody tr')].map((r) => r.lastElementChild.textContent)`)
	for row, want := range []string{4: "300ms", 11: "200ms (hardly anything ran)", 19: ""} {
		if want != "" && column[row] != want || row == 19 && column[row] != "" {
			t.Errorf("row %d says %q, want %q; all %q", row, column[row], want, column)
		}
	}

	// Of a selection nobody knows when there were ticks.
	sel := pagetest.Restricted(in, &stream.Selection{States: []string{"running"}})
	if eval[bool](open(t, pagetest.Write(t, page.Options{}, sel), "", 1280, 800), `document.getElementById('gap') !== null`) {
		t.Error("a page of a selection shows where it has no samples")
	}
}

// TestPeerPageCollector: the strip shows when the garbage collector worked: its own goroutines, and those of the program that help it.
func TestPeerPageCollector(t *testing.T) {
	r := pagetest.New(t)
	for ms := uint64(10); ms <= 1000; ms += 10 {
		work := []tachyon.Frame{pagetest.Frame("main.work", 10)}
		if ms > 700 && ms <= 800 {
			work = append([]tachyon.Frame{{Func: "runtime.gcDrainN", File: "/go/mgcmark.go", Line: 5}, {Func: "runtime.gcAssistAlloc", File: "/go/mgcmark.go", Line: 9}}, work...)
		}
		r.Add(1, 1000*ms, pagetest.Running, work...)
		if ms < 300 || ms > 400 {
			continue
		}
		r.AddRuntime(5, 1000*ms, pagetest.Running, tachyon.Frame{Func: "runtime.scanobject", File: "/go/mgcmark.go", Line: 1}, tachyon.Frame{Func: "runtime.gcBgMarkWorker", File: "/go/mgc.go", Line: 2})
	}
	p := open(t, pagetest.Write(t, page.Options{}, r.Input(time.Second)), "", 1280, 800)
	p.press("#strip-twin summary", `document.querySelectorAll('#strip-twin tbody tr').length === 20`)
	column := eval[[]string](p, `[...document.querySelectorAll('#strip-twin tbody tr')].map((r) => r.lastElementChild.textContent)`)
	if head := eval[string](p, `document.querySelector('#strip-twin thead tr').lastElementChild.textContent`); head != "garbage collector" {
		t.Fatalf("the last column is %q", head)
	}
	for row, want := range map[int]string{2: "0.00", 6: "1.00", 7: "1.00", 10: "0.00", 14: "1.00", 15: "1.00", 18: "0.00"} {
		if column[row] != want {
			t.Errorf("%d ms: %s cores, want %s; all %v", 50*row, column[row], want, column)
		}
	}
	if eval[bool](open(t, pagetest.Write(t, page.Options{}, pagetest.Server(t)), "", 1280, 800), `document.getElementById('gc') !== null`) {
		t.Error("a profile in which the garbage collector did nothing has it in the legend")
	}
}
