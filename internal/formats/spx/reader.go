package spx

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/gotach/profiler/internal/files"
	"github.com/klauspost/compress/zstd"
)

const (
	eventsHeading    = "[events]"
	functionsHeading = "[functions]"

	maxLine  = 64 << 10 // bytes
	maxDepth = 1 << 20  // calls inside one another
	window   = 20       // events that rN reaches back
)

// Event is a call's beginning or end.
type Event struct {
	Function uint32    // index into Reader.Functions
	Enter    bool      // false: leaves
	Line     uint32    // of the call site, SPX 0.5 only and when it enters; 0 is unknown
	Values   []float64 // one a metric of Metadata.EnabledMetrics, since the first event
}

// Function is one of a report.
type Function struct {
	Name string // as PHP has it, such as App\Shop::cart
	File string // SPX 0.5 only
	Line int    // where it begins, SPX 0.5 only
}

// A Reader reads a report front to back. It takes memory for the functions of
// the report and for the calls that are open, not for the calls it has seen.
type Reader struct {
	meta    *Metadata
	name    string
	src     *bufio.Reader
	closers []func() error
	off     int64 // after decompression, of the line being read
	next    int64 // of the one after it

	// What 0.5 events refer to, and what the rules are checked against.
	recent    [window]uint32 // functions; event i is at i % window
	events    int64
	compact   bool // 0.5
	micros    bool // times have decimals from the first one on, so they are in µs
	last      []float64
	wt, ct    int      // indices of these metrics; ct -1: there is none
	open      []uint32 // functions of the open calls
	exits     int64
	highest   uint32
	functions []Function
	done      bool
	err       error
}

// Open opens the report that a path names: its JSON file, its event file, or
// what both have in common, the key. Only the files' beginnings are read.
func Open(path string) (*Reader, error) {
	key := strings.TrimSuffix(path, ".json")
	for _, ext := range []string{".txt.gz", ".txt.zst"} {
		key = strings.TrimSuffix(key, ext)
	}
	j, _, err := files.Open(key + ".json")
	if err != nil {
		return nil, err
	}
	m, err := readMetadata(j, j.Name())
	j.Close()
	if err != nil {
		return nil, err
	}
	for _, ext := range []string{".txt.gz", ".txt.zst"} {
		f, _, err := files.Open(key + ext)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		r, err := newReader(m, f, f.Name())
		if err != nil {
			f.Close()
			return nil, err
		}
		r.closers = append(r.closers, f.Close)
		return r, nil
	}
	return nil, fmt.Errorf("%s.json has no events beside it, neither %s.txt.gz nor .txt.zst", key, key)
}

// newReader reads the events of a report, compressed or not, from src. The name
// is that of the events' file, for errors.
func newReader(m *Metadata, src io.Reader, name string) (*Reader, error) {
	r := &Reader{
		meta: m, name: name, last: make([]float64, len(m.EnabledMetrics)),
		wt: slices.Index(m.EnabledMetrics, wallTime), ct: slices.Index(m.EnabledMetrics, cpuTime),
	}
	text, free, err := unpack(src)
	if err != nil {
		return nil, r.bad("%w", err)
	}
	r.src = bufio.NewReaderSize(text, maxLine)
	r.closers = append(r.closers, free)
	line, err := r.line()
	if err == io.EOF {
		err = r.bad("there is nothing in the file")
	} else if err == nil && string(line) != eventsHeading {
		err = r.bad("the first line is %.40q, not %s", line, eventsHeading)
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// unpack returns the text of an events' file, which may be compressed. The caller
// calls free when it has read the text.
func unpack(src io.Reader) (text io.Reader, free func() error, err error) {
	none := func() error { return nil }
	in := bufio.NewReaderSize(src, 64<<10)
	magic, _ := in.Peek(4)
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(in)
		return z, none, err
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(8<<20))
		return z, func() error { z.Close(); return nil }, err
	}
	return in, none, nil
}

// Metadata returns the report's metadata.
func (r *Reader) Metadata() *Metadata { return r.meta }

// Close closes the files. Functions stay valid.
func (r *Reader) Close() error {
	var errs []error
	for _, c := range r.closers {
		errs = append(errs, c())
	}
	r.closers = nil
	return errors.Join(errs...)
}

func (r *Reader) bad(format string, args ...any) error {
	return errorAt(r.name, r.off, fmt.Errorf(format, args...))
}

