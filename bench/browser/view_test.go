//go:build peers

package browser

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/gotach/profiler/internal/analyze/report"
	"github.com/gotach/profiler/internal/page"
	"github.com/gotach/profiler/internal/page/pagetest"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
)

// compare compares the page's table of functions or of lines with the rows that gotach report --json prints.
func (p *tab) compare(table string, in page.Input, o report.Options) {
	p.t.Helper()
	by, name := profile.ByFunction, `r.querySelector('button').textContent, r.dataset.file`
	if table == "lines" {
		by, name = profile.ByLine, `r.dataset.file, r.dataset.line`
	}
	r := pagetest.Report(in, o, by)
	var want []string
	for _, row := range r.Rows {
		if by == profile.ByFunction && row.Total != 0 { // with latency: nobody was faster without it
			want = append(want, fmt.Sprintf("%s|%s|%d|%d|%d", row.Name, row.File, row.Self, row.Total, row.SelfCPU))
		} else if by == profile.ByLine {
			want = append(want, fmt.Sprintf("%s|%d|%d|%d|%d", row.File, row.Line, row.Self, row.Total, row.SelfCPU))
		}
	}
	p.table(table)
	p.wait(`document.documentElement.dataset.hash === location.hash`)
	eval[bool](p, `(() => { document.querySelector('[data-key=more]')?.click(); return true; })()`)
	p.wait(`!document.querySelector('[data-key=more]')`)
	got := eval[[]string](p, `[...document.querySelectorAll('#`+table+` tbody tr[data-file]')].map((r) => [`+name+`, ...[...r.querySelectorAll('[data-ns]')].slice(0, 3).map((c) => c.dataset.ns)].join('|'))`)
	slices.Sort(got)
	slices.Sort(want)
	testenv.FailIf(p.t, !slices.Equal(got, want) || len(got) == 0, "the table of %s has\n%s\nthe report has\n%s", table, strings.Join(got, "\n"), strings.Join(want, "\n"))
	all := eval[string](p, `document.getElementById('functions')?.dataset.all ?? ''`)
	testenv.FailIf(p.t, table == "functions" && all != fmt.Sprint(int64(r.Shown)), "all time is %s ns, the report has %d", all, int64(r.Shown))
}

// TestPeerPageNumbers: the page shows the same as gotach report --json, to the nanosecond.
func TestPeerPageNumbers(t *testing.T) {
	in := pagetest.Server(t)
	file := pagetest.Write(t, page.Options{}, in)
	p := open(t, file, "", 1280, 800)
	p.compare("functions", in, report.Options{})
	p.sets("d", "idle", "true")
	p.compare("functions", in, report.Options{Idle: true})
	p.sets("w", "weight", `"cpu"`)
	p.compare("functions", in, report.Options{Weight: "cpu"})
	p.sets("w", "weight", `"latency"`)
	p.compare("functions", in, report.Options{Weight: "latency"})
	open(t, file, "#t=lines", 1280, 800).compare("lines", in, report.Options{})
}

// TestPeerPageRange: a drag selects a range, whose numbers are those of report --since --until. A second one is compared with
// it.
func TestPeerPageRange(t *testing.T) {
	in := pagetest.Server(t)
	p := open(t, pagetest.Write(t, page.Options{}, in), "#i=1", 1280, 800)
	a := p.selects(0.25, 0.4)
	testenv.Within(t, "the begin of the range, µs", a[0], 440_000, 560_000)
	p.compare("functions", pagetest.During(in, page.Span{From: pagetest.Begin + a[0], To: pagetest.Begin + a[1]}), report.Options{Idle: true})

	p.selects(0.6, 0.75, chromedp.ButtonModifiers(chromedp.ModifierShift))
	p.wait(`gotach.settings().second`)
	p.wait(`document.getElementById('flame-bar').textContent.includes('more in B')`)
	// Hashing became more, waiting for the lock did not.
	for name, sign := range map[string]string{"main.hash": "+", "main.pause": "−"} {
		got := eval[string](p, `[...document.querySelectorAll('#functions tbody tr[data-file]')].find((r) => r.querySelector('button').textContent === `+quote(name)+`).children[2].textContent`)
		testenv.FailIf(t, !strings.HasPrefix(got, sign), "%s: %q in the second range, want %s", name, got, sign)
	}
	p.sets(escape, "second", "null")
	p.sets(escape, "range", "null")
}

