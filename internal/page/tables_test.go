package page

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
)

// samplesOf returns the samples of an input as the commands read them.
func samplesOf(t *testing.T, in Input, o stream.Options) *analyze.Samples {
	t.Helper()
	s, err := in.samples(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPageLocks: a lock that is selected shows its holders, with the numbers of gotach locks.
func TestPageLocks(t *testing.T) {
	in := contended(t)
	want, err := analyze.FindLocks(samplesOf(t, in, stream.Options{Objects: true}), analyze.LockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	lock := want.Locks[0]
	if lock.Holder == nil || len(lock.Holder.Lines) == 0 {
		t.Fatalf("no holder: %+v", lock)
	}
	p := open(t, pageOf(t, Options{}, in), "#t=locks", 1280, 800)
	p.wait(`document.querySelector('.locks tbody tr')`)
	if got := eval[string](p, `document.querySelector('.locks td').dataset.ns`); got != fmt.Sprint(int64(lock.Waited)) {
		t.Errorf("waited %s ns, want %d", got, int64(lock.Waited))
	}
	p.press(`[data-key=lock0]`)
	p.wait(`document.querySelector('.holders tr')`)
	line := lock.Holder.Lines[0]
	if got := eval[string](p, `document.querySelector('.holders td').dataset.ns`); got != fmt.Sprint(int64(line.Time)) {
		t.Errorf("held for %s ns, want %d", got, int64(line.Time))
	}
	if got, want := eval[string](p, `document.querySelector('.holders .name').textContent`), fmt.Sprintf("[%s] %s app.go:%d", line.State, line.Func, line.Line); got != want {
		t.Errorf("held by %q, want %q", got, want)
	}
	p.press(`[data-key="holder0.0"]`)
	p.wait(`document.getElementById('flame-bar').textContent.includes(` + quote(line.Func) + `)`)
	p.keys(escape)
	p.setting("selected", "-1")
	p.keys(escape)
	p.setting("lock", "-1")
}

// TestPageFindings: requests and leaks are those of the commands, and labels are text.
func TestPageFindings(t *testing.T) {
	in := contended(t)
	requests, err := analyze.FindRequests(samplesOf(t, in, stream.Options{Labels: true}), analyze.RequestOptions{})
	if err != nil {
		t.Fatal(err)
	}
	leaks, err := analyze.FindLeaks(samplesOf(t, in, stream.Options{Creators: true}))
	if err != nil {
		t.Fatal(err)
	}
	if requests.Count == 0 || len(leaks.Groups) == 0 {
		t.Fatalf("the profile has %d requests and %d groups that grow", requests.Count, len(leaks.Groups))
	}
	p := open(t, pageOf(t, Options{}, in), "#t=requests", 1280, 800)
	p.wait(`document.querySelectorAll('#histogram tbody tr').length === ` + fmt.Sprint(len(requests.Histogram)))
	p.wait(`document.getElementById('table').textContent.includes('` + fmt.Sprint(requests.Count) + ` request')`)
	p.wait(`document.getElementById('slowest').textContent.includes(` + quote("request="+evil) + `)`)
	if n := eval[int](p, `document.querySelectorAll('img').length`); n != 0 {
		t.Error("a label became an element")
	}
	p.keys("]")
	p.setting("tab", `"leaks"`)
	g := leaks.Groups[0]
	p.wait(`document.querySelectorAll('.leaks tbody tr').length === ` + fmt.Sprint(len(leaks.Groups)))
	p.wait(`document.querySelectorAll('.leaks td')[1].textContent === '` + fmt.Sprint(g.End) + `'`)
}

// TestPageLines: the table of lines has the numbers of gotach report --by line.
func TestPageLines(t *testing.T) {
	in := server(t)
	src, err := in.Open(analyze.ReportOptions{}.Stream())
	if err != nil {
		t.Fatal(err)
	}
	pr, err := analyze.NewProfile(src, analyze.ReportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := profile.New(pr, profile.ReportOptions{By: profile.ByLine})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for _, row := range r.Rows {
		want[fmt.Sprintf("%s|%d|%d|%d|%d", row.File, row.Line, row.Self, row.Total, row.SelfCPU)] = true
	}
	p := open(t, pageOf(t, Options{}, in), "#t=lines", 1280, 800)
	got := eval[[]string](p, `[...document.querySelectorAll('#lines tbody tr')].map((r) => [r.dataset.file, r.dataset.line, ...[...r.querySelectorAll('[data-ns]')].map((c) => c.dataset.ns)].join('|'))`)
	for _, row := range got {
		if !want[row] {
			t.Errorf("row %s is not in the report", row)
		}
	}
	if len(got) != len(r.Rows) {
		t.Errorf("%d rows, the report has %d", len(got), len(r.Rows))
	}
}

// TestPageGoroutines: groups fold, and a goroutine that is chosen restricts the graphs and tables below and above.
func TestPageGoroutines(t *testing.T) {
	in := server(t)
	p := open(t, pageOf(t, Options{}, in), "#i=1", 1280, 800)
	count := func(n int) string {
		return fmt.Sprintf(`gotach.rows().filter((r) => r.goroutine >= 0).length === %d`, n)
	}
	p.wait(count(1)) // only small groups are open
	row := func(name string) box {
		list := eval[[]box](p, `gotach.rows().filter((r) => r.name === `+quote(name)+`)`)
		if len(list) != 1 {
			t.Fatalf("%d rows %q in %v", len(list), name, eval[[]string](p, `gotach.rows().map((r) => r.name)`))
		}
		return list[0]
	}
	r := p.rect("lives")
	p.do(chromedp.MouseClickXY(r.X+8, r.Y+row("main.main  app.go:12").Y+8))
	p.wait(count(9))
	r = p.rect("lives")
	p.do(chromedp.MouseClickXY(r.X+40, r.Y+row("12").Y+8))
	p.wait(`gotach.settings().goroutine >= 0`)
	sel := &stream.Selection{Goroutines: []uint64{12}}
	p.compare("goroutine 12", in, stream.Options{Select: sel}, analyze.ReportOptions{Idle: true})
	p.keys(escape)
	p.setting("goroutine", "-1")
	r = p.rect("lives")
	p.do(chromedp.MouseClickXY(r.X+100, r.Y+row("main.main  app.go:12").Y+8))
	p.wait(`gotach.settings().group >= 0 && document.getElementById('flame-bar').textContent.includes('of these goroutines in')`)
	p.wait(`!gotach.boxes().some((b) => b.name === 'main.main')`)
	p.keys(escape)
	p.setting("group", "-1")
	p.keys("g")
	p.wait(count(0))
	p.keys("g")
	p.wait(count(9))
	p.keys("g")
	p.wait(count(0))
	// The same with keys in the graph, and in its table.
	p.keys("l")
	p.wait(`document.activeElement.id === 'lives'`)
	p.keys(kb.Home)
	p.wait(`document.getElementById('lives-status').textContent.startsWith('main.main')`)
	p.keys(" ")
	p.wait(count(8))
	p.tabTo(`e.tagName === 'SUMMARY' && e.closest('#lives-twin')`)
	p.keys(enter)
	p.wait(`document.querySelectorAll('#lives-twin tbody tr').length > 8`)
	p.tabTo(`e.textContent === 'fold'`)
	p.keys(enter)
	p.wait(count(0))
	p.tabTo(`e.dataset.key && e.dataset.key.startsWith('row')`)
	p.keys(enter)
	p.wait(`gotach.settings().group >= 0 && document.getElementById('flame-bar').textContent.includes('of these goroutines in')`)
}

// TestPageSource: the tooltip has the line of the source, but not with NoSource.
func TestPageSource(t *testing.T) {
	in := server(t)
	var text strings.Builder
	for n := range 100 {
		fmt.Fprintf(&text, "line%d := %q\n", n+1, "<i>")
	}
	source := func(path string) ([]byte, error) {
		if path == "/src/app/app.go" {
			return []byte(text.String()), nil
		}
		return nil, fs.ErrNotExist
	}
	for _, without := range []bool{false, true} {
		p := open(t, pageOf(t, Options{Source: source, NoSource: without}, in), "", 1280, 800)
		b, r := p.boxes("main.pause")[0], p.rect("flame")
		p.do(chromedp.MouseEvent(chromedp.MouseMoved, r.X+b.X+b.W/2, r.Y+b.Y+5))
		p.wait(`document.getElementById('tip').textContent.includes('main.pause')`)
		if without {
			p.wait(`document.querySelector('#tip pre') === null`)
			continue
		}
		for try := 0; !eval[bool](p, `document.querySelector('#tip pre') !== null`); try++ { // the source is read last
			p.do(chromedp.MouseEvent(chromedp.MouseMoved, r.X+b.X+b.W/2+float64(try%5), r.Y+b.Y+6))
		}
		if got := eval[string](p, `document.querySelector('#tip pre').textContent`); !strings.Contains(got, `→   70  line70 := "<i>"`) || !strings.Contains(got, "line72") || strings.Contains(got, "line73") {
			t.Errorf("the source is\n%s", got)
		}
	}
}
