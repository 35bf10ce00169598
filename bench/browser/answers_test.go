//go:build peers

package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze/instant"
	"github.com/gotach/profiler/internal/analyze/report"
	"github.com/gotach/profiler/internal/page"
	"github.com/gotach/profiler/internal/page/pagetest"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"

	"github.com/chromedp/chromedp"
)

// TestPeerPageBlocked: the first table has the rows of gotach report --blocked, of a range too; those that wait at one place from begin to end are the last ones.
func TestPeerPageBlocked(t *testing.T) {
	in := pagetest.Server(t)
	p := open(t, pagetest.Write(t, page.Options{}, in), "", 1280, 800)
	const rows = `[...document.querySelectorAll('#blocked tr[data-name]')].map((r) => [r.dataset.name, r.dataset.line, r.querySelector('[data-ns]').dataset.ns].join('|'))`
	same := func(in page.Input) {
		t.Helper()
		p.wait(`document.documentElement.dataset.hash === location.hash`)
		got := eval[[]string](p, rows)
		var want []string
		for _, row := range pagetest.Report(in, report.Options{}, profile.ByBlocked).Rows {
			want = append(want, fmt.Sprintf("%s|%d|%d", row.Name, row.Line, row.Self))
		}
		slices.Sort(want)
		sorted := slices.Sorted(slices.Values(got))
		testenv.FailIf(t, !slices.Equal(sorted, want) || len(want) == 0, "blocked at\n%s\nthe report has\n%s", strings.Join(sorted, "\n"), strings.Join(want, "\n"))
	}
	same(in)
	r := p.selects(0.25, 0.4)
	same(pagetest.During(in, page.Span{From: pagetest.Begin + r[0], To: pagetest.Begin + r[1]}))
	// The wait is under the line that waits, in the colour that it has in the strip.
	row := `[...document.querySelectorAll('#blocked tr[data-name]')].find((r) => r.dataset.name.startsWith('[sync.Mutex.Lock]'))`
	p.wait(row + `.querySelector('.name').textContent === 'main.(*cache).get app.go:60[sync.Mutex.Lock]'`)
	colour := eval[[]string](p, `[`+row+`.querySelector('.swatch'), `+row+`.querySelector('.meter i'), document.querySelector('[data-key=class5] .swatch')].map((e) => getComputedStyle(e).backgroundColor)`)
	testenv.FailIf(t, colour[0] != colour[2] || colour[1] != colour[2], "the colours of a lock's wait in table, bar and legend are %v", colour)

	in = pagetest.File(t, session)
	survey := testenv.Must(report.NewSurvey(testenv.Must(in.Open(report.Options{}.Stream())), report.Options{}, nil))
	resting := *survey.Profile
	resting.Records = survey.Resting
	want := len(testenv.Must(profile.New(&resting, profile.ReportOptions{By: profile.ByBlocked})).Rows)
	p = open(t, pagetest.Write(t, page.Options{}, in), "", 1280, 800)
	got := eval[int](p, `document.querySelectorAll('#blocked .part ~ tr').length`)
	testenv.FailIf(t, got != want || want == 0, "%d rows wait at one place from begin to end, want %d", got, want)
}

// session is the recording of a program that waits at some places from begin to end.
const session = "../../internal/analyze/testdata/sessions/fan-out.tach"

// TestPeerPageInstant: a click on the time lists what every goroutine did then, as gotach stacks does.
func TestPeerPageInstant(t *testing.T) {
	in := pagetest.File(t, session)
	p := open(t, pagetest.Write(t, page.Options{}, in), "#i=1", 1280, 800)
	r, length := p.rect("#strip"), eval[float64](p, `gotach.end`)
	for _, share := range []float64{0.1003, 0.5021, 0.7037} {
		p.do(chromedp.MouseClickXY(r.X+share*r.Width, r.Y+r.Height/2))
		p.wait(`document.getElementById('instant')`)
		p.wait(`Math.abs(gotach.settings().at - ` + fmt.Sprint(share*length) + `) < ` + fmt.Sprint(length/500))
		at := eval[int64](p, `gotach.settings().at`)
		x := testenv.Must(instant.Find(samplesOf(in, stream.Options{Labels: true, Creators: true}), instant.Options{At: testenv.Must(stream.ParseMoment("+" + (time.Duration(at) * time.Microsecond).String()))}))
		var want []string
		for _, g := range x.Goroutines {
			if g.Seen == 0 { // of the others the page takes the next sample, not the nearest
				want = append(want, fmt.Sprintf("%d %s %s", g.ID, g.State, g.Frames[0].Func))
			}
		}
		got := eval[[]string](p, `gotach.stacks().map((g) => g.id + ' ' + g.state + ' ' + g.frames[0])`)
		slices.Sort(want)
		slices.Sort(got)
		testenv.Same(t, fmt.Sprintf("goroutines at %d µs", at), len(got), len(x.Goroutines))
		testenv.FailIf(t, len(want) < 2, "only %d goroutines were seen at %d µs", len(want), at)
		for _, line := range want {
			testenv.FailIf(t, !slices.Contains(got, line), "at %d µs the page lacks %s, it has\n%s", at, line, strings.Join(got, "\n"))
		}
	}
	// A row shows its stack, and a goroutine of it alone.
	p.press(`[data-key^=at]`, `document.querySelector('#instant .detail pre b').textContent.startsWith('main.')`)
	p.press(`[data-key^=of]`, `gotach.settings().goroutine >= 0`)
	p.sets(escape, "at", "-1")
	p.sets(escape, "goroutine", "-1")
	// With keys alone.
	p.keys("s")
	p.key(" ", `Math.abs(gotach.settings().at / gotach.end - 0.5) < 0.01`)
	before := eval[int64](p, `gotach.settings().at`)
	p.enter(`e.dataset.key === 'later'`, fmt.Sprintf(`gotach.settings().at > %d`, before))
	same(t, eval[string](p, `document.activeElement.dataset.key`), "later")
}

