package page

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// TestMoments adds random times while steps become longer, and compares the gaps with those of the sorted times.
func TestMoments(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		width, m, end := uint64(4), moments{}, 500+rng.Uint64N(3000)
		var times []uint64
		for range 1 + rng.IntN(60) {
			at := rng.Uint64N(end)
			if rng.IntN(2) == 0 && len(times) > 0 {
				at = min(end-1, times[rng.IntN(len(times))]+rng.Uint64N(5))
			}
			times = append(times, at)
			m.add(width, at)
			if rng.IntN(20) == 0 {
				m.double(width)
				width *= 2
			}
		}
		long := 2*width + rng.Uint64N(100)
		slices.Sort(times)
		var want []gap
		last := uint64(0)
		for _, at := range append(times, end) {
			if at-last >= long {
				want = append(want, gap{last, at, 1, at - last})
			}
			last = at
		}
		if got := m.find(width, 0, end, long); !slices.Equal(got, want) {
			t.Fatalf("steps of %d, from %d on: gaps %v, want %v; times %v", width, long, got, want, times)
		}
	}
	list := []gap{{0, 10, 1, 10}, {12, 32, 1, 20}, {40, 50, 1, 10}}
	if got, want := joinGaps(list, 2), []gap{{0, 32, 2, 20}, {40, 50, 1, 10}}; !slices.Equal(got, want) {
		t.Errorf("joined: %v, want %v", got, want)
	}
}

// gappy makes a profile of 10 s with a tick each 10 ms. From 2 to 2.3 s no tick came while a goroutine ran; from 5 to 8 s nothing ran,
// and a tick came each 200 ms.
func gappy(t *testing.T, counts tachyon.Counts) Input {
	r := newRecording(t)
	r.counts = counts
	for ms := uint64(10); ms <= 10_000; ms += 10 {
		idle := ms > 5000 && ms <= 8000
		if ms > 2000 && ms < 2300 || idle && ms%200 != 0 {
			continue
		}
		r.add(2, 1000*ms, 0, wait("chan receive"), frame("main.wait", 20))
		if idle {
			r.add(1, 1000*ms, 0, wait("sleep"), frame("main.pause", 12))
		} else {
			r.add(1, 1000*ms, running, frame("main.work", 10))
		}
	}
	return r.input(10 * time.Second)
}

// TestPageGaps: the strip and its table say when no samples were taken, for how long, and why.
func TestPageGaps(t *testing.T) {
	in := gappy(t, tachyon.Counts{TicksAsked: 10_000, TicksReached: 686, TicksIdle: 2850, TicksForBudget: 6435, Throttled: 40 * time.Millisecond})
	p := open(t, pageOf(t, Options{}, in), "", 1280, 800)
	for id, want := range map[string]string{"gap": "no samples", "rare": "few ticks"} {
		if got := eval[string](p, `document.getElementById(`+quote(id)+`)?.textContent || ''`); got != want {
			t.Errorf("the legend has %q, want %q", got, want)
		}
	}
	r := p.rect("strip")
	hover := func(second float64) string {
		p.do(chromedp.MouseEvent(chromedp.MouseMoved, r.X+second/10*r.Width, r.Y+r.Height/2))
		return eval[string](p, `document.getElementById('tip').textContent`)
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
	p.press("#strip-twin summary")
	p.wait(`document.querySelectorAll('#strip-twin tbody tr').length === 20`)
	column := eval[[]string](p, `[...document.querySelectorAll('#strip-twin tbody tr')].map((r) => r.lastElementChild.textContent)`)
	for row, want := range []string{4: "300ms", 11: "200ms (hardly anything ran)", 19: ""} {
		if want != "" && column[row] != want || row == 19 && column[row] != "" {
			t.Errorf("row %d says %q, want %q; all %q", row, column[row], want, column)
		}
	}

	// Of a selection nobody knows when there were ticks.
	sel := in
	sel.Open = func(o stream.Options) (*stream.Source, error) {
		o.Select = &stream.Selection{States: []string{"running"}}
		return in.Open(o)
	}
	if eval[bool](open(t, pageOf(t, Options{}, sel), "", 1280, 800), `document.getElementById('gap') !== null`) {
		t.Error("a page of a selection shows where it has no samples")
	}
}
