package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/leaks"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	_ "github.com/gotach/profiler/leaks"
)

func init() { programs["GOTACH_TEST_LEAKS"] = runLeaks }

//go:noinline
func waitForever() { <-make(chan int) }

//go:noinline
func waitForEnd(c chan int) { <-c }

// runLeaks is a program that leaks three goroutines. Three others wait for a channel that it uses later.
func runLeaks() {
	path := os.Getenv("GOTACH_TEST_LEAKS")
	session := profiler.Start(profiler.Output(path))
	c := make(chan int)
	for range 3 {
		go waitForever()
		go waitForEnd(c)
	}
	awaitSamples(session)
	if session.Stop() != nil {
		os.Exit(1)
	}
	close(c)
	// The program goes on: a second session, and garbage collections.
	second := profiler.Start(profiler.Output(path + ".2"))
	runtime.GC()
	awaitSamples(second)
	if second.Stop() != nil {
		os.Exit(2)
	}
}

// awaitSamples waits until a session has visited all goroutines some times.
func awaitSamples(s *profiler.Session) {
	testenv.Await(func() bool { return s.Err() != nil || s.Stats().Samples >= 30 })
}

// The runtime of Go 1.27 says which goroutines are leaked, and gotach leaks where they wait. With an older one
// the file says that this is not known.
func TestProvenLeaks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	if out, err := again(t, "GOTACH_TEST_LEAKS="+path, "PROFILE_OUT=", "PROFILE_LEAKS=1").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r := testenv.Must(reader.Open(path))
	defer r.Close()
	src := testenv.Must(stream.New([]stream.File{{Stream: r}}, stream.Options{Creators: true}))
	l := testenv.Must(leaks.Find(analyze.NewSamples(path, src)))
	if !l.Asked {
		t.Fatal("the runtime was not asked")
	}
	if pprof.Lookup("goroutineleak") == nil {
		if !strings.Contains(l.ProvenUnknown, runtime.Version()) || l.Proven != 0 {
			t.Errorf("%+v", l)
		}
		return
	}
	if l.Proven != 3 || len(l.Groups) == 0 || l.ProvenUnknown != "" {
		text, _ := json.Marshal(l)
		t.Fatalf("%d goroutines are proven to be leaked, want 3: %s", l.Proven, text)
	}
	g := l.Groups[0]
	if g.Proven != 3 || !strings.HasSuffix(g.Function, ".waitForever") || filepath.Base(g.File) != "leaks_test.go" || g.End != 3 || !strings.HasSuffix(g.CreatedBy, ".runLeaks") {
		t.Errorf("%+v", g)
	}
}
