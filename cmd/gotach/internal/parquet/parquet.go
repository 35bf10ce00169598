// Package parquet writes profiles as columns for databases, in Parquet files. It only writes them.
//
// A profile becomes two files with one name in two directories, so that the files of many processes
// together are two tables:
//
//	DIR/runs/NAME.parquet    a row for each run; see [Run]
//	DIR/stacks/NAME.parquet  a row for each stack of these runs; see [Stack]
//
// A run is a stretch of time in which a goroutine had one stack, one state and the same labels.
// Runs are divided at full minutes, so a query for some minutes or hours needs only the column
// start_time, and its sums are exact.
//
// NAME says host, process and time. The same profile always gets the same name, so a file that is
// written twice replaces itself. A file of stacks appears before the runs that refer to it.
//
// Only the command links this package: it adds the format to the table of package formats.
package parquet

import (
	"bytes"
	"io"
	"os"
	"path/filepath"

	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/stream"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// A Run is a row of the table runs. Rows are sorted by service and start time.
type Run struct {
	Service  string `parquet:"service,dict"`
	Host     string `parquet:"host,dict"`
	PID      int64  `parquet:"pid,dict"`
	Version  string `parquet:"version,dict"`
	Instance string `parquet:"instance,dict"` // of the service: host, pid and start, unlike those of all other processes

	Start int64 `parquet:"start_time,timestamp(microsecond),delta"` // µs since 1970
	End   int64 `parquet:"end_time,timestamp(microsecond),delta"`
	Wall  int64 `parquet:"wall_ns,delta"`
	CPU   int64 `parquet:"cpu_ns,delta"` // the part of Wall on a CPU

	// Kind is "goroutine", "runtime" for one of the runtime's own goroutines, or "process" for what
	// no goroutine has: CPU time of other threads, and time without samples. The latter has the
	// start and the end of its file.
	Kind        string `parquet:"kind,dict"`
	Goroutine   int64  `parquet:"goroutine,delta"`   // id; 0: none
	Creator     string `parquet:"creator,dict"`      // the function that created the goroutine; "": unknown
	CreatorSite string `parquet:"creator_site,dict"` // file:line of its go statement

	// State is "running", "no core", "runnable", "syscall", "syscall on CPU", "C", "C on CPU",
	// "waiting" or "not seen". Reason says what a waiting goroutine waits for, in the runtime's
	// words, such as "chan receive"; "": unknown.
	State  string `parquet:"state,dict"`
	Reason string `parquet:"reason,dict"`
	// Object names what it waits for, such as "main.mu" or "Mutex in cache.Get". Names are the same
	// on all hosts. ObjectID tells objects of one process apart; 0: unknown.
	Object   string `parquet:"object,dict"`
	ObjectID int32  `parquet:"object_id,dict"`

	Stack   int64             `parquet:"stack,dict"` // a hash of all frames, the same in all files
	Labels  map[string]string `parquet:"labels" parquet-key:",dict" parquet-value:",dict"`
	TraceID string            `parquet:"trace_id,dict"` // the label trace_id; "": none
	SpanID  string            `parquet:"span_id,dict"`  // the label span_id; "": none
}

// A Stack is a row of the table stacks. It is in the file of each profile that has it, so a query
// over many files has to take one of equal rows.
type Stack struct {
	Stack  int64   `parquet:"stack,delta"`
	Frames []Frame `parquet:"frames,list"` // innermost first
}

// A Frame is a place in the source. A wait has a frame of its own, without a file, such as
// "[chan receive]".
type Frame struct {
	Function string `parquet:"function,dict"`
	File     string `parquet:"file,dict"`
	Line     int32  `parquet:"line,dict"`
}

// Files are the names of what Write wrote.
type Files struct{ Runs, Stacks string }

// Options say how to write. The zero value is the usual choice.
type Options struct {
	Name    string // of the files, without ".parquet"; "": made of what the profile says of itself
	Service string // of all runs; "": what the profile says
	Version string // of all runs; "": what the profile says
}

// SourceOptions are the options that the source for Write needs.
var SourceOptions = stream.Options{Labels: true, Creators: true, Objects: true}

// perGroup is the number of rows of a row group. A reader has to hold one, and so does the writer.
const perGroup = 1 << 16

func init() {
	formats.Add(&formats.Format{
		Name:       "parquet",
		Doc:        "Parquet for databases: a table of runs and one of stacks",
		Extensions: []string{".parquet"},
		Runs:       true,
		Directory:  true,
	}, func(head []byte) bool { return bytes.HasPrefix(head, []byte("PAR1")) }, func(dir string, in *formats.Input) error {
		src, err := in.Source(SourceOptions)
		if err != nil {
			return err
		}
		_, err = Write(dir, src, Options{})
		return err
	})
}

// Write writes a profile into a directory, which it creates if needed, and returns when both files
// are on the disk. It reads all samples of the source once. Memory is bounded as that of the source
// is: it keeps the different stacks, but not the runs, of which it sorts so many at a time, with a
// temporary file. After an error there are no new files of runs.
func Write(dir string, src *stream.Source, o Options) (Files, error) {
	c, err := newCollector(src, &o, dir)
	if err != nil {
		return Files{}, err
	}
	defer c.sorted.close()
	if err := c.collect(); err != nil {
		return Files{}, err
	}
	name := o.Name
	if name == "" {
		name = c.name()
	}
	f := Files{Runs: filepath.Join(dir, "runs", name+".parquet"), Stacks: filepath.Join(dir, "stacks", name+".parquet")}
	for _, path := range []string{f.Stacks, f.Runs} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return Files{}, err
		}
	}
	if err := replace(f.Stacks, c.writeStacks); err != nil {
		return Files{}, err
	}
	return f, replace(f.Runs, c.writeRuns)
}

// replace writes a file that is on the disk before it has its name.
func replace(path string, write func(io.Writer) error) error {
	return formats.Replace(path, func(w io.Writer) error {
		if err := write(w); err != nil {
			return err
		}
		if f, ok := w.(*os.File); ok {
			return f.Sync()
		}
		return nil
	})
}

// writeRows writes a file. Fill calls add for each row.
func writeRows[T any](w io.Writer, sorting []parquet.SortingColumn, fill func(add func(*T) error) error) error {
	out := parquet.NewGenericWriter[T](w, parquet.Compression(&zstd.Codec{Level: zstd.SpeedDefault}), parquet.MaxRowsPerRowGroup(perGroup),
		parquet.CreatedBy("gotach", "", ""), parquet.SortingWriterConfig(parquet.SortingColumns(sorting...)))
	rows := make([]T, 0, 512)
	flush := func() error {
		_, err := out.Write(rows)
		rows = rows[:0]
		return err
	}
	err := fill(func(row *T) error {
		rows = append(rows, *row)
		if len(rows) < cap(rows) {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return err // without Close, which would write the rest
	}
	return out.Close()
}
