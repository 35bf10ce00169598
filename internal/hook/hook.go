// Package hook joins the root package with the packages beside it, where they
// need more than its public face: package export tells the root how to write
// other formats, and package httpprof runs sessions into a file of its own. The
// root must not import either, since a program that only calls Start would then
// link every format and net/http.
package hook

// A Target is a file to write in another format.
type Target struct{ Format, Path string }

// An Exporter writes finished profiles in other formats.
type Exporter struct {
	// Check returns why there can be no file of a format.
	Check func(format string) error
	// Export reads finished files as one profile and writes each target. It
	// passes every error to fail and goes on with the next target.
	Export func(files []string, targets []Target, fail func(error))
}

var (
	// Exporting is the Exporter of package export. It is nil in programs that do not
	// import that, and before its init function.
	Exporting *Exporter

	// ExportLinked is whether the program imports package export. It is set before
	// the root package's init functions run: see package linked.
	ExportLinked bool

	// OneFile returns a profiler.Option. With it a session writes path and nothing
	// else: it does not rotate and does not export, whatever other options and
	// the environment say. The root package sets it.
	OneFile func(path string) any

	// Sink, if not nil, takes a session's sampler.Sink and returns the one that the
	// sampler is given in its place. Tests set it, to see what the sampler hands over.
	Sink func(sink any) any
)
