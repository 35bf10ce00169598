// Package hook connects sessions with packages that not every program links: package export adds
// the writing of other formats, and package leaks asks the runtime for leaks. Sessions must not
// import them. Otherwise every program that calls Start would link all formats and all of
// runtime/pprof.
package hook

import "github.com/gotach/profiler/tachyon"

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
	// init function of package auto runs: see package linked.
	ExportLinked bool

	// ProvenLeaks asks the runtime which goroutines it can prove to be leaked. Package leaks sets
	// it.
	ProvenLeaks func() *tachyon.ProvenLeaks
)
