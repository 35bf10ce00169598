//go:build peers

package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/gotach/profiler/internal/page"
	"github.com/gotach/profiler/internal/page/pagetest"
	"github.com/gotach/profiler/internal/testenv"
)

// browser is one browser for all tests.
var browser struct {
	sync.Mutex
	ctx  context.Context
	stop func()
}

func TestMain(m *testing.M) {
	code := m.Run()
	if browser.stop != nil {
		browser.stop()
	}
	os.Exit(code)
}

// A tab shows a page. When the test ends, nothing may have been written to the console, and nothing fetched.
type tab struct {
	t   *testing.T
	ctx context.Context
	url string
}

// open opens a file in a tab of its own and waits until the page is drawn. The page must fetch nothing.
func open(t *testing.T, file, hash string, width, height int64) *tab {
	t.Helper()
	p := openURL(t, "file://"+filepath.ToSlash(file), hash, width, height)
	t.Cleanup(func() { same(t, eval[int](p, `performance.getEntriesByType('resource').length`), 0) })
	return p
}

// openURL opens a page in a tab of its own and waits until it is drawn.
func openURL(t *testing.T, url, hash string, width, height int64) *tab {
	t.Helper()
	path := testenv.Chromium(t)
	browser.Lock()
	defer browser.Unlock()
	if browser.ctx == nil {
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.Flag("headless", "new"), chromedp.Flag("disable-gpu", true))
		allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
		ctx, cancel := chromedp.NewContext(allocator)
		browser.ctx, browser.stop = ctx, func() { cancel(); stop() }
		testenv.OK(t, chromedp.Do(ctx))
	}
	ctx, cancel := chromedp.NewContext(browser.ctx)
	ctx, stop := context.WithTimeout(ctx, 2*time.Minute)
	p := &tab{t: t, ctx: ctx, url: url}
	var watching sync.WaitGroup
	var noise []string
	var lock sync.Mutex
	note := func(text string) {
		lock.Lock()
		defer lock.Unlock()
		noise = append(noise, text)
	}
	p.do(chromedp.EmulateViewport(width, height))
	console, requests := chromedp.Console(ctx), chromedp.Events(ctx, network.RequestWillBeSent)
	watching.Go(func() {
		for m, err := range console {
			if err != nil {
				return
			}
			if !strings.HasSuffix(m.String(), "status of 410 (Gone)") { // a live page has asked for data that newer ones have replaced meanwhile
				note("console: " + m.String())
			}
		}
	})
	watching.Go(func() {
		for r, err := range requests {
			if err != nil {
				return
			}
			if !strings.HasPrefix(r.Request.URL, p.url) && !strings.HasSuffix(r.Request.URL, "/favicon.ico") {
				note("fetched: " + r.Request.URL)
			}
		}
	})
	p.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, network.Enable, network.EnableParams{})
		return err
	}), chromedp.Navigate(p.url+hash))
	p.wait(`document.documentElement.dataset.drawn > 0`)
	t.Cleanup(func() {
		stop()
		cancel()
		watching.Wait()
		for _, text := range noise {
			t.Error(text)
		}
	})
	return p
}

func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	testenv.OK(p.t, chromedp.Do(p.ctx, actions...))
}

// eval returns the value of an expression.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	testenv.StopIf(p.t, err != nil, "%s: %v", expression, err)
	return v
}

// wait waits until an expression is true and nothing is left to draw.
func (p *tab) wait(expression string) {
	p.t.Helper()
	_, err := chromedp.Run(p.ctx, chromedp.Poll[bool]("!document.documentElement.hasAttribute('data-pending') && !!("+expression+")", chromedp.WithPollingTimeout(time.Minute)))
	if err != nil {
		p.t.Fatalf("waiting for %s: %v; settings %s", expression, err, eval[string](p, `JSON.stringify(gotach.settings())`))
	}
}

// keys presses keys.
func (p *tab) keys(text string, modifiers ...chromedp.Modifier) {
	p.t.Helper()
	p.do(chromedp.KeyEvent(text, chromedp.KeyModifiers(modifiers...)))
}

// key presses a key and waits until an expression is true, and sets until a setting has a value.
func (p *tab) key(text, expression string) { p.t.Helper(); p.keys(text); p.wait(expression) }

func (p *tab) sets(text, name, value string) { p.t.Helper(); p.keys(text); p.setting(name, value) }

// setting waits until a setting has a value, given as JSON.
func (p *tab) setting(name, value string) {
	p.t.Helper()
	p.wait(`JSON.stringify(gotach.settings().` + name + `) === ` + quote(value))
}