// TestPeerPageFlame: zoom, invert, search with share and next match, callers, removal.
func TestPeerPageFlame(t *testing.T) {
	in := pagetest.Server(t)
	p := open(t, pagetest.Write(t, page.Options{}, in), "#t=functions", 1280, 800)
	width := p.rect("#flame").Width
	whole := p.boxes("main.hash")
	p.click(pagetest.Generic, `gotach.settings().zoom.length === 2`)
	p.wait(`gotach.boxes().some((b) => b.name === ` + quote(pagetest.Generic) + ` && b.w > ` + fmt.Sprint(width-2) + `)`)
	testenv.Same(t, "boxes of main.pause, zoomed in", len(p.boxes("main.pause")), 0)
	p.sets(escape, "zoom", "[]")

	p.sets("i", "invert", "true")
	p.wait(`gotach.boxes().some((b) => b.y > 0 && b.y < 20 && b.name === '[sleep]')`)
	hash := p.boxes("main.hash")
	if len(hash) != 2 || hash[0].Y != 18 || hash[1].Y != 36 { // the other one is below [runnable]
		t.Errorf("inverted: main.hash is at %+v", hash)
	}
	p.sets("i", "invert", "false")
	p.wait(`gotach.boxes().filter((b) => b.name === 'main.hash').length === ` + fmt.Sprint(len(whole)))

	p.search("app.go:60")
	share := 100 * p.boxes("main.(*cache).get")[0].Us / eval[float64](p, `Number(document.getElementById('functions').dataset.all) / 1000`)
	p.wait(`document.getElementById('matched').value.startsWith('` + fmt.Sprintf("%.1f", share) + `')`)
	p.key(enter, `document.getElementById('status').textContent.startsWith('main.(*cache).get')`)
	p.sets(escape, "query", `""`)
	p.search("hash")
	p.key(enter, `document.getElementById('status').textContent.startsWith('main.hash')`)
	first := p.text("#status")
	p.key(enter, `document.getElementById('status').textContent !== `+quote(first))
	p.sets(escape, "query", `""`)

	p.click("main.hash", `gotach.settings().selected >= 0`, chromedp.ButtonModifiers(chromedp.ModifierShift))
	p.wait(`gotach.boxes().some((b) => b.name === 'main.hash' && b.w > ` + fmt.Sprint(width-2) + `)`)
	callers, own := p.boxes("main.serve"), p.boxes("main.hash")
	testenv.FailIf(t, len(callers) != 2 || callers[0].Y >= own[0].Y, "the callers of main.hash %+v are %+v, want both above", own, callers)
	p.sets(escape, "selected", "-1")

	p.click("main.hash", `gotach.settings().removed.length === 1`, chromedp.ButtonModifiers(chromedp.ModifierAlt))
	p.wait(`!gotach.boxes().some((b) => b.name === 'main.hash')`)
	p.sets("r", "removed", "[]")
}

// TestPeerPageHash: the address has what was chosen; opened elsewhere it shows the same.
func TestPeerPageHash(t *testing.T) {
	in := pagetest.Server(t)
	file := pagetest.Write(t, page.Options{}, in)
	p := open(t, file, "", 1280, 800)
	p.selects(0.5, 0.7)
	p.sets("d", "idle", "true")
	p.click("main.serve", `gotach.settings().zoom.length === 1`)
	p.search("hash & <b>")
	p.wait(`document.documentElement.dataset.hash === location.hash`)
	hash := eval[string](p, `location.hash`)
	moved := eval[string](p, `(() => { const s = document.getElementById('strip'); for (let i = 0; i < 401; i++) s.dispatchEvent(new WheelEvent('wheel', {deltaY: i % 2 ? 100 : -100, ctrlKey: true})); return location.hash; })()`)
	testenv.Same(t, "the address in the middle of a movement, written once for a frame", moved, hash)
	p.wait(`document.documentElement.dataset.hash === location.hash`)
	settings := eval[string](p, `JSON.stringify(gotach.settings())`)
	hash = eval[string](p, `location.hash`)
	q := open(t, file, hash, 1280, 800)
	same(t, eval[string](q, `JSON.stringify(gotach.settings())`), settings)
	testenv.Same(t, "the table of "+hash, q.text("#table"), p.text("#table"))
	// An address that does not fit shows everything.
	bad := open(t, file, "#r=9-1&z=99999.-3&s=77777&g=1000&q=%zz&w=x&c=&gr=-7&l=99999&t=constructor", 1280, 800)
	testenv.FailIf(t, eval[int](bad, `document.querySelectorAll('#table tbody tr').length`) == 0, "with a wrong address the table is empty")
}

