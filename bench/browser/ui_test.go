//go:build peers

package browser

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gotach/profiler/httpprof/ui"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
)

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
	length := `document.getElementById('sums').textContent`
	before := eval[string](p, `location.hash = 'r=0.' + 10 * gotach.width; `+length)
	p.wait(length + ` !== ` + quote(before))
	p.wait(`gotach.settings().range && gotach.settings().range[0] === 0 && gotach.settings().range[1] === 10000`)
	if err := s.Stop(); err != nil { // the recording ends with the session
		t.Fatal(err)
	}
	r := testenv.Must(reader.Open(own))
	defer r.Close()
	if r.Unfinished() || r.Header().Samples == 0 {
		t.Errorf("the session's own file: %+v", r.Header())
	}
}

// work computes and waits until the context ends.
func work(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		if n%1_000_000 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
}
