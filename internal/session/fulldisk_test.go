//go:build darwin || dragonfly || freebsd || linux || netbsd

package session

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
)

// crowded is a session's sink. While the disk is full it has many new functions, so that the journal has to grow.
type crowded struct {
	sampler.Sink
	full *atomic.Bool
	n    int
}

func (c *crowded) WriteBatch(list []tachyon.Sample) (int, error) {
	for range 20 {
		if c.full.Load() {
			c.n++
			c.Intern(tachyon.Frame{Func: fmt.Sprint(strings.Repeat("f", 50_000), c.n)})
		}
	}
	return c.Sink.WriteBatch(list)
}

// A disk that is full for a while ends no session, with rotation and without. The error and the missing time are in a warning
// each, in Stats and in the file before.
func TestFullDisk(t *testing.T) {
	defer func() { WrapSink = nil }()
	for _, rotate := range []time.Duration{0, time.Hour} {
		var full atomic.Bool
		WrapSink = func(s sampler.Sink) sampler.Sink { return &crowded{s, &full, 0} }
		old := journal.Reserve
		journal.Reserve = func(f *os.File, off, size int64) error {
			if full.Load() {
				return os.NewSyscallError("fallocate", syscall.ENOSPC)
			}
			return old(f, off, size)
		}
		s, log := opened(t, t.TempDir(), func(c *Config) { c.RotateEvery = rotate })
		first := fileNumber(s)
		testenv.Await(func() bool { return s.Err() != nil || s.Stats().Samples >= 5 })
		full.Store(true)
		testenv.Await(func() bool { return s.Stats().Unwritten > 0 })
		if s.Err() == nil {
			testenv.Await(func() bool { return s.Err() != nil })
		}
		full.Store(false)
		testenv.Await(func() bool { return fileNumber(s) != first })
		before := s.Stats().Samples
		awaitMore := func() bool { return s.Stats().Samples > before+5 }
		testenv.Await(awaitMore)
		err := s.Stop()
		journal.Reserve = old
		if !errors.Is(err, syscall.ENOSPC) || err != s.Err() {
			t.Errorf("Stop returns %v", err)
		}
		l := log.Lines()
		if len(l) != 2 || !strings.Contains(l[0], "samples are dropped until a new file can be made") || !strings.Contains(l[1], "samples are missing") {
			t.Errorf("logged %q", l)
		}
		files, st := s.Files(), s.Stats()
		if len(files) != 2 {
			t.Fatalf("files %q", files)
		}
		a, b := testenv.Metadata(t, reader.Open, files[0]).Session, testenv.Metadata(t, reader.Open, files[1]).Session
		if a.Unwritten == 0 || a.Unwritten != st.Unwritten || a.Dropped < 1 || a.Dropped+b.Dropped != st.Dropped || b.Unwritten != 0 || a.Samples+b.Samples != st.Samples {
			t.Errorf("%v and %v unwritten, %d and %d dropped; in all %v, %d", a.Unwritten, b.Unwritten, a.Dropped, b.Dropped, st.Unwritten, st.Dropped)
		}
		if end := a.Start.Add(a.Duration); end.UnixMicro() != b.Start.UnixMicro() || a.Duration < a.Unwritten {
			t.Errorf("the first file ends at %v, the second begins at %v", end, b.Start)
		}
		if n := testenv.Count(t, reader.Open, files[0]); int64(n) != a.Samples || n == 0 {
			t.Errorf("%d samples of %d", n, a.Samples)
		}
	}
}
