package profiler

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gotach/profiler/internal/hook"
	"github.com/gotach/profiler/internal/rotate"
	"github.com/gotach/profiler/internal/session"
	"github.com/gotach/profiler/sampler"
)

// An Option changes what a session does. [Open] returns an error for an invalid value. An
// environment variable for the same setting overrides the option; the package's
// documentation lists the variables.
type Option func(*config) error

type config = session.Config

// option returns an Option that sets something, or if the value is not valid returns an error.
func option(valid bool, set func(*config), format string, args ...any) Option {
	var err error
	if !valid {
		err = fmt.Errorf(format, args...)
	}
	return func(c *config) error {
		if err == nil {
			set(c)
		}
		return err
	}
}

// Output sets the path of the profile. In the path %p stands for the process id, %h for
// the host, %e for the program, %t for the start time and %% for a percent sign. A relative
// path counts from the working directory at Start. The default is %e-%p.tach.
func Output(path string) Option {
	return option(path != "", func(c *config) { c.Output = path }, "Output: the path is empty")
}

// Rate sets the number of ticks a second, from 1 to 10,000. The default is 1000.
func Rate(hz int) Option {
	return option(hz >= 1 && hz <= sampler.MaxRate, func(c *config) { c.Rate = hz }, "Rate: %d is not between 1 and %d", hz, sampler.MaxRate)
}

// Budget limits the CPU time of sampling, in percent of the CPU that the process may use:
// GOMAXPROCS cores, or the cgroup's quota or the affinity if these are less. The default is 1.
// If the ticks of [Rate] would cost more, both sources take fewer.
//
// At each tick the native source samples all running goroutines, and some of the waiting ones
// in turns. The waiting ones get a third of the budget, or less if that does not suffice for
// 100 ticks a second. With 1 percent or more, the native source takes at least 10 ticks a
// second while something runs, even if they cost more.
func Budget(percent float64) Option {
	return option(percent > 0 && percent <= 100, func(c *config) { c.Budget = percent }, "Budget: %v percent is not above 0 and at most 100", percent)
}

// A SourceKind is a way to sample goroutines, for [Source].
type SourceKind string

const (
	// Auto is Native on systems where that works, else Portable. It is the default.
	Auto SourceKind = "auto"
	// Native reads the goroutines' stacks in memory and does not stop the program. It works
	// on Linux on amd64 and arm64.
	Native SourceKind = "native"
	// Portable uses the runtime's public functions and stops the program for each tick.
	Portable SourceKind = "portable"
	// Off takes no profile: the session does nothing, makes no file and logs nothing.
	Off SourceKind = "off"
)

// Source sets how goroutines are sampled. [Open] returns an error if the source does not
// work on this system. Auto and Off always work.
func Source(kind SourceKind) Option {
	known := kind == Auto || kind == Native || kind == Portable || kind == Off
	return option(known, func(c *config) { c.Source = string(kind) }, "Source: %q is not one of %s, %s, %s, %s", string(kind), Auto, Native, Portable, Off)
}

// A Codec is a way to compress samples, for [Compression].
type Codec string

const (
	// Zstd compresses samples with Zstandard. It is the default.
	Zstd Codec = "zstd"
	// Uncompressed writes samples without compression. That takes less CPU time and more
	// space.
	Uncompressed Codec = "none"
)

// Compression sets how samples are compressed in the file. The default is Zstd.
func Compression(codec Codec) Option {
	known := codec == Zstd || codec == Uncompressed
	return option(known, func(c *config) { c.Compression = string(codec) }, "Compression: %q is not one of %s, %s", string(codec), Zstd, Uncompressed)
}

// SyncEvery sets how often the session syncs the profile to the disk, every 10 ms or more. It
// limits what a crash of the machine can lose; a crash of the program loses no written samples
// anyway. The default is not to sync. It works on Linux only.
func SyncEvery(d time.Duration) Option {
	return option(d >= session.MinSync, func(c *config) { c.Sync = d }, "SyncEvery: %v is less than %v", d, session.MinSync)
}

// RotateEvery begins a new file when the current one covers the duration d, 1 s or more. For
// the output app.tach the files are app.1.tach, app.2.tach and so on. No sample is lost between
// two files, and the command reads several files as one profile. With [RotateBytes] too, the
// limit that is reached first counts. [KeepFiles] and [KeepBytes] limit how many files are
// kept.
func RotateEvery(d time.Duration) Option {
	return option(d >= rotate.MinEvery, func(c *config) { c.RotateEvery = d }, "RotateEvery: %v is less than %v", d, rotate.MinEvery)
}