// TestPeerPageTheme: dark and light by the key, the button and the system's setting. TestPeerPageAccessible looks at the contrast of both.
func TestPeerPageTheme(t *testing.T) {
	p := open(t, pagetest.Write(t, page.Options{}, pagetest.Server(t)), "", 1280, 800)
	ground := func() string { return eval[string](p, `getComputedStyle(document.documentElement).backgroundColor`) }
	p.wait(`document.documentElement.dataset.theme === 'light'`)
	light := ground()
	p.key("t", `document.documentElement.dataset.theme === 'dark'`)
	testenv.FailIf(t, ground() == light, "dark and light have the ground %s", light)
	p.press("#theme", `document.documentElement.dataset.theme === 'light'`)
}

// TestPeerPageKeyboard uses the page with the keyboard alone: the help, the strip, and the tables that stand for the graphs.
func TestPeerPageKeyboard(t *testing.T) {
	p := open(t, pagetest.Write(t, page.Options{}, pagetest.Server(t)), "#t=functions", 1280, 800)
	p.key("c", `document.getElementById('chips').textContent.startsWith('Select a range first')`)
	p.key("?", `document.getElementById('help').open && document.getElementById('help-keys').rows.length > 15`)
	testenv.Same(t, "px of the help that are not seen", eval[int](p, `(() => { const d = document.getElementById('help'); return d.scrollTop + d.scrollHeight - d.clientHeight; })()`), 0)
	p.key(escape, `!document.getElementById('help').open`)
	p.key("s", `document.activeElement.id === 'strip'`)
	p.key(right, `gotach.settings().range`)
	a := eval[[]int64](p, `gotach.settings().range`)
	p.keys(right, chromedp.ModifierShift)
	p.wait(`gotach.settings().range[1] > ` + fmt.Sprint(a[1]))
	p.key("c", `document.getElementById('chips').textContent.endsWith('compared with the selected one.')`)
	p.key(right, `gotach.settings().second`)
	p.sets("r", "range", "null")

	// Tab to the strip's table, open it, and select a range there.
	p.keys("s")
	p.twin("#strip-twin", 20)
	p.enter(`e.dataset.key === 'time3'`, `gotach.settings().range`)
	same(t, eval[string](p, `document.activeElement.dataset.key`), "time3")
	p.sets("r", "range", "null")

	// The flame graph's: zoom into a function.
	p.keys("f")
	p.key(kb.ArrowDown+kb.ArrowDown, `document.getElementById('status').textContent.startsWith('main.serve')`)
	p.key(enter, `gotach.settings().zoom.length === 1`)
	p.sets(kb.Backspace, "zoom", "[]")
	p.enter(`e.id === 'tab-functions'`, `document.getElementById('functions')`)

	// The table of functions: callers of one.
	p.enter(`e.textContent === 'main.pause' && e.closest('#functions')`, `/main\.pause [0-9.]+s, [0-9.]+ % of it$/.test(document.getElementById('flame-bar').textContent)`)
}

