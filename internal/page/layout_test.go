package page

import (
	"strings"
	"testing"
	"time"
)

// TestPageNarrow: at 400 % zoom and on a phone nothing is wider than the window.
func TestPageNarrow(t *testing.T) {
	file, locks := pageOf(t, Options{}, server(t)), pageOf(t, Options{}, contended(t))
	for _, size := range [][2]int64{{320, 200}, {390, 844}} {
		q := open(t, locks, "#t=locks&l=0", size[0], size[1])
		// What is said of the holders wraps, however long it is.
		if w := eval[int64](q, `(() => { const e = document.getElementById('table'); e.querySelector('.detail p').textContent = 'too short to tell one from the next '.repeat(9); return e.scrollWidth - e.clientWidth; })()`); w > 0 {
			t.Errorf("the table of locks is %d px wider than a window of %d px", w, size[0])
		}
		p := open(t, file, "", size[0], size[1])
		if w := eval[int64](p, `document.scrollingElement.scrollWidth`); w > size[0] {
			t.Errorf("the page is %d px wide in a window of %d px", w, size[0])
		}
		if w := eval[int64](p, `(() => { const e = document.getElementById('table'); return e.scrollWidth - e.clientWidth; })()`); w > 0 {
			t.Errorf("the table of functions is %d px wider than a window of %d px", w, size[0])
		}
		p.click("main.serve")
		p.wait(`gotach.settings().zoom.length === 1`)
	}
}

// TestPageEmpty: where there is nothing to draw the page says why.
func TestPageEmpty(t *testing.T) {
	none := newRecording(t)
	none.empty = true
	asleep := newRecording(t)
	for at := uint64(0); at < 1_000_000; at += 10_000 {
		asleep.add(1, at, 0, wait("sleep"), frame("main.pause", 70))
	}
	for _, x := range []struct {
		in         Input
		hash, want string
	}{
		{none.input(time.Second), "", "There are no samples."},
		{asleep.input(time.Second), "#w=cpu", "No goroutine used CPU time in what is selected."},
	} {
		p := open(t, pageOf(t, Options{}, x.in), x.hash, 1280, 800)
		for _, id := range []string{"flame-bar", "lives-note", "table"} {
			p.wait(`document.getElementById('` + id + `').textContent === ` + quote(x.want))
		}
		if sums := eval[string](p, `document.getElementById('sums').textContent`); strings.Contains(sums, "no samples") != (x.hash == "") {
			t.Errorf("%s: the sums are %q", x.want, sums)
		}
		p.keys("]")
		p.wait(`document.getElementById('tab-lines').getAttribute('aria-selected') === 'true' && document.getElementById('table').textContent === ` + quote(x.want))
	}
}
