// Package hook connects the root package with packages that need more than its public API:
// package export adds the writing of other formats, and package httpprof runs sessions that
// write to its own file, and package leaks asks the runtime for leaks. The root must not import these packages. Otherwise every program
// that calls Start would link all formats, net/http and all of runtime/pprof.
package hook

import (
	"errors"
	"time"
)

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

// A Following writes the samples of the running session to a second file.
type Following struct {
	Start   time.Time              // of the session. The times of samples count from it
	Warning error                  // why the file cannot be read while it is written, or nil
	End     func() error           // ends the following and finishes the file; must be called once
	Reach   func() <-chan struct{} // returns a channel that is closed when the file has everything of the time before the call
	Stopped <-chan struct{}        // closed when the session has ended
	Failed  <-chan struct{}        // closed when the file could not be written
	Err     func() error           // returns why
}

// ErrNoSession is the error of Follow if there is no session that runs.
var ErrNoSession = errors.New("no session is running")

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

	// NoFile returns a profiler.Option. With it a session writes no file: only Follow keeps its samples. It
	// overrides options and environment variables like OneFile. The root package sets it.
	NoFile func() any

	// Follow writes the samples of the running session to a second file too. The file has all about its goroutines
	// that the session's own file has. It can be read while it is written, unless a warning says why not. The error
	// wraps ErrNoSession if no session is running. The root package sets it.
	Follow func(path string) (*Following, error)

	// Running returns the files of the running session, the oldest first and the unfinished one
	// last, and the session's start. The start is zero if no session with a file is running. The root
	// package sets it.
	Running func() (files []string, start time.Time)

	// Sink, if not nil, is called with a session's sampler.Sink. It returns the sink that the
	// sampler gets instead. Tests set it to see the sampler's output.
	Sink func(sink any) any
)
