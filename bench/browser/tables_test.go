//go:build peers

package browser

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/findings"
	"github.com/gotach/profiler/internal/analyze/leaks"
	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/analyze/report"
	"github.com/gotach/profiler/internal/analyze/requests"
	"github.com/gotach/profiler/internal/page"
	"github.com/gotach/profiler/internal/page/pagetest"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
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
	p := open(t, pagetest.Write(t, page.Options{}, in), "#t=locks", 1280, 800)
	p.wait(`document.querySelector('.locks tbody tr')`)
	same(t, eval[string](p, `document.querySelector('.locks td').dataset.ns`), fmt.Sprint(int64(lock.Waited)))
	p.press(`[data-key=lock0]`, `document.querySelector('.holders tr')`)
	line := lock.Holder.Lines[0]
	same(t, eval[string](p, `document.querySelector('.holders td').dataset.ns`), fmt.Sprint(int64(line.Time)))
	same(t, p.text(".holders .name"), fmt.Sprintf("[%s] %s app.go:%d", line.State, line.Func, line.Line))
	p.press(`[data-key="holder0.0"]`, `document.getElementById('flame-bar').textContent.includes(`+quote(line.Func)+`)`)
	p.sets(escape, "selected", "-1")
	p.sets(escape, "lock", "-1")
}

// TestPeerPageFindings: requests and leaks are those of the commands, and labels are text.
func TestPeerPageFindings(t *testing.T) {
	in := pagetest.Contended(t)
	requests := testenv.Must(requests.Find(samplesOf(in, stream.Options{Labels: true}), requests.Options{}))
	leaks := testenv.Must(leaks.Find(samplesOf(in, stream.Options{Creators: true})))
	testenv.FailIf(t, requests.Count == 0 || len(leaks.Groups) == 0, "the profile has %d requests and %d groups that grow", requests.Count, len(leaks.Groups))
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
		got := p.text("#tip pre")
		testenv.FailIf(t, !strings.Contains(got, `→   70  line70 := "<i>"`) || !strings.Contains(got, "line72") || strings.Contains(got, "line73"), "the source is\n%s", got)
	}
}

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
	testenv.SameList(t, "the tree begins with", p.treeRows()[:3], []string{"1 all", "2 main.serve", "3 main.(*box[go.shape.struct"})
	at := func(name string) string {
		return `document.activeElement.querySelector('.name').textContent.includes(` + quote(name) + `)`
	}
	p.key(kb.ArrowDown+kb.ArrowDown, at(".get"))
	testenv.Same(t, "µs in the tree", eval[float64](p, `Number(document.activeElement.querySelector('[data-ns]').dataset.ns) / 1000`), math.Round(generic.Us))
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
	testenv.Same(t, "boxes of main.main", len(all), 1)
	near := func(what string, got, want float64) { t.Helper(); testenv.Within(t, what, got, want-3, want+3) }
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

// whyOf returns the findings of an input.
func whyOf(in page.Input) []findings.Finding {
	o := report.Options{Series: true}
	so := o.Stream()
	so.Unselected = true
	survey := testenv.Must(report.NewSurvey(testenv.Must(in.Open(so)), o, nil))
	return testenv.Must(findings.OfSurvey(survey, "x.tach", math.MaxInt64))
}

