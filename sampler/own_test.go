package sampler_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/rotate"
	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

const module = "github.com/gotach/profiler/"

// TestOwnGoroutines checks that the profile has none of the profiler's own goroutines: neither those
// of sampler and source, nor those that sync and finish files. It must have all other goroutines,
// also those that other functions of this module created.
func TestOwnGoroutines(t *testing.T) {
	for _, source := range sampler.Sources() {
		t.Run(source, func(t *testing.T) {
			stop := make(chan bool)
			defer close(stop)
			id := make(chan uint64)
			go func() { id <- goid(); <-stop }() // its creator is a function of this module
			waits := <-id

			start := time.Now()
			first := writer.Options{Start: uint64(start.UnixMicro()), Interval: 1000, Sync: 2 * time.Millisecond}
			w, err := rotate.Create(filepath.Join(t.TempDir(), "x.tach"), rotate.Options{
				Every: 50 * time.Millisecond, Keep: 1000, KeepBytes: 1 << 40,
				Writer: first,
				Begin:  func(*writer.Writer, uint64) error { return nil },
				Failed: func(err error) { t.Error(err) },
			})
			if err != nil {
				t.Fatal(err)
			}
			s, err := sampler.Start(sampler.Config{Source: source, Budget: 100, Start: start}, eager{w, start})
			if err != nil {
				t.Fatal(err)
			}
			// While files are finished, more goroutines of the profiler run.
			waitFor(t, func() bool { return len(w.Files()) >= 8 })
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}
			p := s.Part()
			if err := w.Close(func(w *writer.Writer) error { return addGoroutines(w, p) }); err != nil {
				t.Fatal(err)
			}

			found := false
			for _, path := range w.Files() {
				r, err := reader.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				m, err := r.Metadata()
				if err != nil {
					t.Fatal(err)
				}
				for _, g := range m.Goroutines {
					if strings.HasPrefix(g.CreatedBy, module+"internal/own.") {
						t.Errorf("goroutine %d: created by %s", g.ID, g.CreatedBy)
					}
				}
				for smp, err := range r.Samples() {
					if err != nil {
						t.Fatal(err)
					}
					root := rootOf(r.Frames(), smp)
					if strings.HasPrefix(root.Func, module) && !strings.HasSuffix(root.File, "_test.go") {
						t.Fatalf("goroutine %d began in %s", smp.Thread, root.Func)
					}
					found = found || smp.Thread == waits
				}
			}
			if !found {
				t.Errorf("goroutine %d of the test has no sample", waits)
			}
		})
	}
}

// eager is a sink that rotates even if the previous file is not finished yet.
type eager struct {
	*rotate.Writer
	start time.Time
}

func (e eager) Next(at time.Duration, cut func() sampler.Part) {
	e.Writer.Next(uint64(e.start.UnixMicro()+at.Microseconds()), func() func(*writer.Writer) error {
		p := cut()
		return func(w *writer.Writer) error { return addGoroutines(w, p) }
	})
}

// goid returns the caller's goroutine id.
func goid() (id uint64) {
	var buf [64]byte
	fmt.Sscanf(string(buf[:runtime.Stack(buf[:], false)]), "goroutine %d ", &id)
	return id
}

func rootOf(frames []tachyon.Frame, s *tachyon.Sample) tachyon.Frame {
	if len(s.Stack) == 0 {
		return tachyon.Frame{}
	}
	return frames[s.Stack[len(s.Stack)-1]]
}
