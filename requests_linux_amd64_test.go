package profiler_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	profiler "github.com/gotach/profiler"
	"github.com/gotach/profiler/reader"
)

// A channel for each request, for which two goroutines wait, does not make the file larger: few of these
// channels are described.
func TestFileOfChannels(t *testing.T) {
	t.Setenv("PROFILE_SOURCE", "native")
	// size returns what a session's file takes.
	size := func(wait func(end <-chan int)) (bytes, samples int64, objects int) {
		path := filepath.Join(t.TempDir(), "x.tach")
		s, err := profiler.Open(profiler.Output(path), profiler.Source(profiler.Native))
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 2000 {
			for range 5 {
				c := make(chan int)
				all.Go(func() { wait(c) })
				all.Go(func() { wait(c) })
				time.AfterFunc(5*time.Millisecond, func() { close(c) })
			}
			time.Sleep(time.Millisecond)
		}
		all.Wait()
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		r, err := reader.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		m, err := r.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		return info.Size(), int64(r.Header().Samples), len(m.Objects)
	}
	without, samples, none := size(func(<-chan int) { time.Sleep(5 * time.Millisecond) })
	with, more, some := size(func(end <-chan int) { <-end })
	t.Logf("%d bytes for %d samples and %d objects without the channels, %d for %d and %d with them", without, samples, none, with, more, some)
	if samples < 5000 || more < 5000 || some == 0 {
		t.Fatal("too few samples or objects")
	}
	// The first objects are described, and 20 a second. An object and its frame take less than 100 bytes.
	if limit := without*5/4*more/samples + 64<<10; with > limit {
		t.Errorf("%d bytes with the channels, want at most %d", with, limit)
	}
}