// TestPeerPageText: what the profile says is text on the page, whatever it has in it.
func TestPeerPageText(t *testing.T) {
	p := open(t, pagetest.Write(t, page.Options{}, pagetest.Server(t)), "", 1280, 800)
	same(t, p.text("#title"), "x "+pagetest.Evil)
	for us, want := range map[string]string{"0": "0", "0.999": "999ns", "45678": "45.7ms", "999e6": "999s", "1234e6": "20m34s", "-7290e6": "-2h01m", "360000e6": "100h"} {
		same(t, eval[string](p, `gotach.duration(`+us+`)`), want)
	}
	p.press("#facts summary", `document.getElementById('fact-list').textContent.includes(`+quote(pagetest.Evil)+`)`)
	p.click(pagetest.Generic, `gotach.settings().zoom.length === 2`)
	p.wait(`document.getElementById('status').textContent.startsWith(` + quote(pagetest.Generic) + `)`)
	same(t, eval[int](p, `document.querySelectorAll('img').length + (document.title === 'hurt')`), 0)
}

// TestPeerPageTwoFiles: two profiles are compared as two ranges.
func TestPeerPageTwoFiles(t *testing.T) {
	p := open(t, pagetest.Write(t, page.Options{}, pagetest.Server(t), pagetest.Server(t)), "#t=functions", 1280, 800)
	p.wait(`document.getElementById('flame-bar').textContent.includes('more in B')`)
	n := eval[[2]int](p, `((rows) => [rows.length, rows.filter((r) => r[0].dataset.ns !== r[1].dataset.ns).length])([...document.querySelectorAll('#functions tbody tr[data-file]')].map((r) => r.querySelectorAll('[data-ns]')))`)
	testenv.FailIf(t, n[0] < 5 || n[1] > 0, "two equal profiles have %d rows, of which %d differ", n[0], n[1])
	p.key("r", `document.getElementById('flame-bar').textContent.includes('more in B')`)
	q := open(t, pagetest.Write(t, page.Options{}, pagetest.Busy(t), pagetest.Server(t)), "", 1280, 800)
	q.wait(`gotach.rows().some((r) => r.name === 'main.main')`) // a group of the second one only
}

// TestPeerPageNarrow: at 400 % zoom and on a phone nothing is wider than the window.
func TestPeerPageNarrow(t *testing.T) {
	file, locks := pagetest.Write(t, page.Options{}, pagetest.Server(t)), pagetest.Write(t, page.Options{}, pagetest.Contended(t))
	for _, size := range [][2]int64{{320, 200}, {390, 844}} {
		p, q := open(t, file, "", size[0], size[1]), open(t, locks, "#t=locks&l=0", size[0], size[1])
		// What is said of the holders wraps, however long it is.
		eval[bool](q, `(() => { document.querySelector('#table .detail p').textContent = 'too short to tell one from the next '.repeat(9); return true; })()`)
		for _, page := range []*tab{p, q} {
			wider := eval[[]int64](page, `[document.scrollingElement, document.getElementById('table')].map((e) => e.scrollWidth - e.clientWidth)`)
			testenv.FailIf(t, wider[0] > 0 || wider[1] > 0, "in a window of %d px the page and its table are wider by %v px", size[0], wider)
		}
		p.click("main.serve", `gotach.settings().zoom.length === 1`)
	}
}

// TestPeerPageEmpty: where there is nothing to draw the page says why.
func TestPeerPageEmpty(t *testing.T) {
	none := pagetest.New(t)
	none.Empty = true
	asleep := pagetest.New(t)
	for at := uint64(0); at < 1_000_000; at += 10_000 {
		asleep.Add(1, at, 0, pagetest.Wait("sleep"), pagetest.Frame("main.pause", 70))
	}
	for _, x := range []struct {
		in         page.Input
		hash, want string
	}{
		{none.Input(time.Second), "", "There are no samples."},
		{asleep.Input(time.Second), "#w=cpu", "No goroutine used CPU time in what is selected."},
	} {
		p := open(t, pagetest.Write(t, page.Options{}, x.in), x.hash, 1280, 800)
		for _, id := range []string{"flame-bar", "lives-note", "table"} {
			p.wait(`document.getElementById('` + id + `').textContent === ` + quote(x.want))
		}
		sums := p.text("#sums")
		testenv.FailIf(t, strings.Contains(sums, "no samples") != (x.hash == ""), "%s: the sums are %q", x.want, sums)
		p.table("functions")
		p.key("]", `document.getElementById('tab-lines').getAttribute('aria-selected') === 'true' && document.getElementById('table').textContent === `+quote(x.want))
	}
}
