package attach

import (
	"errors"
	"time"

	"github.com/gotach/profiler/internal/rotate"
	"github.com/gotach/profiler/tachyon"
)

// ErrNotGo says that a process runs something else.
var ErrNotGo = errors.New("not a Go program, or a packed executable")

// ErrEnded says that there is no process of an id, or not any more.
var ErrEnded = errors.New("there is no process")

// Options say how to record.
type Options struct {
	Interval time.Duration                                   // between two ticks
	Budget   float64                                         // what it may cost, in percent of the machine's CPU
	Rotate   rotate.Options                                  // Every, Bytes, Keep and KeepBytes
	Progress func(ticks int64, d time.Duration, path string) // called after each tick, with the file that is written
	refused  error                                           // for tests: what the kernel says to perf events
}

// A Recording says how recording went.
type Recording struct {
	Duration time.Duration
	tachyon.Counts
	Files  []string // that are kept
	Ended  error    // why it ended before it was told to; nil: it was told to
	NoPerf error    // why what runs is not seen, and what helps; nil: it is
}
