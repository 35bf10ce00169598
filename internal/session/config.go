package session

import (
	"cmp"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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

// expand replaces %p, %h, %e, %t and %% in an output path. It keeps a percent sign before
// any other character, because that is a legal file name.
func expand(path string, start time.Time) string {
	before, rest, found := strings.Cut(path, "%")
	if !found || rest == "" {
		return path
	}
	with := ""
	switch rest[0] {
	case 'p':
		with = strconv.Itoa(os.Getpid())
	case 'h':
		with = fileName(hostname())
	case 'e':
		with = fileName(programName())
	case 't':
		with = start.Format("20060102T150405")
	case '%':
		with = "%"
	default:
		with = "%" + rest[:1]
	}
	return before + with + expand(rest[1:], start)
}

// whole returns the absolute path: the program may change its working directory during the session.
func whole(path string) string {
	if abs, err := filepath.Abs(path); err == nil && path != "" && !filepath.IsAbs(path) {
		return abs
	}
	return path
}

// fileName returns s as one path element: it replaces separators and NUL bytes by "_".
func fileName(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r == filepath.Separator || r == 0 {
			return '_'
		}
		return r
	}, s)
}

func hostname() string {
	h, _ := os.Hostname()
	return cmp.Or(h, "localhost")
}

// programName returns the base name of the executable, without the suffix .exe.
func programName() string {
	path, err := os.Executable()
	if err != nil {
		path = os.Args[0]
	}
	return strings.TrimSuffix(filepath.Base(path), ".exe")
}
