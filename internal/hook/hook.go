// Package hook connects the root package with packages that need more than its public API:
// package export adds the writing of other formats, and package httpprof runs sessions that
// write to its own file, and package leaks asks the runtime for leaks. The root must not import these packages. Otherwise every program
// that calls Start would link all formats, net/http and all of runtime/pprof.
package hook

import "time"

// A Target is a file to write in another format.
type Target struct{ Format, Path string }

// An Exporter writes finished profiles in other formats.
type Exporter struct {
	// Check returns an error if no file of a format can be written.
	Check func(format string) error
	// Export reads finished files as one profile and writes each target. After an error it
	// calls fail and continues with the next target.
	Export func(files []string, targets []Target, fail func(error))
}

var (
	// Exporting is the Exporter of package export. It is nil in programs that do not import
	// that package, and before its init function has run.
	Exporting *Exporter

	// ExportLinked reports whether the program imports package export. It is set before the
	// root package's init functions run: see package linked.
	ExportLinked bool

	// ProvenLeaks asks the runtime which goroutines it can prove to be leaked. It returns a
	// *tachyon.ProvenLeaks. Package leaks sets it.
	ProvenLeaks func() any

	// OneFile returns a profiler.Option. With it a session writes only the file path. It
	// overrides options and environment variables for the output, rotation and export. The
	// root package sets it.
	OneFile func(path string) any

	// Follow writes the samples of the running session to a second file too, until end is called.
	// end finishes the file. The file has all about its goroutines that the session's own file has.
	// With journal it can be read while it is written. The error wraps profiler.ErrActive if another
	// caller follows. The root package sets it.
	Follow func(path string, journal bool) (end func() error, err error)

	// Running returns the files of the running session, the oldest first and the unfinished one
	// last, and the session's start. The start is zero if no session is running. The root package
	// sets it.
	Running func() (files []string, start time.Time)

	// Sink, if not nil, is called with a session's sampler.Sink. It returns the sink that the
	// sampler gets instead. Tests set it to see the sampler's output.
	Sink func(sink any) any
)
