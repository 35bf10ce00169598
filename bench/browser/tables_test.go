//go:build peers

package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/analyze/leaks"
	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/analyze/report"
	"github.com/gotach/profiler/internal/analyze/requests"
	"github.com/gotach/profiler/internal/page"
	"github.com/gotach/profiler/internal/page/pagetest"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
)

// samplesOf returns the samples of an input as the commands read them.
func samplesOf(in page.Input, o stream.Options) *analyze.Samples {
	o.Unselected = true
	return analyze.NewSamples(in.Name, testenv.Must(in.Open(o)))
}

// TestPeerPageLocks: a lock that is selected shows its holders, with the numbers of gotach locks.
func TestPeerPageLocks(t *testing.T) {
	in := pagetest.Contended(t)
	want := testenv.Must(locks.Find(samplesOf(in, stream.Options{Objects: true}), locks.Options{}))
	lock := want.Locks[0]
	if lock.Holder == nil || len(lock.Holder.Lines) == 0 {
		t.Fatalf("no holder: %+v", lock)
	}
	p := open(t, pagetest.Write(t, page.Options{}, in), "#t=locks", 1280, 800)
	p.wait(`document.querySelector('.locks tbody tr')`)
	same(t, eval[string](p, `document.querySelector('.locks td').dataset.ns`), fmt.Sprint(int64(lock.Waited)))
	p.press(`[data-key=lock0]`, `document.querySelector('.holders tr')`)
	line := lock.Holder.Lines[0]
	same(t, eval[string](p, `document.querySelector('.holders td').dataset.ns`), fmt.Sprint(int64(line.Time)))
	if got, want := p.text(".holders .name"), fmt.Sprintf("[%s] %s app.go:%d", line.State, line.Func, line.Line); got != want {
		t.Errorf("held by %q, want %q", got, want)
	}
	p.press(`[data-key="holder0.0"]`, `document.getElementById('flame-bar').textContent.includes(`+quote(line.Func)+`)`)
	p.sets(escape, "selected", "-1")
	p.sets(escape, "lock", "-1")
}

// TestPeerPageFindings: requests and leaks are those of the commands, and labels are text.
func TestPeerPageFindings(t *testing.T) {
	in := pagetest.Contended(t)
	requests := testenv.Must(requests.Find(samplesOf(in, stream.Options{Labels: true}), requests.Options{}))
	leaks := testenv.Must(leaks.Find(samplesOf(in, stream.Options{Creators: true})))
	if requests.Count == 0 || len(leaks.Groups) == 0 {
		t.Fatalf("the profile has %d requests and %d groups that grow", requests.Count, len(leaks.Groups))
	}
	p := open(t, pagetest.Write(t, page.Options{}, in), "#t=requests", 1280, 800)
	p.wait(`document.querySelectorAll('#histogram tbody tr').length === ` + fmt.Sprint(len(requests.Histogram)))
	p.wait(`document.getElementById('table').textContent.includes('` + fmt.Sprint(requests.What) + `')`)
	p.wait(`document.getElementById('slowest').textContent.includes(` + quote("request="+pagetest.Evil) + `)`)
	same(t, eval[int](p, `document.querySelectorAll('img').length`), 0)
	p.sets("]", "tab", `"leaks"`)
	g := leaks.Groups[0]
	p.wait(`document.querySelectorAll('.leaks tbody tr').length === ` + fmt.Sprint(len(leaks.Groups)))
	p.wait(`document.querySelectorAll('.leaks td')[1].textContent === '` + fmt.Sprint(g.End) + `'`)
}

// TestPeerPageGoroutines: groups fold, and a goroutine that is chosen restricts the graphs and tables below and above.
func TestPeerPageGoroutines(t *testing.T) {
	in := pagetest.Server(t)
	p := open(t, pagetest.Write(t, page.Options{}, in), "#i=1", 1280, 800)
	count := func(n int) string {
		return fmt.Sprintf(`gotach.rows().filter((r) => r.goroutine >= 0).length === %d`, n)
	}
	p.wait(count(1)) // only small groups are open
	click := func(x float64, name, expression string) {
		t.Helper()
		list := eval[[]box](p, `gotach.rows().filter((r) => r.name === `+quote(name)+`)`)
		if len(list) != 1 {
			t.Fatalf("%d rows %q in %v", len(list), name, eval[[]string](p, `gotach.rows().map((r) => r.name)`))
		}
		r := p.rect("#lives")
		p.do(chromedp.MouseClickXY(r.X+x, r.Y+list[0].Y+8))
		p.wait(expression)
	}
	click(8, "main.main  app.go:12", count(9))
	click(40, "12", `gotach.settings().goroutine >= 0`)
	p.compare("functions", pagetest.Restricted(in, &stream.Selection{Goroutines: []uint64{12}}), report.Options{Idle: true})
	p.sets(escape, "goroutine", "-1")
	const grouped = `gotach.settings().group >= 0 && document.getElementById('flame-bar').textContent.includes('of these goroutines in')`
	click(100, "main.main  app.go:12", grouped)
	p.wait(`!gotach.boxes().some((b) => b.name === 'main.main')`)
	p.sets(escape, "group", "-1")
	p.key("g", count(0))
	p.key("g", count(9))
	p.key("g", count(0))
	// The same with keys in the graph, and in its table.
	p.key("l", `document.activeElement.id === 'lives'`)
	p.key(kb.Home, `document.getElementById('lives-status').textContent.startsWith('main.main')`)
	p.key(" ", count(8))
	p.twin("#lives-twin", 9)
	p.enter(`e.textContent === 'fold'`, count(0))
	p.enter(`e.dataset.key && e.dataset.key.startsWith('row')`, grouped)
}

// TestPeerPageSource: the tooltip has the line of the source, but not without Source.
func TestPeerPageSource(t *testing.T) {
	in := pagetest.Server(t)
	var text strings.Builder
	for n := range 100 {
		fmt.Fprintf(&text, "line%d := %q\n", n+1, "<i>")
	}
	read := func(path string) *source.File {
		if path == "/src/app/app.go" {
			return &source.File{Text: []byte(text.String())}
		}
		return nil
	}
	for _, without := range []bool{false, true} {
		o := page.Options{Source: read}
		if without {
			o.Source = nil
		}
		p := open(t, pagetest.Write(t, o, in), "", 1280, 800)
		b, r := p.boxes("main.pause")[0], p.rect("#flame")
		p.do(chromedp.MouseEvent(chromedp.MouseMoved, r.X+b.X+b.W/2, r.Y+b.Y+5))
		p.wait(`document.getElementById('tip').textContent.includes('main.pause')`)
		if without {
			p.wait(`document.querySelector('#tip pre') === null`)
			continue
		}
		for try := 0; !eval[bool](p, `document.querySelector('#tip pre') !== null`); try++ { // the source is read last
			p.do(chromedp.MouseEvent(chromedp.MouseMoved, r.X+b.X+b.W/2+float64(try%5), r.Y+b.Y+6))
		}
		if got := p.text("#tip pre"); !strings.Contains(got, `→   70  line70 := "<i>"`) || !strings.Contains(got, "line72") || strings.Contains(got, "line73") {
			t.Errorf("the source is\n%s", got)
		}
	}
}
