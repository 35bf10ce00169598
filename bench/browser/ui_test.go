//go:build peers

package browser

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gotach/profiler/httpprof/ui"

	"github.com/chromedp/chromedp"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
)

// TestPeerPage: a browser shows the running program from its session, what is new too, and a selected range stays. The session's own
// file is whole.
func TestPeerPage(t *testing.T) {
	chromium := testenv.Chromium(t)
	own := filepath.Join(t.TempDir(), "own.tach")
	s := testenv.Must(profiler.Open(profiler.Output(own)))
	defer s.Stop()
	u := ui.Handler()
	ctx, halt := context.WithCancel(t.Context())
	var working sync.WaitGroup
	working.Go(func() { work(ctx) })
	defer working.Wait()
	defer halt()
	defer func() { testenv.OK(t, u.Close()) }()
	mux := http.NewServeMux()
	mux.Handle("/debug/gotach/", u)
	server := httptest.NewServer(mux)
	defer server.Close()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.Flag("headless", "new"), chromedp.Flag("disable-gpu", true))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	defer stop()
	tab, cancel := chromedp.NewContext(allocator)
	defer cancel()
	tab, end := context.WithTimeout(tab, 2*time.Minute)
	defer end()
	wait := func(expression string) {
		t.Helper()
		if _, err := chromedp.Run(tab, chromedp.Poll[bool]("!!("+expression+")", chromedp.WithPollingTimeout(time.Minute))); err != nil {
			text, _ := chromedp.Run(tab, chromedp.Evaluate[string](`document.body.innerText`))
			t.Fatalf("%s: %v\n%s", expression, err, text)
		}
	}
	testenv.OK(t, chromedp.Do(tab, chromedp.Navigate(server.URL+"/debug/gotach/#t=functions")))
	wait(`[...document.querySelectorAll('#functions tbody button')].some((b) => b.textContent.endsWith('bench/browser.work'))`)
	wait(`!document.getElementById('fact-list').textContent.includes('not stopped')`)
	wait(`document.getElementById('live-note').textContent.includes('is being recorded')`)
	length := `document.getElementById('sums').textContent`
	before := testenv.Must(chromedp.Run(tab, chromedp.Evaluate[string](`location.hash = 'r=0.' + 10 * gotach.width; `+length)))
	wait(length + ` !== ` + fmt.Sprintf("%q", before))
	wait(`gotach.settings().range && gotach.settings().range[0] === 0 && gotach.settings().range[1] === 10000`)
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
