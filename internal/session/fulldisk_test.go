//go:build darwin || dragonfly || freebsd || linux || netbsd

package session

import (
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

// A disk that is full for a while ends no session. The error and the missing time are in a warning
// each, in Stats and in the file before. By day it is one without rotation: TestFullDiskForAWhile of package rotate has both.
func TestFullDisk(t *testing.T) {
	defer func() { WrapSink = nil }()
	for _, rotate := range []time.Duration{0, time.Hour}[:testenv.Times(1, 2)] {
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
		testenv.Await(func() bool { return s.Stats().Unwritten > 0 && s.Err() != nil })
		full.Store(false)
		testenv.Await(func() bool { return fileNumber(s) != first })
		before := s.Stats().Samples
		testenv.Await(func() bool { return s.Stats().Samples > before+5 })
		err := s.Stop()
		journal.Reserve = old
		testenv.Is(t, "Stop", err, syscall.ENOSPC)
		testenv.Same(t, "Stop", err, s.Err())
		testenv.Same(t, "lines of the log", len(log.Lines()), 2)
		testenv.Has(t, "the first line", log.Lines()[0], "samples are dropped until a new file can be made")
		testenv.Has(t, "the second line", log.Lines()[1], "samples are missing")
		files, st := s.Files(), s.Stats()
		testenv.Same(t, "files", len(files), 2)
		a, b := testenv.Metadata(t, reader.Open, files[0]).Session, testenv.Metadata(t, reader.Open, files[1]).Session
		testenv.Prints(t, "unwritten, dropped, samples", fmt.Sprintf("%v 0s %d %d", st.Unwritten, st.Dropped, st.Samples), a.Unwritten, b.Unwritten, a.Dropped+b.Dropped, a.Samples+b.Samples)
		testenv.Within(t, "unwritten", a.Unwritten, 1, a.Duration)
		testenv.Within(t, "dropped in the first file", a.Dropped, 1, st.Dropped)
		testenv.Same(t, "the first file ends where the second begins", a.Start.Add(a.Duration).UnixMicro(), b.Start.UnixMicro())
		testenv.Within(t, "samples of the first file", int64(testenv.Count(t, reader.Open, files[0])), max(a.Samples, 1), a.Samples)
	}
}
