package session

import (
	"log/slog"
	"time"

	"github.com/gotach/profiler/internal/frames"
	"github.com/gotach/profiler/internal/hook"
	"github.com/gotach/profiler/internal/rotate"
	"github.com/gotach/profiler/sampler"
)

// MinSync is the least value of Config.Sync. The others that have one are those of package rotate.
const MinSync = 10 * time.Millisecond

// Values of Config.Compression.
const (
	Zstd         = "zstd"
	Uncompressed = "none"
)

// A Config is the result of the options and the environment. Package profiler checks its values.
type Config struct {
	Output      string // a path with % sequences
	Rate        int    // ticks a second
	Budget      float64
	Source      string // of package sampler
	Compression string
	Sync        time.Duration
	MaxPause    time.Duration

	RotateEvery time.Duration // when a new file begins; 0: never
	RotateBytes int64
	KeepFiles   int // how many finished files are kept
	KeepBytes   int64
	Exports     []hook.Target

	OneFile string // write only this file, whatever is set above
	Sink    Sink   // takes the samples in place of files; nil: there are files

	System       bool // waits of the runtime's goroutines too
	Leaks        bool
	NoWaitFrames bool

	Service, ServiceVersion string

	Hosts []string // names of the server for the handlers of httpprof
	Log   *slog.Logger
}

// A Sink takes the samples of a session without files.
type Sink interface {
	sampler.Sink
	Frames() *frames.Table // of the ids that Intern has returned
}

// Defaults returns the configuration without options and environment.
func Defaults() Config {
	return Config{
		Output:      "%e-%p.tach",
		Rate:        sampler.DefaultRate,
		Budget:      sampler.DefaultBudget,
		Source:      sampler.Auto,
		Compression: Zstd,
		MaxPause:    sampler.DefaultMaxPause,
		KeepFiles:   rotate.UsualKeep,
		KeepBytes:   rotate.UsualKeepBytes,
	}
}

// Logger returns the logger for warnings.
func (c *Config) Logger() *slog.Logger {
	if c.Log != nil {
		return c.Log
	}
	return slog.Default()
}

func (c *Config) rotates() bool { return c.RotateEvery != 0 || c.RotateBytes != 0 }