// line returns the next line without its end; it is valid until the next call.
// At the end of the file the error is io.EOF.
func (r *Reader) line() ([]byte, error) {
	r.off = r.next
	b, err := r.src.ReadSlice('\n')
	r.next += int64(len(b))
	switch {
	case err == nil && bytes.HasSuffix(b, []byte("\r\n")):
		return nil, r.bad("the line ends in CR LF, LF alone is right")
	case err == nil:
		return b[:len(b)-1], nil
	case err == bufio.ErrBufferFull:
		return nil, r.bad("a line is longer than %d bytes", maxLine)
	case err == io.EOF && len(b) == 0:
		return nil, io.EOF
	case err == io.EOF:
		return nil, r.bad("the file ends inside a line")
	}
	return nil, r.bad("%w", err)
}

// Events yields the events in their order; it can be ranged over once. The
// Event and its Values are the Reader's own, valid until the next step. What
// breaks a rule of the format ends it with an error: calls that are not
// left in the order in which they were entered, a first event that is not at 0,
// wall time that goes back, functions that are missing.
func (r *Reader) Events() iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		if r.err == nil && r.events > 0 {
			r.err = errors.New("the events of a report can be read once")
		}
		if r.err != nil {
			yield(nil, r.err)
			return
		}
		e := &Event{Values: make([]float64, len(r.last))}
		for {
			line, err := r.line()
			if err == io.EOF {
				err = r.bad("there is no %s section", functionsHeading)
			}
			if err == nil && string(line) == functionsHeading {
				if err = r.end(); err == nil {
					return
				}
			}
			if err == nil {
				err = r.parse(line, e)
			}
			if err == nil {
				err = r.step(e)
			}
			if err != nil {
				r.err = err
				yield(nil, err)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// step checks an event against those before it.
func (r *Reader) step(e *Event) error {
	wt := r.wt
	switch {
	case r.events == 0 && e.Values[wt] != 0:
		return r.bad("the first event is at wt %v, not 0", e.Values[wt])
	case e.Values[wt] < r.last[wt]:
		return r.bad("wall time goes back, from %v to %v", r.last[wt], e.Values[wt])
	case r.meta.counted && int64(e.Function) >= r.meta.CalledFunctionCount:
		return r.bad("an event names function %d, the metadata says there are %d", e.Function, r.meta.CalledFunctionCount)
	case e.Enter && len(r.open) == maxDepth:
		return r.bad("more than %d calls are open", maxDepth)
	case e.Enter:
		r.open = append(r.open, e.Function)
	case len(r.open) == 0:
		return r.bad("function %d is left, but no call is open", e.Function)
	case r.open[len(r.open)-1] != e.Function:
		return r.bad("function %d is left, but %d was entered last", e.Function, r.open[len(r.open)-1])
	default:
		r.open = r.open[:len(r.open)-1]
		r.exits++
	}
	copy(r.last, e.Values)
	r.recent[r.events%window] = e.Function
	r.events++
	r.highest = max(r.highest, e.Function)
	return nil
}

// end reads what follows the events.
func (r *Reader) end() error {
	switch {
	case r.events == 0:
		return r.bad("there are no events")
	case len(r.open) > 0:
		return r.bad("the events end inside %d calls, the innermost of function %d", len(r.open), r.open[len(r.open)-1])
	case r.meta.counted && r.exits != r.meta.RecordedCallCount:
		return r.bad("there are %d calls, the metadata says %d", r.exits, r.meta.RecordedCallCount)
	}
	for {
		line, err := r.line()
		if err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		if r.meta.counted && int64(len(r.functions)) == r.meta.CalledFunctionCount {
			return r.bad("there are more than the %d functions of the metadata", r.meta.CalledFunctionCount)
		}
		r.functions = append(r.functions, r.function(string(line)))
	}
	switch n := int64(len(r.functions)); {
	case int64(r.highest) >= n:
		return r.bad("an event names function %d, there are %d", r.highest, n)
	case r.meta.counted && n != r.meta.CalledFunctionCount:
		return r.bad("there are %d functions, the metadata says %d", n, r.meta.CalledFunctionCount)
	}
	r.done = true
	return nil
}

// Functions returns the functions that Event.Function indexes. They are at the end of
// the file, so there are none until Events has reached it without an error.
func (r *Reader) Functions() []Function {
	if !r.done {
		return nil
	}
	return r.functions
}

// Keys returns the keys of the reports in a directory, in order.
func Keys(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, e := range entries {
		names[e.Name()] = true
	}
	var keys []string
	for _, e := range entries {
		key, ok := strings.CutSuffix(e.Name(), ".json")
		if ok && (names[key+".txt.gz"] || names[key+".txt.zst"]) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}
