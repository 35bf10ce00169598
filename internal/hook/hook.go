// Package hook connects the root package with packages that need more than its public API:
// package export adds the writing of other formats, and package httpprof runs sessions that
// write to its own file. The root must not import these packages. Otherwise every program
// that calls Start would link all formats and net/http.
package hook

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

	// OneFile returns a profiler.Option. With it a session writes only the file path. It
	// overrides options and environment variables for the output, rotation and export. The
	// root package sets it.
	OneFile func(path string) any

	// Sink, if not nil, is called with a session's sampler.Sink. It returns the sink that the
	// sampler gets instead. Tests set it to see the sampler's output.
	Sink func(sink any) any
)
