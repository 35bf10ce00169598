//go:build peers

package browser

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/page"
	"github.com/gotach/profiler/internal/page/pagetest"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/gotach/profiler/tachyon"
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
	if rows := list[len(list)-1].Row + 1; len(list) < 100 || rows < 2 {
		t.Fatalf("%d squares in %d rows", len(list), rows)
	}
	sum, at := map[string]float64{}, 0.0
	for _, s := range list {
		if s.From != at {
			t.Fatalf("a square begins at %v, the one before ended at %v", s.From, at)
		}
		at = s.To
		if s.Us["busy"] != s.Us["cpu"]+s.Us["core"]+s.Us["blocked"] {
			t.Errorf("square %+v: the kinds do not add up", s)
		}
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
	if sum["busy"] != all || sum["cpu"] != strip["running"] || sum["core"] != strip["runnable"]+strip["no core"] || all == 0 {
		t.Errorf("the squares have %v, the strip %v", sum, strip)
	}
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
		if pause := s.From >= 5e6 && s.To <= 8e6; pause != (s.Found == s.To-s.From) || s.To < 5e6 && s.Found != 0 {
			t.Errorf("square %+v, main.pause from 5 to 8 s", s)
		}
	}
	list := p.squares()
	i := slices.IndexFunc(list, func(s square) bool { return s.From >= 6e6 })
	var places []string
	for _, s := range []square{list[i], list[i+60], list[20]} {
		places = append(places, fmt.Sprintf("at(%f, %f)", s.X, s.Y))
	}
	colours := eval[[]string](p, `(() => { const c = document.getElementById('heat'), f = c.width / c.clientWidth, d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
		const at = (x, y) => { const i = 4 * (Math.floor(y * f) * c.width + Math.floor(x * f)); return d.slice(i, i + 3).join(); }; return [`+strings.Join(places, ", ")+`]; })()`)
	if colours[0] != colours[1] || colours[0] == colours[2] {
		t.Errorf("two squares with the search and one without are %v", colours)
	}
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
	if want := []string{"6.000s – 7.000s", "2.00", "0.00", "0.00", "2.00", "2.00", "6.000s"}; !slices.Equal(cells, want) {
		t.Errorf("the row of the seventh second is %q, want %q", cells, want)
	}
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
		if int64(s.From)%int64(width) != 0 || int64(s.To)%int64(width) != 0 {
			t.Fatalf("square %+v with steps of %v µs", s, width)
		}
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
	if width, fine := eval[float64](p, `gotach.width`), eval[float64](p, `gotach.fine`); width != 128_000 || fine != 1000 {
		t.Fatalf("steps of %v µs, in the strip of %v µs; want 128,000 and 1,000", width, fine)
	}
	list := p.squares()
	if len(list) < 100 {
		t.Errorf("%d squares", len(list))
	}
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
