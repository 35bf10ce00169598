//go:build peers

package browser

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/analyze/report"
	"github.com/gotach/profiler/internal/page"
	"github.com/gotach/profiler/internal/page/pagetest"

	"github.com/chromedp/chromedp"

	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
)

// firstWidth is the length of a step of time in µs, where the page has room for all.
const firstWidth = 1000

// TestPeerServedPage: the page that a server sends shows the same as gotach report, for the whole and, after a click, for a selected range in detail.
// When the profile has changed, the page shows that. It fetches only its data.
func TestPeerServedPage(t *testing.T) {
	in, newer := pagetest.Busy(t), pagetest.Contended(t)
	var changed atomic.Bool
	url := pagetest.Serve(t, page.ServerOptions{Options: page.Options{MaxSize: smallPage(t, in)}, Title: "x", Version: func() string { return fmt.Sprint(changed.Load()) },
		Open: func(ctx context.Context, r page.Request) (*page.Opened, error) {
			now := in
			if changed.Load() {
				now = newer
			}
			o, err := pagetest.Selecting(now)(ctx, r)
			o.Growing = true
			return o, err
		}})
	p := openURL(t, url, "", 1280, 800)
	p.compare("functions", in, report.Options{})
	same(t, eval[int](p, `performance.getEntriesByType('resource').filter((r) => r.name.includes('/data/core')).length`), 1)
	if n := eval[float64](p, `gotach.width`); n <= firstWidth {
		t.Fatalf("steps of %v µs; the page leaves nothing out", n)
	}
	a := p.selects(0.25, 0.3)
	p.wait(`document.getElementById('detail')`)
	drawn := `document.documentElement.dataset.drawn > 0`
	p.do(chromedp.Navigate(eval[string](p, `document.getElementById('detail').href`)))
	p.wait(`document.getElementById('whole') && ` + drawn)
	same(t, eval[float64](p, `gotach.width`), firstWidth)
	p.compare("functions", pagetest.During(in, page.Span{From: pagetest.Begin + a[0], To: pagetest.Begin + a[1]}), report.Options{})
	p.do(chromedp.Navigate(eval[string](p, `document.getElementById('whole').href`)))
	p.wait(`!document.getElementById('whole') && ` + drawn)
	p.table("functions")
	eval[bool](p, `(() => { [...document.querySelectorAll('#functions tbody button')].find((b) => b.textContent === 'main.serve').click(); return true; })()`)
	p.wait(`gotach.settings().selected >= 0`)
	changed.Store(true)
	p.wait(`[...document.querySelectorAll('#functions tbody button')].some((b) => b.textContent === 'main.parse')`)
	p.compare("functions", newer, report.Options{})
	// A function that was selected still is, though its number is another one and its file the same.
	if chips := p.text("#chips"); !strings.Contains(chips, "callers of main.serve") {
		t.Errorf("chips %q", chips)
	}
}

// smallPage returns a size for which the steps of time of an input's page must be longer.
func smallPage(t *testing.T, in page.Input) int64 {
	t.Helper()
	size := testenv.Must(os.Stat(pagetest.Write(t, page.Options{}, in))).Size()
	for step := size / 30; ; {
		size -= step
		if d := testenv.Must(page.Build([]page.Input{in}, page.Options{MaxSize: size})); d.Head.Width > firstWidth {
			return size
		}
	}
}

// TestPeerServedFindings: on a served page, locks, requests and leaks are of the selected range.
func TestPeerServedFindings(t *testing.T) {
	in := pagetest.Contended(t)
	url := pagetest.Serve(t, page.ServerOptions{Title: "x", Open: pagetest.Selecting(in)})
	p := openURL(t, url, "#t=locks", 1280, 800)
	const waited = `(() => { const c = document.querySelector('.locks tbody td'); return c ? c.dataset.ns : ''; })()`
	check := func(what string, span page.Span) {
		t.Helper()
		locks := testenv.Must(locks.Find(samplesOf(pagetest.During(in, span), stream.Options{Objects: true}), locks.Options{}))
		want := fmt.Sprint(int64(locks.Locks[0].Waited))
		p.wait(waited + ` !== ''`)
		same(t, eval[string](p, waited), want)
	}
	check("the whole", page.Span{})
	a := p.selects(0.3, 0.6)
	p.wait(`document.getElementById('findings-note').textContent.startsWith('Of the selected range')`)
	check("a range", page.Span{From: pagetest.Begin + a[0], To: pagetest.Begin + a[1]})
	p.key(escape, `document.getElementById('findings-note').textContent === ''`) // takes the range back
	check("the whole again", page.Span{})
}
