//go:build measure

package httpprof

import (
	"bytes"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/reader"
)

// TestMeasureFinalSamples: a profile has all the time of each of many goroutines that wait, although the budget is for few samples: at
// the end there is one of each, also if the session goes on.
func TestMeasureFinalSamples(t *testing.T) {
	finalSamples(t)
	s := testenv.Must(profiler.Open(profiler.Budget(0.01), profiler.Output(filepath.Join(t.TempDir(), "x.tach"))))
	defer s.Stop()
	finalSamples(t)
}

func finalSamples(t *testing.T) {
	const n = 2000
	stop := make(chan struct{})
	defer close(stop)
	for range n {
		go handlerTestWait(stop)
	}
	code, body, _ := get(t, Handler(profiler.Budget(0.01)), "/?seconds=1&format=tach")
	if code != http.StatusOK {
		t.Fatalf("status %d: %s", code, body)
	}
	r := testenv.Must(reader.New(bytes.NewReader(body)))
	waited := map[uint64]time.Duration{}
	for s, err := range reader.Weighted(r) {
		testenv.OK(t, err)
		for _, id := range s.Stack {
			if strings.HasSuffix(r.Frames()[id].Func, ".handlerTestWait") {
				waited[s.Thread] += s.Wall()
			}
		}
	}
	least := time.Hour
	for _, d := range waited {
		least = min(least, d)
	}
	// The end of a session bounds the time for it, so a busy machine leaves some out.
	if len(waited) < n*95/100 || least < time.Second/2 {
		t.Errorf("%d of %d goroutines have a sample, the least time is %v", len(waited), n, least)
	}
}
