//go:build peers

package browser

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/gotach/profiler/internal/page"
	"github.com/gotach/profiler/internal/page/pagetest"
	"github.com/gotach/profiler/tachyon"
)

// treeRows returns the level and the name of the rows of the call tree that are shown.
func (p *tab) treeRows() []string {
	p.t.Helper()
	return eval[[]string](p, `[...document.querySelectorAll('#tree tbody tr')].map((r) => r.getAttribute('aria-level') + ' ' + r.querySelector('.name').textContent.replace(/^[▾▸]/, '').trim().split(' ')[0])`)
}

// TestPeerPageTree: the call tree has the times of the flame graph, and unfolds with the keyboard and with a click.
func TestPeerPageTree(t *testing.T) {
	p := open(t, pagetest.Write(t, page.Options{}, pagetest.Server(t)), "", 1280, 800)
	generic := p.boxes(pagetest.Generic)[0]
	p.sets("v", "graph", `"tree"`)
	p.key("f", `document.activeElement.getAttribute('aria-level') === '1'`)
	// What nearly all time is in is unfolded at first.
	if got := strings.Join(p.treeRows()[:3], ", "); got != "1 all, 2 main.serve, 3 main.(*box[go.shape.struct" {
		t.Errorf("the tree begins with %s", got)
	}
	at := func(name string) string {
		return `document.activeElement.querySelector('.name').textContent.includes(` + quote(name) + `)`
	}
	p.key(kb.ArrowDown+kb.ArrowDown, at(".get"))
	if got := eval[float64](p, `Number(document.activeElement.querySelector('[data-ns]').dataset.ns) / 1000`); got != math.Round(generic.Us) {
		t.Errorf("%s has %v µs in the tree, %v in the graph", generic.Name, got, generic.Us)
	}
	p.key(right, `document.activeElement.getAttribute('aria-expanded') === 'true'`)
	p.key(right, at("main.hash"))
	p.key(kb.ArrowLeft, at(".get"))
	p.key(kb.ArrowLeft, `document.activeElement.getAttribute('aria-expanded') === 'false'`)
	p.key("*", `document.activeElement.getAttribute('aria-expanded') === 'true'`)
	p.press("#tree tbody tr:nth-child(2)", `document.querySelectorAll('#tree tbody tr').length < 6`)
	p.keys(enter)
	p.wait(`gotach.settings().selected >= 0 && document.getElementById('flame-bar').textContent.includes('Callees of: main.serve')`)
}

// TestPeerPageInTime: the stacks of one goroutine from left to right. What is the same function without a pause is one box, also if what it calls changes.
func TestPeerPageInTime(t *testing.T) {
	r := pagetest.New(t)
	main := pagetest.Frame("main.main", 10)
	for ms := uint64(0); ms <= 2000; ms++ {
		switch {
		case ms < 500:
			r.Add(1, 1000*ms, pagetest.Running, pagetest.Frame("main.read", 20), main)
		case ms < 1500:
			r.Add(1, 1000*ms, 0, pagetest.Wait("sleep"), pagetest.Frame("main.pause", 30), main)
		default:
			r.Add(1, 1000*ms, pagetest.Running, pagetest.Frame("main.read", 21), main)
		}
	}
	r.Goroutines = append(r.Goroutines, tachyon.Goroutine{ID: 1})
	p := open(t, pagetest.Write(t, page.Options{}, r.Input(2*time.Second)), "#gv=time", 1280, 800)
	p.press("[data-key=busiest]", `gotach.boxes().length > 1`)
	all := p.boxes("main.main")
	if len(all) != 1 {
		t.Fatalf("main.main is in the boxes %+v", all)
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 3 {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	quarter := all[0].W / 4
	for i, b := range p.boxes("main.read") {
		near("the begin of main.read", b.X-all[0].X, 3*quarter*float64(i))
	}
	reads := p.boxes("main.read")
	if len(reads) != 2 || len(p.boxes("main.pause")) != 1 {
		t.Fatalf("the boxes are %+v", eval[[]box](p, `gotach.boxes()`))
	}
	near("the width of main.pause", p.boxes("main.pause")[0].W, 2*quarter)
	// A click draws the time of a box only; Backspace all of it.
	p.click("main.pause", `gotach.settings().view`)
	view := eval[[]float64](p, `gotach.settings().view.map((t) => t / 1000)`)
	near("the begin of the drawn time", view[0], 500)
	near("its end", view[1], 1500)
	p.key("f", `document.activeElement.id === 'flame'`)
	p.sets(kb.Backspace, "view", "null")
}
