//go:build linux && (amd64 || arm64)

package harmless

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// shortCases are the names of eight cases that end in different ways.
var shortCases = []string{
	"returns", "exits 3", "exits from a goroutine", "exits while Start runs", "panics", "panics in a goroutine", "nil", "SIGTERM",
}

// TestShortPrograms checks that programs end in the same way with a session, if they end while it
// begins or a few ticks later. The sessions have 10 kHz. Every fifth has the portable source.
func TestShortPrograms(t *testing.T) {
	testenv.Long(t)
	programs := testenv.Times(40, 20_000)
	bin, rows := buildCase(t, false), harmRows(t)
	var cases []harmCase
	for _, c := range harmSections[0].cases {
		if slices.Contains(shortCases, c.name) && c.env == nil {
			c.env, c.racy = []string{"GOTACH_SHORT=1"}, true
			cases = append(cases, c)
		}
	}
	if len(cases) != len(shortCases) {
		t.Fatalf("%d cases, want %d", len(cases), len(shortCases))
	}
	var all sync.WaitGroup
	var wrong sync.Map // what differs
	free := make(chan bool, runtime.NumCPU())
	for i := range programs {
		free <- true
		all.Go(func() {
			defer func() { <-free }()
			c, source := &cases[i%len(cases)], "native"
			if i/len(cases)%5 == 4 {
				source = "portable"
			}
			if got, want := c.run(t, bin, source), rows[c.what][0]; got.String() != want {
				what := fmt.Sprintf("%s with the %s source: %s, without the profiler: %s", c.what, source, got, want)
				if _, known := wrong.LoadOrStore(what, true); !known { // once of thousands
					t.Errorf("%s\n%s", what, got.stderr)
				}
			}
		})
	}
	all.Wait()
}
