//go:build peers

package browser

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/httpprof/ui"
	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/analyze/report"
	"github.com/gotach/profiler/internal/page"
	"github.com/gotach/profiler/internal/page/pagetest"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"

	"github.com/chromedp/chromedp"
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
	testenv.FailIf(t, eval[float64](p, `gotach.width`) <= firstWidth, "the page leaves nothing out")
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
	testenv.Has(t, "chips", p.text("#chips"), "callers of main.serve")
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

// crowd makes a profile of a server that starts 5,000 goroutines a second. Each lives for some 20 ms, has two or three samples,
// and one of 800 stacks. 300 others live as long as the server.
func crowd(t testing.TB, seconds int) page.Input {
	r, rng := pagetest.New(t), rand.New(rand.NewPCG(1, 2))
	var stacks [800][]tachyon.Frame
	for i := range stacks {
		for depth := range 12 {
			stacks[i] = append(stacks[i], pagetest.Frame(fmt.Sprintf("example.com/app/part%d.(*Server).call%d", i>>min(9, depth), depth), int32(10+i%7)))
		}
	}
	waits := []tachyon.Frame{pagetest.Wait("chan receive"), pagetest.Wait("select"), pagetest.Wait("sync.Mutex.Lock"), pagetest.Wait("sleep"), pagetest.Wait("IO wait")}
	sample := func(id, at uint64) {
		n := rng.IntN(len(stacks))
		if rng.IntN(3) == 0 {
			r.Add(id, at, pagetest.Running, stacks[n]...)
		} else { // only a few stacks wait for locks and channels
			r.Add(id, at, 0, append([]tachyon.Frame{waits[min(len(waits)-1, n%100)]}, stacks[n]...)...)
		}
	}
	id := uint64(1000)
	for ms := uint64(0); ms < uint64(seconds)*1000; ms++ {
		for range 5 {
			sample(id, ms*1000)
			sample(id, ms*1000+rng.Uint64N(10_000))
			if rng.IntN(2) == 0 {
				sample(id, ms*1000+10_000+rng.Uint64N(20_000))
			}
			r.Goroutines = append(r.Goroutines, tachyon.Goroutine{ID: id, CreatedBy: "example.com/app.(*Server).Serve", CreatedAt: "/src/app/app.go:" + strconv.Itoa(int(id%9))})
			id++
		}
		for range 3 {
			sample(1+rng.Uint64N(300), ms*1000)
		}
	}
	return r.Input(time.Duration(seconds) * time.Second)
}

// TestPeerPageLarge makes the page of many goroutines, and measures it in the browser. With GOTACH_NIGHT=1 it is of a session of ten minutes
// with three million goroutines.
func TestPeerPageLarge(t *testing.T) {
	seconds, frames := testenv.Times(1, 600), testenv.Times(5, 40)
	in := crowd(t, seconds)
	begin := time.Now()
	file := pagetest.Write(t, page.Options{}, in)
	built := time.Since(begin)
	fi := testenv.Must(os.Stat(file))
	testenv.FailIf(t, fi.Size() > page.DefaultMaxSize, "the page has %d bytes, want at most %d", fi.Size(), page.DefaultMaxSize)
	p := open(t, file, "", 1280, 800)
	t.Logf("%d s of 5,000 goroutines a second: built in %v, %d bytes; %s", seconds, built.Round(time.Millisecond), fi.Size(), eval[string](p, `document.getElementById('left-out').textContent`))
	t.Logf("first paint after %.0f ms, all drawn after %.0f ms", eval[float64](p, `performance.getEntriesByName('first-contentful-paint')[0].startTime`), eval[float64](p, `gotach.ready`))
	for _, what := range []struct{ name, step string }{
		{"zoom and pan the strip", `strip.dispatchEvent(new WheelEvent('wheel', i < 10 ? {deltaY: -100, ctrlKey: true} : {deltaX: i % 2 ? 30 : 40}))`},
		{"move a range", `strip.dispatchEvent(new KeyboardEvent('keydown', {key: i % 40 < 20 ? 'ArrowRight' : 'ArrowLeft'}))`},
	} {
		before := eval[string](p, `location.hash`)
		eval[bool](p, `(() => { const strip = document.getElementById('strip'); window.frames2 = []; let i = 0, last = 0; const step = (now) => { if (last) frames2.push(now - last); last = now; if (i++ < `+strconv.Itoa(frames)+`) { `+what.step+`; requestAnimationFrame(step); } else window.done = `+quote(what.name)+`; }; requestAnimationFrame(step); return true; })()`)
		p.wait(`window.done === ` + quote(what.name))
		t.Logf("%s: the longest of %d frames took %.0f ms, the median %.0f ms", what.name, frames, eval[float64](p, `Math.max(...frames2)`), eval[float64](p, `frames2.sort((a, b) => a - b)[`+strconv.Itoa(frames/2)+`]`))
		hash := eval[string](p, `location.hash`)
		testenv.FailIf(t, hash == before, "%s: the address is still %q", what.name, hash)
		want := open(t, file, hash, 1280, 800)
		for _, id := range []string{"strip", "heat", "flame", "lives"} {
			pixels := `document.getElementById(` + quote(id) + `).toDataURL()`
			testenv.FailIf(t, eval[string](p, pixels) != eval[string](want, pixels), "%s: %s does not look as in a page that begins with %s", what.name, id, hash)
		}
	}
}

// TestPeerPage: a browser shows the running program from its session, what is new too, and a selected range stays. The session's own
// file is whole.
func TestPeerPage(t *testing.T) {
	own := filepath.Join(t.TempDir(), "own.tach")
	s := testenv.Must(profiler.Open(profiler.Output(own)))
	t.Cleanup(func() { _ = s.Stop() })
	u := ui.Handler()
	var working sync.WaitGroup
	working.Go(func() { work(t.Context()) })
	t.Cleanup(working.Wait) // the context has ended
	t.Cleanup(func() { testenv.OK(t, u.Close()) })
	mux := http.NewServeMux()
	mux.Handle("/debug/gotach/", u)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close) // when the tab is closed
	p := openURL(t, server.URL+"/debug/gotach/", "#t=functions", 1280, 800)
	p.wait(`[...document.querySelectorAll('#functions tbody button')].some((b) => b.textContent.endsWith('bench/browser.work'))`)
	p.wait(`!document.getElementById('fact-list').textContent.includes('not stopped')`)
	p.wait(`document.getElementById('live-note').textContent.includes('is being recorded')`)
	p.wait(`gotach.generations().duration > 1e8`) // the first page may be of the session's first step alone, which has no such range
	length := `document.getElementById('sums').textContent`
	before := eval[string](p, `location.hash = 'r=0.' + 10 * gotach.width; `+length)
	p.wait(length + ` !== ` + quote(before))
	p.wait(`gotach.settings().range && gotach.settings().range[0] === 0 && gotach.settings().range[1] === 10000`)
	if err := s.Stop(); err != nil { // the recording ends with the session
		t.Fatal(err)
	}
	r := testenv.Closes(t, testenv.Must(reader.Open(own)))
	testenv.FailIf(t, r.Unfinished() || r.Header().Samples == 0, "the session's own file: %+v", r.Header())
}

// work computes and waits until the context ends.
func work(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		if n%1_000_000 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
}