// RotateBytes begins a new file, like [RotateEvery], when the current one has the given number
// of bytes of compressed samples, 1 MB or more. A file can exceed that by its tables and up to
// half a megabyte of samples.
func RotateBytes(bytes int64) Option {
	return option(bytes >= rotate.MinBytes, func(c *config) { c.RotateBytes = bytes }, "RotateBytes: %d bytes are less than %s", bytes, rotate.FormatSize(rotate.MinBytes))
}

// KeepFiles limits the number of finished files with rotation; the session deletes the oldest
// ones. The default is 100. A session deletes only files that it made itself. So finished files
// of earlier sessions stay, and so do three unfinished ones of killed programs.
func KeepFiles(n int) Option {
	return option(n >= 1, func(c *config) { c.KeepFiles = n }, "KeepFiles: %d is less than 1", n)
}

// KeepBytes limits the bytes of all finished files with rotation, as [KeepFiles] limits their
// number. The least is 2 MB, the default 1 GB. The session begins a new file when the current
// one has half of that.
func KeepBytes(n int64) Option {
	return option(n >= rotate.MinKeepBytes, func(c *config) { c.KeepBytes = n }, "KeepBytes: %d bytes are less than %s", n, rotate.FormatSize(rotate.MinKeepBytes))
}

// MaxPause limits how long one tick may stop the program. Only the portable source stops the
// program. A tick that would take longer, because there are many goroutines, is left out and
// counted in the profile. The default is 10 ms.
func MaxPause(d time.Duration) Option {
	return option(d > 0, func(c *config) { c.MaxPause = d }, "MaxPause: %v is not above 0", d)
}

// Export also writes the profile in another format at [Session.Stop]. The command "gotach formats"
// lists the formats. The option can be given several times. The path may have the same % sequences
// as [Output]. An export that would replace a file of the session is left out with a warning. The
// program must import package export; otherwise [Open] returns an error:
//
//	import _ "github.com/gotach/profiler/export"
func Export(format, path string) Option {
	return func(c *config) error {
		if err := checkExport(format, path); err != nil {
			return fmt.Errorf("Export: %w", err)
		}
		c.Exports = append(c.Exports, hook.Target{Format: format, Path: path})
		return nil
	}
}

// SystemGoroutines includes the waits of the Go runtime's own goroutines. Their CPU time
// always counts.
func SystemGoroutines() Option {
	return func(c *config) error { c.System = true; return nil }
}

// Leaks asks the runtime at [Session.Stop] which goroutines are provably leaked, for "gotach
// leaks". This takes a garbage collection. It needs Go 1.27 and the import of package leaks;
// without these the profile says why nothing is known.
func Leaks() Option {
	return func(c *config) error { c.Leaks = true; return nil }
}

// Service sets the name of the service that the program is a process of, and its version. They tell
// the processes of a fleet apart, as in "gotach report --by label:version". Either may be empty.
// The command takes the program's name for an empty name; for an empty version the main module's
// version, the revision or the build ID, whichever is known. Each has at most 255 bytes.
//
// Without this option and PROFILE_SERVICE, the name is that of the variable OTEL_SERVICE_NAME, or
// else service.name in OTEL_RESOURCE_ATTRIBUTES. The version is then service.version in
// OTEL_RESOURCE_ATTRIBUTES.
func Service(name, version string) Option {
	return func(c *config) error {
		for _, s := range []string{name, version} {
			if len(s) > maxService || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
				return fmt.Errorf("Service: %.40q is longer than %d bytes or no text", s, maxService)
			}
		}
		c.Service, c.ServiceVersion = name, version
		return nil
	}
}

const maxService = 255 // bytes

// NoWaitFrames leaves out the innermost frame of a goroutine that does not run, which says
// why, such as "[chan receive]" or "[runnable]".
func NoWaitFrames() Option {
	return func(c *config) error { c.NoWaitFrames = true; return nil }
}

// Logger sets the logger for warnings. The default is [slog.Default].
func Logger(l *slog.Logger) Option {
	return func(c *config) error { c.Log = l; return nil }
}

func checkExport(format, path string) error {
	if !hook.ExportLinked {
		return errNoExport
	}
	// Package auto's session may start before package export is initialized. In that case
	// Stop returns the error of an unknown format.
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
