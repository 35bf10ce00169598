// Package formats is the table of the profile formats that gotach knows. The
// command, Export, the HTTP handler, the documentation and the tests read it.
//
// [Open] opens a file of any format, [OpenAll] several files as one profile, and
// [Input.Convert] makes a file of another format. A format keeps either every sample with
// its time, as Tachyon files do, or only sums. The first kind can be converted to
// the second, not the other way round. Some formats keep runs of samples; gotach only writes them.
//
// To add a format, make a package beside the others with Sniff, Read and Write, and
// add a row to the table. Read returns a profile added up or a [reader.Stream]; Write
// takes one.
//
// # Files
//
//   - format.go: the table; tach.go, jsonl.go, dcpi.go, nytprof.go, spx.go: formats
//   - sums.go, pgo.go, viewers.go: formats that are written of sums, of CPU time, and of runs
//   - input.go, join.go, source.go: opened profiles, many as one, and what formats read from
//   - convert.go, replace.go: what formats write to
//   - excerpt.go: the samples of a time out of the files of a running session, without work for
//     long at a time
//   - info.go, usage.go: what gotach info prints
package formats

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
)

// A Format is a row of the table.
type Format struct {
	Name       string
	Doc        string   // one line
	Extensions []string // endings of its files' names, the usual one first
	Series     bool     // keeps every sample with its time; otherwise sums
	Runs       bool     // made of samples, of which it keeps runs; see package runs
	Directory  bool     // written as a directory of several files

	// sniff reports whether a file is of this format, given its first bytes: all of
	// them, or at least 4096. Nil: only its extension tells.
	sniff func(head []byte) bool
	// sniffDir reports whether a directory is of this format. Nil: none is.
	sniffDir func(path string) bool
	// open opens a profile. Nil: gotach does not read the format.
	open func(*source, *Options) (content, error)
	// write writes a profile. Nil: gotach does not write the format.
	write func(*target, *Input, *Options) error
}

// CanRead reports whether gotach reads the format.
func (f *Format) CanRead() bool { return f.open != nil }

// CanWrite reports whether gotach writes the format.
func (f *Format) CanWrite() bool { return f.write != nil }

// table is all formats, in the order in which they are listed and in which a file is
// sniffed.
var table []*Format

func init() { // a function, since formats use the table themselves
	table = []*Format{
		tachFormat,
		cpython315,
		pprofFormat,
		otlpFormat,
		folded,
		flameGraph,
		firefoxProfile,
		speedscopeProfile,
		jsonLines,
		perlNYTProf,
		pyNYTProf,
		spxReport,
		dcpiDatabase,
		dcpiText,
	}
}

// All returns the table. It must not be changed.
func All() []*Format { return table }

// Add adds a format to the end of the table, which gotach only writes. The command adds formats in
// this way whose packages it alone links. Sniff reports whether a file is of the format, given its
// first bytes. Write writes a profile into a directory. Only init functions may call Add.
func Add(f *Format, sniff func(head []byte) bool, write func(dir string, in *Input) error) {
	f.sniff = sniff
	f.write = func(t *target, in *Input, _ *Options) error { return write(t.Dir, in) }
	table = append(table, f)
}

// ByName returns the format that has a name, or an extension without its dot, as "folded".
func ByName(name string) (*Format, error) {
	want := strings.ToLower(name)
	for _, f := range table {
		if f.Name == want {
			return f, nil
		}
	}
	for _, f := range table {
		for _, e := range f.Extensions {
			if e == "."+want {
				return f, nil
			}
		}
	}
	var names []string
	for _, f := range table {
		names = append(names, f.Name)
	}
	return nil, fmt.Errorf("%q is not a format; there are %s", name, strings.Join(names, ", "))
}

// byExtension returns the format whose extension a path has, the longest one
// if there are several, or nil.
func byExtension(path string) (found *Format) {
	path = strings.ToLower(path)
	longest := 0
	for _, f := range table {
		for _, e := range f.Extensions {
			if strings.HasSuffix(path, e) && len(e) > longest {
				found, longest = f, len(e)
			}
		}
	}
	return found
}

// content is an opened profile: a series or a sum. It implements those of the other
// interfaces below that its format can serve.
type content interface{ Close() error }

type (
	// A series has every sample.
	series interface {
		// Series returns the samples as a file that lives as long as the content.
		Series() (*reader.Reader, error)
	}
	// A sum adds the profile up. A series need not be one.
	sum interface {
		Profile() (*profile.Profile, error)
	}
	// A dumper prints everything in the file as JSON lines.
	dumper interface{ Dump(io.Writer) error }
	// An informer says what is known of the file as a whole.
	informer interface{ Info() ([]Field, error) }
	// A verifier checks all of the file that can be checked, and says in one
	// line what is in it.
	verifier interface{ Verify() (string, error) }
	// A reporter knows more about functions than a Profile holds.
	reporter interface {
		Report(profile.ReportOptions) (*profile.Report, error)
	}
)

// A Field is one fact about a file.
type Field struct {
	Key   string // in JSON
	Label string // in text; empty: not shown
	Value any    // in JSON
	Text  string // in text
}

// Options are choices for reading and writing. The zero value is the usual choice.
type Options struct {
	From  string    // name of the input's format; "": found out
	Stdin io.Reader // what OpenAll reads for the path -; nil: - is a file's name

	// Select says which samples of the input count; nil: all. Formats that keep every sample cannot
	// be written then.
	Select *stream.Selection

	Uncompressed bool   // tach, cpython315, nytprof, firefox: write without compression
	Exact        bool   // cpython315: each sample as recorded, though some stand for more time than others
	Goroutines   bool   // collapsed: each stack begins with its goroutine; spx: one report a goroutine; pprof: goroutines apart, however many; otlp: goroutines apart
	CPU          bool   // collapsed, pprof, flamegraph: weigh by CPU time, not wall time
	Microseconds bool   // spx: write times in µs with decimals, as the format's document has them
	NoSource     bool   // nytprof: leave out the texts of source files, for Perl's tools to look for them
	Lax          bool   // dcpi: read files without version and tstart too
	PGO          bool   // pprof with CPU: an error, not a warning, if go build -pgo could not use the file
	Executable   string // pprof with CPU: the program, for the lines where functions begin; "": where it was
	Prefix       bool   // nytprof: read what a truncated file has; see Input.CutOff

	// Source returns a source file for nytprof, given all frames that are in it, nil to leave it
	// out. If Source is nil, all are.
	Source func(file string, in []profile.Frame) []byte

	// Damaged, if not nil, is called once for each of several files that cannot be read, or of
	// which only the begin can. The others are read, if there are any. A file that does not exist
	// is an error all the same, unless a rotation has removed it.
	Damaged func(error)
	Many    bool // OpenAll: there are very many files together with those of other calls
	Samples bool // files without samples count as damaged

	// Context cancels long work on samples. Its cause is the error. May be nil.
	Context context.Context
	// Progress is called now and then during long work, with the amount done and
	// the whole amount. May be nil.
	Progress func(done, total uint64)
	// Warn is called with what the user should know although there was no error.
	// May be nil.
	Warn func(error)
}

func (o *Options) warn(err error) {
	if err != nil && o.Warn != nil {
		o.Warn(err)
	}
}
