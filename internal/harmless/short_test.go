//go:build linux && (amd64 || arm64)

package harmless

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
)

// shortCases are the names of eight cases that end in different ways.
var shortCases = []string{
	"returns", "exits 3", "exits from a goroutine", "exits while Start runs", "panics", "panics in a goroutine", "nil", "SIGTERM",
}

// TestShortPrograms checks that programs end in the same way with a session, if they end while it
// begins or a few ticks later. It runs 500 programs, or GOTACH_PROGRAMS, at 10 kHz. Every fifth has
// the portable source.
func TestShortPrograms(t *testing.T) {
	programs := 500
	if v := os.Getenv("GOTACH_PROGRAMS"); v != "" {
		var err error
		if programs, err = strconv.Atoi(v); err != nil || programs < 1 {
			t.Fatalf("GOTACH_PROGRAMS=%s is not a positive number", v)
		}
	}
	bin := buildCase(t, false)
	short := []string{"GOTACH_SHORT=1"}
	want := map[string]harmRun{}
	for _, name := range shortCases {
		want[name] = harmCase{what: name, name: name, env: short, racy: true}.run(t, bin, "")
	}
	var (
		all   sync.WaitGroup
		mu    sync.Mutex
		wrong = map[string]int{}
		next  = make(chan int)
	)
	for range runtime.NumCPU() {
		all.Go(func() {
			for i := range next {
				name, source := shortCases[i%len(shortCases)], "native"
				if i/len(shortCases)%5 == 4 {
					source = "portable"
				}
				got := harmCase{what: name, name: name, env: short, racy: true}.run(t, bin, source)
				if w := want[name]; got.end != w.end || got.said != w.said || got.stdout != w.stdout {
					mu.Lock()
					what := fmt.Sprintf("%q with the %s source: %s, without the profiler: %s", name, source, got, w)
					if wrong[what]++; wrong[what] == 1 {
						t.Errorf("%s\n%s", what, got.stderr)
					}
					mu.Unlock()
				}
			}
		})
	}
	for i := range programs {
		next <- i
	}
	close(next)
	all.Wait()
	n := 0
	for what, times := range wrong {
		t.Errorf("%d times: %s", times, what)
		n += times
	}
	t.Logf("%d of %d programs ended differently", n, programs)
}
