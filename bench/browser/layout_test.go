//go:build peers

package browser

import (
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/page"
	"github.com/gotach/profiler/internal/page/pagetest"
)

// TestPeerPageNarrow: at 400 % zoom and on a phone nothing is wider than the window.
func TestPeerPageNarrow(t *testing.T) {
	file, locks := pagetest.Write(t, page.Options{}, pagetest.Server(t)), pagetest.Write(t, page.Options{}, pagetest.Contended(t))
	for _, size := range [][2]int64{{320, 200}, {390, 844}} {
		p, q := open(t, file, "", size[0], size[1]), open(t, locks, "#t=locks&l=0", size[0], size[1])
		// What is said of the holders wraps, however long it is.
		eval[bool](q, `(() => { document.querySelector('#table .detail p').textContent = 'too short to tell one from the next '.repeat(9); return true; })()`)
		for _, page := range []*tab{p, q} {
			if wider := eval[[]int64](page, `[document.scrollingElement, document.getElementById('table')].map((e) => e.scrollWidth - e.clientWidth)`); wider[0] > 0 || wider[1] > 0 {
				t.Errorf("in a window of %d px the page and its table are wider by %v px", size[0], wider)
			}
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
		if sums := p.text("#sums"); strings.Contains(sums, "no samples") != (x.hash == "") {
			t.Errorf("%s: the sums are %q", x.want, sums)
		}
		p.key("]", `document.getElementById('tab-lines').getAttribute('aria-selected') === 'true' && document.getElementById('table').textContent === `+quote(x.want))
	}
}