// TestPeerPageWheel: the wheel scrolls the window, also over the time; with Ctrl it zooms the time.
func TestPeerPageWheel(t *testing.T) {
	p := open(t, pagetest.Write(t, page.Options{}, pagetest.Server(t)), "", 1280, 400)
	wheel := `(ctrl) => !document.getElementById('strip').dispatchEvent(new WheelEvent('wheel', {deltaY: 100, ctrlKey: ctrl, cancelable: true}))`
	same(t, eval[bool](p, `(`+wheel+`)(false)`), false)
	p.setting("view", "null")
	eval[bool](p, `(`+strings.Replace(wheel, "100", "-100", 1)+`)(true)`)
	p.wait(`gotach.settings().view`)
}

// TestPeerPageAccessible: axe-core finds nothing to say about the page, in both themes, in a wide window and on a phone, with any table.
func TestPeerPageAccessible(t *testing.T) {
	_, dir := testenv.NPM(t, "axe-core")
	axe := string(testenv.Must(os.ReadFile(filepath.Join(dir, "axe.min.js"))))
	file := pagetest.Write(t, page.Options{}, pagetest.Contended(t))
	for width, themes := range map[int64][]string{390: {"light"}, 1280: {"light", "dark"}} {
		for _, theme := range themes {
			graph := map[string]string{"light": "flame", "dark": "tree"}[theme]
			p := open(t, file, "#hm=1&at=500000&gv="+graph+"&m="+theme, width, 800)
			eval[bool](p, `(() => { for (const d of document.querySelectorAll('details')) d.open = true; return true; })()`)
			eval[bool](p, axe+`; true`)
			where := "document"
			for _, table := range eval[[]string](p, `[...document.querySelectorAll('[role=tab]')].map((e) => e.dataset.key)`) {
				p.table(table)
				eval[bool](p, `(() => { document.querySelector('#table [aria-expanded=false]')?.click(); return true; })()`)
				p.wait("true")
				eval[bool](p, `(() => { window.found = null; axe.run(`+where+`).then((r) => { window.found = r.violations.map((v) => v.id + ': ' + v.help + ' ' + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200) + ' ' + n.failureSummary).join(' | ')); }); return true; })()`)
				p.wait("window.found")
				where = "'#tables-section'"
				for _, v := range eval[[]string](p, "window.found") {
					t.Errorf("%d px, %s, %s: %s", width, theme, table, v)
				}
			}
		}
	}
}

// TestPeerPageKeep: a search marks the time and goes to the widest box that it finds; then only what it finds is shown, with the sums of report --focus.
func TestPeerPageKeep(t *testing.T) {
	in := pagetest.Server(t)
	p := open(t, pagetest.Write(t, page.Options{}, in), "#m=light&t=functions", 1280, 800)
	p.search("cache")
	p.wait(`document.getElementById('status').textContent.startsWith('main.(*cache).get')`)
	if n := eval[int](p, `(() => { const c = document.getElementById('strip'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0; for (let i = 0; i < d.length; i += 4) if (d[i] === 0xb3 && d[i+1] === 0 && d[i+2] === 0x7a) n++; return n; })()`); n < 500 {
		t.Errorf("%d pixels of the strip are marked", n)
	}
	p.press("#keep", `gotach.settings().keep === 'cache' && gotach.settings().query === ''`)
	r := testenv.Must(report.NewProfile(testenv.Must(in.Open(report.Options{}.Stream())), report.Options{}))
	want := testenv.Must(profile.New(r, profile.ReportOptions{By: profile.ByFunction, Focus: regexp.MustCompile("cache")}))
	p.wait(`document.getElementById('functions').dataset.all === '` + fmt.Sprint(int64(want.Shown)) + `'`)
	p.wait(`!gotach.boxes().some((b) => b.name === 'main.pause')`)
	p.sets(escape, "keep", `""`)
	// If the drawn part has nothing that the search finds, it moves to the first time that has.
	q := open(t, pagetest.Write(t, page.Options{}, pagetest.Contended(t)), "#ap=1&v=0.20000", 1280, 800)
	q.search("main.leak")
	q.wait(`gotach.settings().view[0] === 39000 || gotach.settings().view[0] === 40000`)
}

