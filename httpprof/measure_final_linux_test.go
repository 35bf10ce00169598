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
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
)

// TestMeasureFinalSamples: a profile has all the time of each of many goroutines that wait, although the budget is for few samples: at
// the end there is one of each, also if the session goes on, and in a profile of the past.
func TestMeasureFinalSamples(t *testing.T) {
	finalSamples(t, "seconds=1")
	s := testenv.Must(profiler.Open(profiler.Budget(0.01), profiler.Output(filepath.Join(t.TempDir(), "x.tach"))))
	defer s.Stop()
	finalSamples(t, "seconds=1")
	finalSamples(t, "last=1s")
}

func finalSamples(t *testing.T, query string) {
	const n = 2000
	stop := make(chan struct{})
	defer close(stop)
	for range n {
		go handlerTestWait(stop)
	}
	if query == "last=1s" {
		time.Sleep(time.Second)
	}
	code, body, _ := get(t, Handler(profiler.Budget(0.01)), "/?format=tach&"+query)
	if code != http.StatusOK {
		t.Fatalf("status %d: %s", code, body)
	}
	r := testenv.Must(reader.New(bytes.NewReader(body)))
	waited := map[uint64]time.Duration{}
	src := samples(r)
	for s, err := range src.Samples() {
		testenv.OK(t, err)
		for _, id := range src.AppendStack(nil, s.Stack) {
			if strings.HasSuffix(src.Frames()[id].Func, ".handlerTestWait") {
				waited[s.Goroutine] += s.Wall
			}
		}
	}
	whole := 0
	for _, d := range waited { // some have only the end of an earlier call's goroutines
		if d >= time.Second/2 {
			whole++
		}
	}
	// The end of a session bounds the time for it, so a busy machine leaves some out.
	if whole < n*95/100 {
		t.Errorf("%s: of %d goroutines %d have a sample and %d half of the time", query, n, len(waited), whole)
	}
}
