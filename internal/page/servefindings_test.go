package page

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/stream"
)

// TestServerFindings: the tables of a range are those of the analyses of that range.
func TestServerFindings(t *testing.T) {
	in := contended(t)
	url := serve(t, ServerOptions{Open: selecting(in)})
	span := Span{begin + 200_000, begin + 500_000}
	for _, part := range []Span{{}, span} {
		sel, err := part.Select(nil)
		if err != nil {
			t.Fatal(err)
		}
		query := ""
		if part != (Span{}) {
			query = fmt.Sprintf("&from=%d&to=%d", part.From, part.To)
		}
		for _, what := range findingNames {
			var want sideTables
			one := Input{Name: in.Name, Open: func(o stream.Options) (*stream.Source, error) {
				o.Select = sel
				return in.Open(o)
			}}
			if err := want.find(what, one, func(string) ([]byte, error) { return nil, fs.ErrNotExist }); err != nil {
				t.Fatal(err)
			}
			s := ready(t, url, "what="+what+query, 0)
			z, err := gzip.NewReader(bytes.NewReader(get(t, fmt.Sprintf("%sdata/tables?what=%s%s&generation=%d", url, what, query, s.Generation))))
			if err != nil {
				t.Fatal(err)
			}
			all, err := io.ReadAll(z)
			if err != nil {
				t.Fatal(err)
			}
			var got struct{ Sides []json.RawMessage }
			if err := json.Unmarshal(all[4:4+binary.LittleEndian.Uint32(all)], &got); err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(want)
			if err != nil || len(got.Sides) != 1 || string(got.Sides[0]) != string(text) || len(text) < 100 {
				t.Errorf("%s of %v: %s, want %s (%v)", what, part, got.Sides, text, err)
			}
		}
	}
	if r, err := http.Get(url + "data/status?what=else"); err != nil || r.StatusCode != http.StatusBadRequest {
		t.Errorf("an unknown table: %v, %v", r, err)
	} else {
		r.Body.Close()
	}
}

// TestServedFindings: on a served page, locks, requests and leaks are of the selected range.
func TestServedFindings(t *testing.T) {
	in := contended(t)
	url := serve(t, ServerOptions{Title: "x", Open: selecting(in)})
	p := openURL(t, url, "#t=locks", 1280, 800)
	const waited = `(() => { const c = document.querySelector('.locks tbody td'); return c ? c.dataset.ns : ''; })()`
	check := func(what string, span Span) {
		t.Helper()
		sel, err := span.Select(nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := (&Input{Open: func(o stream.Options) (*stream.Source, error) {
			o.Select = sel
			return in.Open(o)
		}}).samples(stream.Options{Objects: true})
		if err != nil {
			t.Fatal(err)
		}
		locks, err := analyze.FindLocks(s, analyze.LockOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprint(int64(locks.Locks[0].Waited))
		p.wait(waited + ` !== ''`)
		if got := eval[string](p, waited); got != want {
			t.Errorf("%s: goroutines waited for %s ns, want %s", what, got, want)
		}
	}
	check("the whole", Span{})
	p.drag(0.3, 0.6)
	p.wait(`document.getElementById('findings-note').textContent.startsWith('Of the selected range')`)
	a := eval[[]int64](p, `gotach.settings().range`)
	check("a range", Span{begin + a[0], begin + a[1]})
	p.keys(kb.Escape) // takes the range back
	p.wait(`document.getElementById('findings-note').textContent.startsWith('Of the whole')`)
	check("the whole again", Span{})
}
