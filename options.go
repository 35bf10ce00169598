package profiler

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/hook"
	"github.com/gotach/profiler/sampler"
)

// The values of options that are one of a list; the first is the default.
var (
	sources      = []string{sampler.Auto, sampler.Native, sampler.Portable}
	compressions = []string{"zstd", "none"}
)

// config is what options and environment come to. A zero field is one that
// neither has set.
type config struct {
	output       string
	rate         int
	budget       float64
	source       string
	compression  string
	sync         time.Duration
	rotate       rotation
	keep         kept
	exports      []hook.Target
	oneFile      string // see hook.OneFile
	system       bool
	noWaitFrames bool
	logger       *slog.Logger

	fileSamples uint64 // in a file; 0: as many as its header can count. For tests.
}

func (c *config) log() *slog.Logger {
	if c.logger != nil {
		return c.logger
	}
	return slog.Default()
}

// An Option changes what a session does. One that makes no sense is an error
// of [Open].
type Option func(*config) error

// Output says where the profile is written. In the path %p stands for the
// process id, %h for the host, %e for the program, %t for the start time and
// %% for a percent sign. The variable PROFILE_OUT takes precedence.
func Output(path string) Option {
	return func(c *config) error {
		if path == "" {
			return errors.New("Output: the path is empty")
		}
		c.output = path
		return nil
	}
}

// Rate says how many times a second goroutines are sampled, from 1 to 10,000.
// The default is 1000.
func Rate(hz int) Option {
	return func(c *config) error {
		if hz < 1 || hz > sampler.MaxRate {
			return fmt.Errorf("Rate: %d is not between 1 and %d", hz, sampler.MaxRate)
		}
		c.rate = hz
		return nil
	}
}

// Budget says what sampling may cost, in percent of the machine's CPU; the
// default is 1. The native source takes every tick, and at each tick every goroutine that
// runs and a few of those that wait; how many more that wait, in turns, the
// budget decides. The portable source takes fewer ticks.
func Budget(percent float64) Option {
	return func(c *config) error {
		if !(percent > 0 && percent <= 100) {
			return fmt.Errorf("Budget: %v is not above 0 and at most 100", percent)
		}
		c.budget = percent
		return nil
	}
}

// Source says how goroutines are seen: "native" reads them where they lie and
// stops nothing, "portable" uses the runtime's public interface and stops the
// world for each tick, "auto" (the default) is native where it works and
// portable elsewhere. A source that is asked for by name and does not work here
// is an error.
func Source(name string) Option {
	return func(c *config) error {
		if !slices.Contains(sources, name) {
			return fmt.Errorf("Source: %q is not one of %s", name, strings.Join(sources, ", "))
		}
		c.source = name
		return nil
	}
}

// Compression is "zstd" (the default) or "none".
func Compression(name string) Option {
	return func(c *config) error {
		if !slices.Contains(compressions, name) {
			return fmt.Errorf("Compression: %q is not one of %s", name, strings.Join(compressions, ", "))
		}
		c.compression = name
		return nil
	}
}

// Sync says how often the profile is synced to the disk while it is recorded,
// 10ms or more. That bounds what a crash of the machine can take; a crash of the
// program takes nothing in any case. The default is not to sync.
func Sync(every time.Duration) Option {
	return func(c *config) error {
		if every < 10*time.Millisecond {
			return fmt.Errorf("Sync: %v is less than 10ms", every)
		}
		c.sync = every
		return nil
	}
}

// Rotate goes on in a new file when the one that is written has samples of so
// long a time, 1s or more, or so many bytes of them, 1 MB or more, whichever comes
// first; 0 is no such bound. For an Output of app.tach the files are app.1.tach,
// app.2.tach and so on. No sample is lost between two of them, and the command
// reads many as one profile. [Keep] bounds how many there are.
func Rotate(every time.Duration, bytes int64) Option {
	return func(c *config) error {
		r := rotation{every, bytes}
		if err := r.check(); err != nil {
			return fmt.Errorf("Rotate: %w", err)
		}
		c.rotate = r
		return nil
	}
}

// Keep bounds what [Rotate] leaves: how many finished files, and how many bytes
// they have together; the oldest are deleted. 0 is the default, 100 files and 1 GB.
// No file takes more than half of the bytes. Only files that the session has made
// itself are ever deleted; those of an earlier one stay.
func Keep(files int, bytes int64) Option {
	return func(c *config) error {
		k := kept{files, bytes}
		if err := k.check(); err != nil {
			return fmt.Errorf("Keep: %w", err)
		}
		c.keep = k
		return nil
	}
}

// Export also writes the profile in another format when the session ends. The
// formats are those of "gotach formats". It may be given several times. The program
// must import package export; otherwise Export is an error that says so:
//
//	import _ "github.com/gotach/profiler/export"
func Export(format, path string) Option {
	return func(c *config) error {
		if err := checkExport(format, path); err != nil {
			return fmt.Errorf("Export: %w", err)
		}
		c.exports = append(c.exports, hook.Target{Format: format, Path: path})
		return nil
	}
}

// SystemGoroutines samples the Go runtime's own goroutines too.
func SystemGoroutines() Option {
	return func(c *config) error {
		c.system = true
		return nil
	}
}

// NoWaitFrames leaves out the innermost frame that says why a goroutine waits,
// such as "[chan receive]".
func NoWaitFrames() Option {
	return func(c *config) error {
		c.noWaitFrames = true
		return nil
	}
}

// Logger says where warnings go; the default is [slog.Default].
func Logger(l *slog.Logger) Option {
	return func(c *config) error {
		c.logger = l
		return nil
	}
}

func checkExport(format, path string) error {
	if !hook.ExportLinked {
		return errNoExport
	}
	// Package auto's session may start before package export is initialized. Then an
	// unknown format is an error of Stop.
	if hook.Exporting != nil {
		if err := hook.Exporting.Check(format); err != nil {
			return err
		}
	}
	if path == "" {
		return fmt.Errorf("no path for %s", format)
	}
	return nil
}

var errNoExport = errors.New(`the program does not import _ "github.com/gotach/profiler/export"`)

func init() {
	hook.OneFile = func(path string) any {
		return Option(func(c *config) error {
			c.oneFile = path
			return nil
		})
	}
}