// asksItself makes a profile of a server with a load generator that asks it, and with a handler that serves a profile. Another goroutine computes and
// waits.
func asksItself(t testing.TB) page.Input {
	r, at := pagetest.New(t), pagetest.Frame
	for i, name := range []string{"tcp :8080", "tcp :8080 from 127.0.0.1", "tcp 127.0.0.1:8080"} {
		r.Objects = append(r.Objects, tachyon.Object{Number: int32(i) + 1, Kind: tachyon.ObjectConnection, Name: name})
	}
	stacks := [][]tachyon.Frame{
		{pagetest.Wait("select"), at("net/http.(*persistConn).roundTrip", 1), at("net/http.(*Client).Do", 1), at("main.get", 1), at("main.load", 2)},
		{{Func: "[IO wait]", Line: 3}, at("net/http.(*persistConn).readLoop", 1)},
		{pagetest.Wait("sleep"), at("time.Sleep", 1), at("net/http/pprof.Profile", 1), at("net/http.(*conn).serve", 1)},
		{pagetest.Wait("chan receive"), at("main.answer", 9), at("main.work", 7)},
	}
	for i, stack := range stacks {
		for ms := range uint64(2000) {
			if i == len(stacks)-1 && ms%2 == 0 {
				r.Add(uint64(i)+1, ms*1000, pagetest.Running|tachyon.Moved, stack[1:]...)
				continue
			}
			r.Add(uint64(i)+1, ms*1000, tachyon.Moved, stack...)
		}
		r.Goroutines = append(r.Goroutines, tachyon.Goroutine{ID: uint64(i) + 1, FirstWeight: 1000, First: pagetest.Begin, Last: pagetest.Begin + 1_999_000})
	}
	return r.Input(2 * time.Second)
}

// TestPeerPageApart: what is set apart is left out as in gotach report, a line says how much it is, and a switch shows it. The strip
// agrees, also where it has shorter steps than the records.
func TestPeerPageApart(t *testing.T) {
	for _, c := range []struct {
		in   page.Input
		want string
		of   int // kinds
	}{
		{pagetest.File(t, "../../internal/analyze/findings/testdata/causes/leak-senders.tach"), "leaked goroutines 32m19s", 1},
		{asksItself(t), "clients of the program's own server 2.00s, profiling endpoints 2.00s", 2},
	} {
		t.Run(c.want, func(t *testing.T) { looksApart(t, c.in, c.want, c.of) })
	}
}

func looksApart(t *testing.T, in page.Input, want string, kinds int) {
	apart := pagetest.Report(in, report.Options{}, profile.ByFunction).Apart
	p := open(t, pagetest.Write(t, page.Options{}, in), "", 1280, 800)
	p.wait(`document.getElementById('apart-note').textContent === ` + quote("set apart: "+want+"; the box “set apart” shows it"))
	p.compare("functions", in, report.Options{})
	p.sets("w", "weight", `"cpu"`)
	p.compare("functions", in, report.Options{Weight: "cpu"})
	p.sets("w", "weight", `"latency"`)
	p.compare("functions", in, report.Options{Weight: "latency"})
	p.sets("w", "weight", `"wall"`)
	p.press("#apart", `gotach.settings().apart`)
	p.wait(`!document.getElementById('apart-note').textContent.includes('shows it')`)
	p.compare("functions", in, report.Options{Apart: true})
	p.sets("D", "apart", "false")
	testenv.Same(t, fmt.Sprint("kinds that the report sets apart: ", apart), len(apart), kinds)
	sum := 0.0
	for _, x := range apart {
		sum += float64(x.Wall.Microseconds())
	}
	for _, events := range []int{0, 500} {
		p := open(t, pagetest.Write(t, page.Options{Events: events}, in), "", 1280, 800)
		testenv.Same(t, fmt.Sprint(events, " events: the strip has shorter steps"), eval[bool](p, `gotach.fine < gotach.width`), events > 0)
		testenv.Within(t, "µs that the strip sets apart", eval[float64](p, `gotach.classes(0, gotach.end)['set apart']`), sum*0.999, sum*1.001)
	}
}