func quote(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

// A rect is where an element is.
type rect struct{ X, Y, Width, Height float64 }

func (p *tab) rect(selector string) rect {
	p.t.Helper()
	return eval[rect](p, `(() => { const e = document.querySelector(`+quote(selector)+`); e.scrollIntoView({block: 'center', behavior: 'instant'}); const r = e.getBoundingClientRect(); return {X: r.x, Y: r.y, Width: r.width, Height: r.height}; })()`)
}

// A box is a box of the flame graph, in pixels of the canvas.
type box struct {
	Name    string
	X, Y, W float64
	Us      float64
}

// boxes returns the boxes with a name.
func (p *tab) boxes(name string) []box {
	p.t.Helper()
	return eval[[]box](p, `gotach.boxes().filter((b) => b.name === `+quote(name)+`)`)
}

// click clicks on a box of the flame graph and waits until an expression is true.
func (p *tab) click(name, expression string, options ...chromedp.MouseOption) {
	p.t.Helper()
	list := p.boxes(name)
	if len(list) == 0 {
		p.t.Fatalf("no box %q in %v", name, eval[[]string](p, `gotach.boxes().map((b) => b.name)`))
	}
	eval[bool](p, `(() => { document.getElementById('flame-scroll').scrollTop = 0; return true; })()`)
	r, b := p.rect("#flame"), list[0]
	p.do(chromedp.MouseClickXY(r.X+b.X+b.W/2, r.Y+b.Y+9, options...))
	p.wait(expression)
}

// press clicks on an element and waits until an expression is true.
func (p *tab) press(selector, expression string) {
	p.t.Helper()
	r := p.rect(selector)
	p.do(chromedp.MouseClickXY(r.X+r.Width/2, r.Y+r.Height/2))
	p.wait(expression)
}

// drag drags from one point to another.
func (p *tab) drag(ax, ay, bx, by float64, options ...chromedp.MouseOption) {
	p.t.Helper()
	left := append([]chromedp.MouseOption{chromedp.ButtonLeft, chromedp.ClickCount(1)}, options...)
	p.do(
		chromedp.MouseEvent(chromedp.MousePressed, ax, ay, left...),
		chromedp.MouseEvent(chromedp.MouseMoved, (ax+bx)/2, (ay+by)/2, left...),
		chromedp.MouseEvent(chromedp.MouseMoved, bx, by, left...),
		chromedp.MouseEvent(chromedp.MouseReleased, bx, by, left...),
	)
}

// selects drags over the time strip, between two shares of its width, and returns the range that is then selected.
func (p *tab) selects(from, to float64, options ...chromedp.MouseOption) []int64 {
	p.t.Helper()
	r := p.rect("#strip")
	p.drag(r.X+from*r.Width, r.Y+r.Height/2, r.X+to*r.Width, r.Y+r.Height/2, options...)
	p.wait(`gotach.settings().range`)
	return eval[[]int64](p, `gotach.settings().range`)
}

// search types a search and waits for it. The driver also types the key that goes to the field, which a keyboard does not.
func (p *tab) search(text string) {
	p.t.Helper()
	p.key("/", `document.activeElement.id === 'query'`)
	eval[bool](p, `(() => { document.activeElement.value = ''; return true; })()`)
	p.key(text, `gotach.settings().query === `+quote(text))
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

// enter presses Enter on the element that Tab comes to, and waits until an expression is true.
func (p *tab) enter(condition, expression string) {
	p.t.Helper()
	p.tabTo(condition)
	p.key(enter, expression)
}

// twin opens the table that stands for a graph and waits until it has rows.
func (p *tab) twin(id string, rows int) {
	p.t.Helper()
	p.enter(`e.tagName === 'SUMMARY' && e.closest('`+id+`')`, fmt.Sprintf(`document.querySelectorAll('%s tbody tr').length >= %d`, id, rows))
}

// table opens a table.
func (p *tab) table(name string) {
	p.t.Helper()
	eval[bool](p, `(() => { document.getElementById('tab-`+name+`').click(); return true; })()`)
	p.setting("tab", quote(name))
}

// text returns the text of an element.
func (p *tab) text(selector string) string {
	p.t.Helper()
	return eval[string](p, `document.querySelector(`+quote(selector)+`).textContent`)
}

const enter, escape, right = kb.Enter, kb.Escape, kb.ArrowRight

// same says so if something is not as it should be.
func same[T comparable](t testing.TB, got, want T) {
	t.Helper()
	testenv.FailIf(t, got != want, "%#v, want %#v", got, want)
}

var update = flag.Bool("update", false, "make docs/page.png")

// TestPeerPicture makes docs/reading.md's picture of the page, from a profile of the demo. Without -update the picture is of the page of a
// synthetic profile and is only looked at: it must have the colours of the graphs.
func TestPeerPicture(t *testing.T) {
	in := pagetest.Server(t)
	if *update {
		demo := filepath.Join(t.TempDir(), "demo.tach")
		testenv.Run(t, exec.Command("go", "run", "../../cmd/gotach", "demo", "-o", demo))
		in = pagetest.File(t, demo)
		in.Name = "demo.tach"
	}
	p := open(t, pagetest.Write(t, page.Options{}, in), "#m=light", 1280, 800)
	p.wait(`true`)
	shot := testenv.Must(chromedp.Run(p.ctx, chromedp.CaptureScreenshot()))
	const name = "../../docs/page.png"
	if *update {
		testenv.OK(t, os.WriteFile(name, shot, 0o644))
	}
	for _, b := range [][]byte{shot, testenv.Must(os.ReadFile(name))} {
		m := testenv.Must(png.Decode(bytes.NewReader(b)))
		counts := map[color.Color]int{}
		for i := range m.Bounds().Dx() * m.Bounds().Dy() {
			counts[color.RGBAModel.Convert(m.At(i%m.Bounds().Dx(), i/m.Bounds().Dx()))]++
		}
		// running and lock
		a, b := counts[color.RGBA{0xe6, 0x9f, 0, 0xff}], counts[color.RGBA{0, 0x72, 0xb2, 0xff}]
		testenv.FailIf(t, a < 1000 || b < 1000, "%d and %d pixels of %v have the colours of the graphs", a, b, m.Bounds())
	}
}