// TestPeerPageWhy: the page begins with the findings; a click selects what one is about and says what that is. A server sends the same.
func TestPeerPageWhy(t *testing.T) {
	in := pagetest.File(t, "../../internal/analyze/testdata/sessions/leaky-server.tach")
	in.Files = "x.tach"
	want := whyOf(in)
	testenv.StopIf(t, len(want) < 3 || want[0].Kind != findings.Leak || want[2].Kind != findings.Lock, "the findings are %+v", want)
	url := pagetest.Serve(t, page.ServerOptions{Title: "x", Open: pagetest.Selecting(in)})
	for _, p := range []*tab{open(t, pagetest.Write(t, page.Options{}, in), "", 1280, 800), openURL(t, url, "", 1280, 800)} {
		p.wait(fmt.Sprintf(`document.querySelectorAll('#why li').length === %d`, min(5, len(want))))
		for i, x := range want[:3] {
			got := p.text(fmt.Sprintf("#why li:nth-child(%d)", i+1))
			testenv.FailIf(t, !strings.HasPrefix(got, x.Kind) || !strings.Contains(got, x.Text) || !strings.Contains(got, x.Sure), "finding %d is %q, want %+v", i, got, x)
		}
		testenv.FailIf(t, !eval[bool](p, `document.getElementById('why').getBoundingClientRect().y < document.getElementById('strip').getBoundingClientRect().y`), "the findings are below the time")
		p.press("[data-key=why0]", `gotach.settings().finding === 0 && gotach.settings().tab === 'leaks'`)
		p.wait(`document.getElementById('flame-bar').textContent.includes(` + quote("Callers above, callees below: "+want[0].Function) + `)`)
		testenv.Has(t, "what is selected", p.text("#why [role=status]"), "Selected: goroutines of sync.(*WaitGroup).Go  waitgroup.go:238, callers and callees of "+want[0].Function+", what is set apart too, the table “Leaks”.")
		p.sets(escape, "finding", "-1")
		p.setting("group", "-1")
		p.setting("selected", "-1")
		// The keys do the same.
		p.key("a", `document.activeElement.dataset.key === 'why0'`)
		p.keys("\t")
		p.sets(enter, "finding", "1")
	}

	// A server finds what is wrong in the selected range.
	p := openURL(t, url, "", 1280, 800)
	a := p.selects(0.5, 1)
	p.wait(`document.getElementById('why-note').textContent.startsWith('In the selected range')`)
	late := whyOf(pagetest.During(in, page.Span{From: start(t, in) + a[0], To: start(t, in) + a[1]}))
	p.wait(`document.querySelector('#why li').textContent.includes(` + quote(late[0].Text) + `)`)
	p.press("[data-key=why0]", `gotach.settings().finding === 0`)
	p.key(escape, `gotach.settings().finding === -1 && gotach.settings().range`) // the range is still selected

	healthy := pagetest.New(t)
	for ms := uint64(1); ms <= 2000; ms++ {
		healthy.Add(1, 1000*ms, 0, pagetest.Wait("IO wait"), pagetest.Frame("main.main", 9))
	}
	p = open(t, pagetest.Write(t, page.Options{}, healthy.Input(2e9)), "", 1280, 800)
	p.wait(`document.getElementById('why-note').textContent.includes('Nothing stands out.')`)
}

// start returns when an input begins, in µs.
func start(t *testing.T, in page.Input) int64 {
	t.Helper()
	return int64(testenv.Must(page.Build([]page.Input{in}, page.Options{})).Head.Sides[0].StartUS)
}

// TestPeerPageWhyKinds: a click on a finding of any kind shows the table that has more about it, and weighs CPU time where that is meant.
func TestPeerPageWhyKinds(t *testing.T) {
	for _, x := range []struct{ file, kind, shows string }{
		{"cpu-cores", findings.CPU, `s.tab === 'functions' && s.weight === 'cpu' && s.selected >= 0`},
		{"gc-pressure", findings.GC, `s.tab === 'functions' && s.weight === 'cpu'`},
		{"lock-fsync", findings.Lock, `s.tab === 'locks' && document.querySelector('#table .detail').textContent.includes('Held by')`},
		{"semaphore", findings.Pool, `s.tab === 'locks' && document.querySelector('#table .detail').textContent.includes('main.(*thumbnails).make')`},
		{"pool-sql", findings.Pool, `s.tab === 'blocked' && document.querySelector('#table tbody tr').textContent.includes('main.(*shop).checkOut')`},
		{"n-plus-one", findings.Chatty, `s.tab === 'requests'`},
		{"idle-server", findings.Idle, `s.tab === 'blocked' && s.idle`},
		{"few-ticks", findings.Profile, `document.getElementById('facts').open`},
	} {
		in := pagetest.File(t, "../../internal/analyze/findings/testdata/causes/"+x.file+".tach")
		in.Files = "x.tach"
		p := open(t, pagetest.Write(t, page.Options{}, in), "", 1280, 800)
		same(t, p.text("#why b"), x.kind)
		p.press("[data-key=why0]", `((s) => s.finding === 0 && `+x.shows+`)(gotach.settings())`)
		p.key(escape, `((s) => s.finding === -1 && s.weight === 'wall' && !s.idle && s.selected === -1)(gotach.settings())`)
	}
}
