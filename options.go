package profiler

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gotach/profiler/internal/hook"
	"github.com/gotach/profiler/sampler"
)

// An Option changes what a session does. A value that makes no sense is an error of
// [Open]. Where an environment variable says the same thing and is set, the variable
// wins; the package's documentation lists them.
type Option func(*config) error

// Output says where the profile is written. In the path %p stands for the
// process id, %h for the host, %e for the program, %t for the start time and
// %% for a percent sign. The default is %e-%p.tach.
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
// default is 1. The native source takes every tick. At each tick it samples every goroutine
// that runs and a few of those that wait; the budget decides how many more of the
// waiting ones it samples, in turns. The portable source takes fewer ticks.
func Budget(percent float64) Option {
	return func(c *config) error {
		if !(percent > 0 && percent <= 100) {
			return fmt.Errorf("Budget: %v is not above 0 and at most 100", percent)
		}
		c.budget = percent
		return nil
	}
}

// A SourceKind is a way to sample goroutines, for [Source].
type SourceKind string

const (
	// Auto is Native where that works, else Portable. It is the default.
	Auto SourceKind = sampler.Auto
	// Native reads the stacks of goroutines where they are and stops nothing. It works
	// on Linux on amd64 and arm64.
	Native SourceKind = sampler.Native
	// Portable uses the runtime's public functions and stops the program for each tick.
	Portable SourceKind = sampler.Portable
)

// Source says how goroutines are sampled. A source that does not work here is an
// error of [Open], except that Auto always finds one.
func Source(kind SourceKind) Option {
	return func(c *config) error {
		if kind != Auto && kind != Native && kind != Portable {
			return fmt.Errorf("Source: %q is not one of %s, %s, %s", string(kind), Auto, Native, Portable)
		}
		c.source = kind
		return nil
	}
}

// A Codec is a way to compress samples, for [Compression].
type Codec string

const (
	// Zstd compresses samples with Zstandard. It is the default.
	Zstd Codec = "zstd"
	// Uncompressed writes samples as they are, which takes less CPU time and more space.
	Uncompressed Codec = "none"
)

// Compression says how samples are compressed in the file.
func Compression(codec Codec) Option {
	return func(c *config) error {
		if codec != Zstd && codec != Uncompressed {
			return fmt.Errorf("Compression: %q is not one of %s, %s", string(codec), Zstd, Uncompressed)
		}
		c.compression = codec
		return nil
	}
}

// SyncEvery says how often the profile is synced to the disk while it is recorded, 10 ms
// or more. That bounds what a crash of the machine can take; a crash of the
// program takes nothing in any case. The default is not to sync. It works on Linux.
func SyncEvery(d time.Duration) Option {
	return func(c *config) error {
		if d < minSync {
			return fmt.Errorf("SyncEvery: %v is less than %v", d, minSync)
		}
		c.sync = d
		return nil
	}
}

const minSync = 10 * time.Millisecond

// RotateEvery goes on in a new file when the current one has samples of that long a
// time, 1 s or more. For an Output of app.tach the files are app.1.tach,
// app.2.tach and so on. No sample is lost between two of them, and the command
// reads many as one profile. With [RotateAt] too, whichever comes first counts.
// [KeepFiles] and [KeepBytes] bound how many files there are.
func RotateEvery(d time.Duration) Option {
	return func(c *config) error {
		if d < minRotateTime {
			return fmt.Errorf("RotateEvery: %v is less than %v", d, minRotateTime)
		}
		c.rotate.every = d
		return nil
	}
}

// RotateAt goes on in a new file, as [RotateEvery] does, when the current one has
// that many bytes of compressed samples, 1 MB or more. Tables and up to half a megabyte of
// samples come on top.
func RotateAt(bytes int64) Option {
	return func(c *config) error {
		if bytes < minRotateBytes {
			return fmt.Errorf("RotateAt: %d bytes are less than %s", bytes, formatBytes(minRotateBytes))
		}
		c.rotate.bytes = bytes
		return nil
	}
}

// KeepFiles bounds how many finished files rotation leaves; the oldest are deleted.
// The default is 100. Only files that the session itself has made are ever deleted;
// those of an earlier one stay.
func KeepFiles(n int) Option {
	return func(c *config) error {
		if n < 1 {
			return fmt.Errorf("KeepFiles: %d is less than 1", n)
		}
		c.keep.files = n
		return nil
	}
}

// KeepBytes bounds how many bytes the finished files have together that rotation
// leaves, as [KeepFiles] bounds their number. It is 2 MB or more; the default is 1 GB. No
// file takes more than half of it.
func KeepBytes(n int64) Option {
	return func(c *config) error {
		if n < minKeepBytes {
			return fmt.Errorf("KeepBytes: %d bytes are less than %s", n, formatBytes(minKeepBytes))
		}
		c.keep.bytes = n
		return nil
	}
}

// MaxPause bounds for how long one tick may stop the program. Only the portable source
// stops it. Where a tick would take longer, because there are many goroutines, it is
// left out, and the profile says so. The default is 10 ms.
func MaxPause(d time.Duration) Option {
	return func(c *config) error {
		if d <= 0 {
			return fmt.Errorf("MaxPause: %v is not above 0", d)
		}
		c.maxPause = d
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
