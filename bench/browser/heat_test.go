//go:build peers

package browser

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/page"
	"github.com/gotach/profiler/internal/page/pagetest"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// A square is a square of the heat map, with the place of its middle on the canvas.
type square struct {
	Row            int
	From, To, X, Y float64
	Us             map[string]float64
	Found          float64
}

func (p *tab) squares() []square {
	p.t.Helper()
	return eval[[]square](p, `gotach.squares()`)
}

// at returns the middle of a square in the window.
func (p *tab) at(s square) (x, y float64) {
	p.t.Helper()
	r := p.rect("#heat")
	return r.X + s.X, r.Y + s.Y
}

// data returns the time of the table of functions in µs.
func (p *tab) data() float64 {
	p.t.Helper()
	p.table("functions")
	p.wait(`document.documentElement.dataset.hash === location.hash`)
	return eval[float64](p, `Number(document.getElementById('functions').dataset.all) / 1000`)
}

// TestPeerPageHeat: the squares of the heat map have the sums of the strip and of the table; a click, a drag and a drag with Shift
// select what is in them.
func TestPeerPageHeat(t *testing.T) {
	p := open(t, pagetest.Write(t, page.Options{}, pagetest.Server(t)), "", 1280, 800)
	same(t, eval[bool](p, `document.getElementById('heat').checkVisibility()`), false) // of two seconds
	p.press("#heat-open", `gotach.settings().heat`)
	list := p.squares()
	testenv.FailIf(t, len(list) < 100 || list[len(list)-1].Row == 0, "%d squares in %d rows", len(list), list[len(list)-1].Row+1)
	sum, at := map[string]float64{}, 0.0
	for _, s := range list {
		testenv.Same(t, "a square's begin, and the end of the one before", s.From, at)
		at = s.To
		testenv.FailIf(t, s.Us["busy"] != s.Us["cpu"]+s.Us["core"]+s.Us["blocked"], "square %+v: the kinds do not add up", s)
		for kind, us := range s.Us {
			sum[kind] += us
		}
	}
	// A range of all has the time of the squares: without what is at no moment.
	p.keys("s")
	p.key(enter, `gotach.settings().range`)
	strip := eval[map[string]float64](p, `gotach.classes(...gotach.settings().range)`)
	all := 0.0
	for class, us := range strip {
		if class != "idle" {
			all += us
		}
	}
	testenv.FailIf(t, sum["busy"] != all || sum["cpu"] != strip["running"] || sum["core"] != strip["runnable"]+strip["no core"] || all == 0, "the squares have %v, the strip %v", sum, strip)
	p.sets("r", "range", "null")
	p.press("#heat-open", `gotach.settings().heat`)

	x, y := p.at(list[30])
	p.do(chromedp.MouseEvent(chromedp.MouseMoved, x, y))
	p.wait(`!document.getElementById('tip').hidden && document.getElementById('tip').textContent.includes('wait for a core')`)
	p.do(chromedp.MouseClickXY(x, y))
	p.setting("range", fmt.Sprintf("[%.0f,%.0f]", list[30].From, list[30].To))
	same(t, p.data(), list[30].Us["busy"])
	x, y = p.at(list[30])
	p.do(chromedp.MouseClickXY(x, y)) // again
	p.setting("range", "null")

	drag := func(a, b square, options ...chromedp.MouseOption) {
		ax, ay := p.at(a)
		bx, by := p.at(b)
		p.drag(ax, ay, bx, by, options...)
	}
	drag(list[60], list[40]) // backwards, over the end of a row
	p.setting("range", fmt.Sprintf("[%.0f,%.0f]", list[40].From, list[60].To))
	want := 0.0
	for _, s := range list[40:61] {
		want += s.Us["busy"]
	}
	same(t, p.data(), want)
	drag(list[70], list[80], chromedp.ButtonModifiers(chromedp.ModifierShift))
	p.setting("second", fmt.Sprintf("[%.0f,%.0f]", list[70].From, list[80].To))
	p.wait(`document.getElementById('flame-bar').textContent.includes('more in B')`)
}

