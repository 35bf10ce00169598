package page

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
)

// A tableRow is a row of the page's table of functions.
type tableRow struct {
	Name, File       string
	Self, Total, CPU string
}

// functions returns the rows of the table of functions, all of them.
func (p *tab) functions() []tableRow {
	p.t.Helper()
	p.wait(`document.documentElement.dataset.hash === location.hash`)
	eval[bool](p, `(() => { document.querySelector('[data-key=more]')?.click(); return true; })()`)
	p.wait(`!document.querySelector('[data-key=more]')`)
	return eval[[]tableRow](p, `[...document.querySelectorAll('#functions tbody tr')].map((r) => { const n = [...r.querySelectorAll('[data-ns]')].map((c) => c.dataset.ns);
		return {Name: r.querySelector('button').textContent, File: r.dataset.file, Self: n[0], Total: n[1], CPU: n[2]}; })`)
}

// compare compares the table of functions with the rows that gotach report --json prints.
func (p *tab) compare(what string, in Input, so stream.Options, ro analyze.ReportOptions) {
	p.t.Helper()
	sel := so.Select
	so = ro.Stream()
	so.Select = sel
	src, err := in.Open(so)
	if err != nil {
		p.t.Fatal(err)
	}
	pr, err := analyze.NewProfile(src, ro)
	if err != nil {
		p.t.Fatal(err)
	}
	r, err := profile.New(pr, profile.ReportOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	want := map[string]bool{}
	for _, row := range r.Rows {
		if row.Total == 0 {
			continue // with latency: nobody was faster without it
		}
		want[fmt.Sprintf("%s|%s|%d|%d|%d", row.Name, row.File, row.Self, row.Total, row.SelfCPU)] = true
	}
	got := p.functions()
	for _, row := range got {
		if !want[fmt.Sprintf("%s|%s|%s|%s|%s", row.Name, row.File, row.Self, row.Total, row.CPU)] {
			p.t.Errorf("%s: row %+v is not in the report", what, row)
		}
	}
	if len(got) != len(want) || len(got) == 0 {
		p.t.Errorf("%s: %d rows, the report has %d", what, len(got), len(want))
	}
	if all := eval[string](p, `document.getElementById('functions').dataset.all`); all != fmt.Sprint(int64(r.Shown)) {
		p.t.Errorf("%s: all time is %s ns, the report has %d", what, all, int64(r.Shown))
	}
}

// TestPageNumbers: the page shows the same as gotach report --json, to the nanosecond.
func TestPageNumbers(t *testing.T) {
	in := server(t)
	p := open(t, pageOf(t, Options{}, in), "", 1280, 800)
	p.compare("wall", in, stream.Options{}, analyze.ReportOptions{})
	p.keys("d")
	p.setting("idle", "true")
	p.compare("with idle time", in, stream.Options{}, analyze.ReportOptions{Idle: true})
	p.keys("w")
	p.setting("weight", `"cpu"`)
	p.compare("CPU", in, stream.Options{}, analyze.ReportOptions{Weight: "cpu"})
	p.keys("w")
	p.setting("weight", `"latency"`)
	p.compare("latency", in, stream.Options{}, analyze.ReportOptions{Weight: "latency"})
}

// TestPageRange: a drag selects a range, whose numbers are those of report --since --until. A second one is compared with
// it.
func TestPageRange(t *testing.T) {
	in := server(t)
	p := open(t, pageOf(t, Options{}, in), "#i=1", 1280, 800)
	p.drag(0.25, 0.4)
	p.wait(`gotach.settings().range`)
	a := eval[[]int64](p, `gotach.settings().range`)
	if share := float64(a[0]) / 2e6; share < 0.22 || share > 0.28 {
		t.Errorf("the range is %v of 2 s, want it from a quarter on", a)
	}
	sel := &stream.Selection{}
	var err error
	if sel.Since, err = stream.ParseMoment(time.Duration(a[0] * 1000).String()); err == nil {
		sel.Until, err = stream.ParseMoment(time.Duration(a[1] * 1000).String())
	}
	if err != nil {
		t.Fatal(err)
	}
	p.compare("a range", in, stream.Options{Select: sel}, analyze.ReportOptions{Idle: true})

	p.drag(0.6, 0.75, chromedp.ButtonModifiers(chromedp.ModifierShift))
	p.wait(`gotach.settings().second`)
	p.wait(`document.getElementById('flame-bar').textContent.includes('more in B')`)
	// Hashing became more, waiting for the lock did not.
	change := func(name string) string {
		return eval[string](p, `[...document.querySelectorAll('#functions tbody tr')].find((r) => r.querySelector('button').textContent === `+quote(name)+`).children[2].textContent`)
	}
	if got := change("main.hash"); !strings.HasPrefix(got, "+") {
		t.Errorf("main.hash: %q, want more in the second range", got)
	}
	if got := change("main.pause"); !strings.HasPrefix(got, "−") {
		t.Errorf("main.pause: %q, want less in the second range", got)
	}
	p.keys(escape)
	p.setting("second", "null")
	p.keys(escape)
	p.setting("range", "null")
}

// TestPageFlame: zoom, invert, search with share and next match, callers, removal.
func TestPageFlame(t *testing.T) {
	in := server(t)
	p := open(t, pageOf(t, Options{}, in), "", 1280, 800)
	width := p.rect("flame").Width
	whole := p.boxes("main.hash")
	p.click(generic)
	p.wait(`gotach.settings().zoom.length === 2`)
	p.wait(`gotach.boxes().some((b) => b.name === ` + quote(generic) + ` && b.w > ` + fmt.Sprint(width-2) + `)`)
	if n := p.boxes("main.pause"); len(n) != 0 {
		t.Error("zoomed in, main.pause is still there")
	}
	p.keys(escape)
	p.setting("zoom", "[]")

	p.keys("i")
	p.setting("invert", "true")
	p.wait(`gotach.boxes().some((b) => b.y > 0 && b.y < 20 && b.name === '[sleep]')`)
	hash := p.boxes("main.hash")
	if len(hash) != 1 && hash[0].Y != 18 {
		t.Errorf("inverted: main.hash is at %+v", hash)
	}
	p.keys("i")
	p.setting("invert", "false")
	p.wait(`gotach.boxes().filter((b) => b.name === 'main.hash').length === ` + fmt.Sprint(len(whole)))

	p.search("app.go:60")
	p.setting("query", `"app.go:60"`)
	share := 100 * p.boxes("main.(*cache).get")[0].Us / eval[float64](p, `Number(document.getElementById('functions').dataset.all) / 1000`)
	p.wait(`document.getElementById('matched').value.startsWith('` + fmt.Sprintf("%.1f", share) + `')`)
	p.keys(enter)
	p.wait(`document.getElementById('status').textContent.startsWith('main.(*cache).get')`)
	p.keys(escape)
	p.setting("query", `""`)
	p.search("hash")
	p.setting("query", `"hash"`)
	p.keys(enter)
	p.wait(`document.getElementById('status').textContent.startsWith('main.hash')`)
	first := eval[string](p, `document.getElementById('status').textContent`)
	p.keys(enter)
	p.wait(`document.getElementById('status').textContent !== ` + quote(first))
	p.keys(escape)
	p.setting("query", `""`)

	p.click("main.hash", chromedp.ButtonModifiers(chromedp.ModifierShift))
	p.wait(`gotach.settings().selected >= 0`)
	p.wait(`gotach.boxes().some((b) => b.name === 'main.hash' && b.w > ` + fmt.Sprint(width-2) + `)`)
	callers, own := p.boxes("main.serve"), p.boxes("main.hash")
	if len(callers) != 2 || callers[0].Y >= own[0].Y {
		t.Errorf("the callers of main.hash %+v are %+v, want both above", own, callers)
	}
	p.keys(escape)
	p.setting("selected", "-1")

	p.click("main.hash", chromedp.ButtonModifiers(chromedp.ModifierAlt))
	p.wait(`gotach.settings().removed.length === 1`)
	p.wait(`!gotach.boxes().some((b) => b.name === 'main.hash')`)
	p.keys("r")
	p.setting("removed", "[]")
}

// search types a search. The driver also types the key that goes to the field, which a keyboard does not.
func (p *tab) search(text string) {
	p.t.Helper()
	p.keys("/")
	p.wait(`document.activeElement.id === 'query'`)
	eval[bool](p, `(() => { document.activeElement.value = ''; return true; })()`)
	p.keys(text)
}

// TestPageHash: the address has what was chosen; opened elsewhere it shows the same.
func TestPageHash(t *testing.T) {
	in := server(t)
	file := pageOf(t, Options{}, in)
	p := open(t, file, "", 1280, 800)
	p.drag(0.5, 0.7)
	p.wait(`gotach.settings().range`)
	p.keys("d")
	p.setting("idle", "true")
	p.click("main.serve")
	p.wait(`gotach.settings().zoom.length === 1`)
	p.search("hash & <b>")
	p.setting("query", `"hash & <b>"`)
	p.wait(`document.documentElement.dataset.hash === location.hash`)
	hash := eval[string](p, `location.hash`)
	if got := eval[string](p, `(() => { const s = document.getElementById('strip'); for (let i = 0; i < 401; i++) s.dispatchEvent(new WheelEvent('wheel', {deltaY: i % 2 ? 100 : -100})); return location.hash; })()`); got != hash {
		t.Errorf("in the middle of a movement the address is %s, want it written once for a frame", got)
	}
	p.wait(`document.documentElement.dataset.hash === location.hash`)
	settings := eval[string](p, `JSON.stringify(gotach.settings())`)
	hash = eval[string](p, `location.hash`)
	q := open(t, file, hash, 1280, 800)
	if got := eval[string](q, `JSON.stringify(gotach.settings())`); got != settings {
		t.Errorf("the settings of %s are %s, want %s", hash, got, settings)
	}
	if got, want := eval[string](q, `document.getElementById('table').textContent`), eval[string](p, `document.getElementById('table').textContent`); got != want {
		t.Errorf("the table of %s is\n%s\nwant\n%s", hash, got, want)
	}
	// An address that does not fit shows everything.
	bad := open(t, file, "#r=9-1&z=99999.-3&s=77777&g=1000&q=%zz&w=x&c=&gr=-7&l=99999&t=constructor", 1280, 800)
	if rows := eval[int](bad, `document.querySelectorAll('#table tbody tr').length`); rows == 0 {
		t.Error("with a wrong address the table is empty")
	}
}

// TestPageTheme: dark and light by the key, the button and the system's setting.
func TestPageTheme(t *testing.T) {
	p := open(t, pageOf(t, Options{}, server(t)), "", 1280, 800)
	ground := func() string { return eval[string](p, `getComputedStyle(document.documentElement).backgroundColor`) }
	p.wait(`document.documentElement.dataset.theme === 'light'`)
	light := ground()
	p.keys("t")
	p.wait(`document.documentElement.dataset.theme === 'dark'`)
	if dark := ground(); dark == light {
		t.Errorf("dark and light have the ground %s", dark)
	}
	p.press("#theme")
	p.wait(`document.documentElement.dataset.theme === 'light'`)
	// Text and ground differ enough (WCAG AA), in both themes.
	for range 2 {
		if low := eval[float64](p, contrast); low < 4.5 {
			t.Errorf("%s: contrast of text %.2f, want at least 4.5", eval[string](p, `document.documentElement.dataset.theme`), low)
		}
		theme := eval[string](p, `document.documentElement.dataset.theme`)
		p.keys("t")
		p.wait(`document.documentElement.dataset.theme !== ` + quote(theme))
	}
}

// contrast is the least contrast of the text colours with the grounds behind them.
const contrast = `(() => {
	const style = getComputedStyle(document.documentElement);
	const light = (name) => { const n = parseInt(style.getPropertyValue(name).trim().slice(1), 16); const f = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
		return 0.2126 * f(n >> 16) + 0.7152 * f(n >> 8 & 255) + 0.0722 * f(n & 255); };
	let low = 99;
	for (const ground of ['--ground', '--panel']) for (const text of ['--text', '--dim', '--accent', '--mark']) {
		const a = light(ground), b = light(text);
		low = Math.min(low, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
	}
	return low;
})()`

// TestPageKeyboard uses the page with the keyboard alone: the help, the strip, and the tables that stand for the graphs.
func TestPageKeyboard(t *testing.T) {
	p := open(t, pageOf(t, Options{}, server(t)), "", 1280, 800)
	p.keys("c")
	p.wait(`document.getElementById('chips').textContent.startsWith('Select a range first')`)
	p.keys("?")
	p.wait(`document.getElementById('help').open && document.getElementById('help-keys').rows.length > 15`)
	if cut := eval[float64](p, `(() => { const d = document.getElementById('help'); return d.scrollTop + d.scrollHeight - d.clientHeight; })()`); cut != 0 {
		t.Errorf("%v px of the help are not seen", cut)
	}
	p.keys(escape)
	p.wait(`!document.getElementById('help').open`)
	p.keys("s")
	p.wait(`document.activeElement.id === 'strip'`)
	p.keys(right)
	p.wait(`gotach.settings().range`)
	a := eval[[]int64](p, `gotach.settings().range`)
	p.keys(right, chromedp.ModifierShift)
	p.wait(`gotach.settings().range[1] > ` + fmt.Sprint(a[1]))
	p.keys("c")
	p.wait(`document.getElementById('chips').textContent.endsWith('compared with the selected one.')`)
	p.keys(right)
	p.wait(`gotach.settings().second`)
	p.keys("r")
	p.setting("range", "null")

	// Tab to the strip's table, open it, and select a range there.
	p.keys("s")
	p.tabTo(`e.tagName === 'SUMMARY' && e.closest('#strip-twin')`)
	p.keys(enter)
	p.wait(`document.querySelectorAll('#strip-twin tbody tr').length === 20`)
	p.tabTo(`e.dataset.key === 'time3'`)
	p.keys(enter)
	p.wait(`gotach.settings().range`)
	if e := eval[string](p, `document.activeElement.dataset.key`); e != "time3" {
		t.Errorf("the focus is at %q after a range was selected", e)
	}
	p.keys("r")
	p.setting("range", "null")

	// The flame graph's: zoom into a function.
	p.keys("f")
	p.keys(kb.ArrowDown + kb.ArrowDown)
	p.wait(`document.getElementById('status').textContent.startsWith('main.serve')`)
	p.keys(enter)
	p.wait(`gotach.settings().zoom.length === 1`)
	p.keys(kb.Backspace)
	p.setting("zoom", "[]")
	p.tabTo(`e.tagName === 'SUMMARY' && e.closest('#flame-twin')`)
	p.keys(enter)
	p.wait(`document.querySelectorAll('#flame-twin tbody tr').length > 5`)
	p.tabTo(`e.textContent === 'main.hash' && e.closest('#flame-twin')`)
	p.keys(enter)
	p.wait(`gotach.settings().zoom.length >= 2`)
	p.keys("r")

	// The table of functions: callers of one.
	p.tabTo(`e.textContent === 'main.pause' && e.closest('#functions')`)
	p.keys(enter)
	p.wait(`/main\.pause [0-9.]+s, [0-9.]+ %$/.test(document.getElementById('flame-bar').textContent)`)
}

// tabTo presses Tab until the focused element e fulfils a condition.
func (p *tab) tabTo(condition string) {
	p.t.Helper()
	for range 200 {
		p.keys(kb.Tab)
		if eval[bool](p, `!!((e) => `+condition+`)(document.activeElement)`) {
			return
		}
	}
	p.t.Fatalf("Tab never comes to %s", condition)
}

// TestPageText: what the profile says is text on the page, whatever it has in it.
func TestPageText(t *testing.T) {
	p := open(t, pageOf(t, Options{}, server(t)), "", 1280, 800)
	if title := eval[string](p, `document.getElementById('title').textContent`); title != "x "+evil {
		t.Errorf("the title is %q", title)
	}
	for us, want := range map[string]string{"0": "0", "0.999": "999ns", "45678": "45.7ms", "999e6": "999s", "1234e6": "20m34s", "-7290e6": "-2h01m", "360000e6": "100h"} {
		if got := eval[string](p, `gotach.duration(`+us+`)`); got != want {
			t.Errorf("%s µs are %q, gotach report prints %q", us, got, want)
		}
	}
	p.press("#facts summary")
	p.wait(`document.getElementById('fact-list').textContent.includes(` + quote(evil) + `)`)
	p.click(generic)
	p.wait(`gotach.settings().zoom.length === 2`)
	p.wait(`document.getElementById('status').textContent.startsWith(` + quote(generic) + `)`)
	if n := eval[int](p, `document.querySelectorAll('img').length + (document.title === 'hurt')`); n != 0 {
		t.Error("a name of the profile became an element")
	}
}

// TestPageTwoFiles: two profiles are compared as two ranges.
func TestPageTwoFiles(t *testing.T) {
	p := open(t, pageOf(t, Options{}, server(t), server(t)), "", 1280, 800)
	p.wait(`document.getElementById('flame-bar').textContent.includes('more in B')`)
	rows := eval[[][]string](p, `[...document.querySelectorAll('#functions tbody tr')].map((r) => [...r.querySelectorAll('[data-ns]')].map((c) => c.dataset.ns))`)
	if len(rows) < 5 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, r := range rows {
		if r[0] != r[1] {
			t.Errorf("two equal profiles differ: %v", r)
		}
	}
	p.keys("r")
	p.wait(`document.getElementById('flame-bar').textContent.includes('more in B')`)
}
