package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/stream"
	_ "github.com/gotach/profiler/leaks"
	"github.com/gotach/profiler/reader"
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
	time.Sleep(50 * time.Millisecond)
	if session.Stop() != nil {
		os.Exit(1)
	}
	close(c)
	// The program goes on: a second session, and garbage collections.
	second := profiler.Start(profiler.Output(path + ".2"))
	runtime.GC()
	time.Sleep(20 * time.Millisecond)
	if second.Stop() != nil {
		os.Exit(2)
	}
}

// The runtime of Go 1.27 says which goroutines are leaked, and gotach leaks where they wait. With an older one
// the file says that this is not known.
func TestProvenLeaks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GOTACH_TEST_LEAKS="+path, "PROFILE_OUT=", "PROFILE_LEAKS=1", "GOCOVERDIR="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r, err := reader.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	src, err := stream.New([]stream.File{{Stream: r}}, stream.Options{Creators: true})
	if err != nil {
		t.Fatal(err)
	}
	l, err := analyze.FindLeaks(analyze.NewSamples(path, src))
	if err != nil {
		t.Fatal(err)
	}
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
	for _, g := range l.Groups[1:] {
		if g.Proven != 0 {
			t.Errorf("%+v", g)
		}
	}
}