// TestPeerPageHeatSearch: the search marks squares, the address keeps what is shown, and the keyboard and the table do what the
// pointer does.
func TestPeerPageHeatSearch(t *testing.T) {
	in := gappy(t, tachyon.Counts{})
	file := pagetest.Write(t, page.Options{}, in)
	p := open(t, file, "#hm=1&hk=busy&q=main.pause", 1280, 800)
	p.setting("heatKind", `"busy"`)
	for _, s := range p.squares() {
		// 0 to 5 and 8 to 10 s: one goroutine is blocked; from 5 to 8 s the other one is too, in main.pause.
		pause := s.From >= 5e6 && s.To <= 8e6
		testenv.FailIf(t, pause != (s.Found == s.To-s.From) || s.To < 5e6 && s.Found != 0, "square %+v, main.pause from 5 to 8 s", s)
	}
	list := p.squares()
	i := slices.IndexFunc(list, func(s square) bool { return s.From >= 6e6 })
	var places []string
	for _, s := range []square{list[i], list[i+60], list[20]} {
		places = append(places, fmt.Sprintf("at(%f, %f)", s.X, s.Y))
	}
	colours := eval[[]string](p, `(() => { const c = document.getElementById('heat'), f = c.width / c.clientWidth, d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
		const at = (x, y) => { const i = 4 * (Math.floor(y * f) * c.width + Math.floor(x * f)); return d.slice(i, i + 3).join(); }; return [`+strings.Join(places, ", ")+`]; })()`)
	testenv.FailIf(t, colours[0] != colours[1] || colours[0] == colours[2], "two squares with the search and one without are %v", colours)
	settings := eval[string](p, `JSON.stringify(gotach.settings())`)
	same(t, eval[string](open(t, file, eval[string](p, `location.hash`), 1280, 800), `JSON.stringify(gotach.settings())`), settings)

	p.sets("h", "heat", "false")
	p.sets("h", "heat", "true")
	p.wait(`document.activeElement.id === 'heat'`)
	p.key(kb.ArrowDown+kb.ArrowDown+right, `document.getElementById('heat-status').textContent.startsWith('1.020s')`)
	p.sets(enter, "range", "[1020000,1040000]")
	p.keys(kb.ArrowDown, chromedp.ModifierShift)
	p.setting("range", "[1020000,2040000]")
	p.sets("r", "range", "null")
	p.keys("h")
	p.twin("#heat-twin", 10)
	cells := eval[[]string](p, `[...document.querySelectorAll('#heat-twin tbody tr')[6].cells].map((c) => c.textContent)`)
	testenv.SameList(t, "the row of the seventh second", cells, []string{"6.000s – 7.000s", "2.00", "0.00", "0.00", "2.00", "2.00", "6.000s"})
	p.tabTo(`e.dataset.key === 'heat6'`)
	p.sets(enter, "range", "[6000000,7000000]")
}

// TestPeerPageHeatLong: a page of some minutes begins with a heat map of at most 100 rows, whose squares are whole steps.
func TestPeerPageHeatLong(t *testing.T) {
	r := pagetest.New(t)
	for s := uint64(1); s <= 1000; s++ {
		r.Add(1, s*1_000_000-s%7*1000, pagetest.Running, pagetest.Frame("main.work", 10))
	}
	p := open(t, pagetest.Write(t, page.Options{}, r.Input(1000e9)), "", 1280, 800)
	p.setting("heat", "true")
	list, width := p.squares(), eval[float64](p, `gotach.width`)
	same(t, list[len(list)-1].Row+1, 100)
	eval[bool](p, `(() => { location.hash = 'v=0.501000000'; return true; })()`)
	p.setting("view", "[0,501000000]")
	part := p.squares()
	same(t, part[len(part)-1].Row+1, 51)
	sum := 0.0
	for _, s := range list {
		sum += s.Us["cpu"]
		testenv.FailIf(t, int64(s.From)%int64(width) != 0 || int64(s.To)%int64(width) != 0, "square %+v with steps of %v µs", s, width)
	}
	if got := p.data(); got != sum+1234.567 { // what was not seen is at no moment
		t.Errorf("the squares have %v µs on CPU, the table %v", sum, got)
	}
}

// TestPeerPageOverview: where the steps of the stacks are long, those of the strip and the heat map are not, and the sums of both agree.
func TestPeerPageOverview(t *testing.T) {
	in := pagetest.Server(t)
	o := page.Options{Events: 200}
	p := open(t, pagetest.Write(t, o, in), "#hm=1", 1280, 800)
	testenv.SameList(t, "steps, and those of the strip, µs", eval[[]int](p, `[gotach.width, gotach.fine]`), []int{128_000, 1000})
	list := p.squares()
	testenv.FailIf(t, len(list) < 100, "%d squares", len(list))
	p.sets("d", "idle", "true")
	all := 0.0
	for _, s := range p.squares() {
		all += s.Us["busy"]
	}
	p.selects(0, 0.999)
	const rest = 9*1000 - 8*13.5*37 + 1234.567 // the first samples begin before the start, and some time was not seen
	same(t, p.data(), all+rest)
	p.sets("r", "range", "null")
}

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
		testenv.Has(t, fmt.Sprint("at ", second, " s"), got, want...)
		testenv.FailIf(t, len(want) == 0 && strings.Contains(got, "no sample"), "at %v s it says %q", second, got)
	}
	p.press("#strip-twin summary", `document.querySelectorAll('#strip-twin tbody tr').length === 20`)
	column := eval[[]string](p, `[...document.querySelectorAll('#strip-twin tbody tr')].map((r) => r.lastElementChild.textContent)`)
	testenv.SameList(t, "rows 5, 12 and 20", []string{column[4], column[11], column[19]}, []string{"300ms", "200ms (hardly anything ran)", ""})

	// Of a selection nobody knows when there were ticks.
	sel := pagetest.Restricted(in, &stream.Selection{States: []string{"running"}})
	p = open(t, pagetest.Write(t, page.Options{}, sel), "", 1280, 800)
	testenv.Same(t, "a page of a selection shows where it has no samples", eval[bool](p, `document.getElementById('gap') !== null`), false)
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
	same(t, eval[string](p, `document.querySelector('#strip-twin thead tr').lastElementChild.textContent`), "garbage collector")
	for row, want := range map[int]string{2: "0.00", 6: "1.00", 7: "1.00", 10: "0.00", 14: "1.00", 15: "1.00", 18: "0.00"} {
		testenv.FailIf(t, column[row] != want, "%d ms: %s cores, want %s; all %v", 50*row, column[row], want, column)
	}
	p = open(t, pagetest.Write(t, page.Options{}, pagetest.Server(t)), "", 1280, 800)
	testenv.Same(t, "a profile in which the garbage collector did nothing has it in the legend", eval[bool](p, `document.getElementById('gc') !== null`), false)
}
