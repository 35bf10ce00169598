package spx

import (
	"bufio"

	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/klauspost/compress/gzip"
)

// A reportWriter writes a report in the notation of SPX 0.4. Every value is an integer
// and, as in the file, since the first event. What SPX's pages cannot show is an
// error when it comes up. Beyond 2^53 ns, 104 days in all, SPX's pages round.
// [create] makes a reportWriter.
type reportWriter struct {
	dir    string
	meta   Metadata
	file   *os.File
	gzip   *gzip.Writer
	out    *bufio.Writer
	line   []byte
	micros bool // times are written in microseconds

	names []string
	index map[string]uint32
	open  []uint32
	last  []int64
	wt    int // index of wt
	begun bool
	err   error
}

// create begins a report in dir, which is made where it is missing. The metadata
// must have Key and EnabledMetrics; what the events say is filled in by Close. A
// report that exists is not overwritten.
func create(dir string, m Metadata) (*reportWriter, error) {
	if err := checkMetrics(m.EnabledMetrics); err != nil {
		return nil, err
	}
	if m.Key == "" || m.Key != filepath.Base(m.Key) {
		return nil, fmt.Errorf("key %q is not a file's name", m.Key)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	w := &reportWriter{
		dir: dir, meta: m, index: map[string]uint32{},
		last: make([]int64, len(m.EnabledMetrics)),
		wt:   slices.Index(m.EnabledMetrics, wallTime),
	}
	// SPX lists a report once it sees its JSON file, so that is written last.
	f, err := os.OpenFile(filepath.Join(dir, m.Key+".txt.gz"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	w.file = f
	w.gzip = gzip.NewWriter(f) // one member: SPX's pages read no more
	w.out = bufio.NewWriterSize(w.gzip, 64<<10)
	w.out.WriteString(eventsHeading + "\n")
	return w, nil
}

// Function returns the number of the function of that name, which is written in
// ASCII with HTML entities, as SPX's pages need it.
func (w *reportWriter) Function(name string) uint32 {
	if i, ok := w.index[name]; ok {
		return i
	}
	i := uint32(len(w.names))
	w.names = append(w.names, escape(name))
	w.index[name] = i
	return i
}

// Enter says that a function is called; values has one a metric. The first ones
// must be 0.
func (w *reportWriter) Enter(fn uint32, values ...int64) error {
	if w.err == nil && int(fn) >= len(w.names) {
		w.err = fmt.Errorf("function %d has no name", fn)
	}
	if w.event(fn, '1', values) == nil {
		w.open = append(w.open, fn)
		w.begun = true
	}
	return w.err
}

// Leave says that the call entered last ends.
func (w *reportWriter) Leave(values ...int64) error {
	if w.err != nil {
		return w.err
	}
	if len(w.open) == 0 {
		w.err = errors.New("a call ends, but none is open")
		return w.err
	}
	last := len(w.open) - 1
	if w.event(w.open[last], '0', values) == nil {
		w.open = w.open[:last]
		w.meta.CallCount++
	}
	return w.err
}

func (w *reportWriter) event(fn uint32, flag byte, values []int64) error {
	switch {
	case w.err != nil:
		return w.err
	case len(values) != len(w.last):
		w.err = fmt.Errorf("%d values for %d metrics", len(values), len(w.last))
	case !w.begun && slices.ContainsFunc(values, func(v int64) bool { return v != 0 }):
		w.err = fmt.Errorf("the first event has values %v, not zeros", slices.Clone(values))
	case values[w.wt] < w.last[w.wt]:
		w.err = fmt.Errorf("wall time goes back, from %d to %d", w.last[w.wt], values[w.wt])
	case len(w.open) == maxDepth:
		w.err = fmt.Errorf("more than %d calls are open", maxDepth)
	}
	if w.err != nil {
		return w.err
	}
	b := strconv.AppendUint(w.line[:0], uint64(fn), 10)
	b = append(b, ' ', flag)
	for i, v := range values {
		b = append(b, ' ')
		if w.micros && isTime(w.meta.EnabledMetrics[i]) {
			b = appendMicros(b, v)
		} else {
			b = strconv.AppendInt(b, v, 10)
		}
	}
	w.line = append(b, '\n')
	copy(w.last, values)
	_, w.err = w.out.Write(w.line)
	return w.err
}

// appendMicros appends ns as microseconds with four decimals.
func appendMicros(b []byte, ns int64) []byte {
	if ns < 0 {
		b = append(b, '-')
		ns = -ns
	}
	b = append(strconv.AppendInt(b, ns/1000, 10), '.')
	d := ns % 1000
	return append(b, '0'+byte(d/100), '0'+byte(d/10%10), '0'+byte(d%10), '0')
}

// Close ends the report and writes its JSON file. A report with an error, or one
// whose calls are not all left, is removed.
func (w *reportWriter) Close() error {
	if w.file == nil {
		return w.err
	}
	switch {
	case w.err != nil:
	case len(w.open) > 0:
		w.err = fmt.Errorf("%d calls are still open", len(w.open))
	case !w.begun:
		w.err = errors.New("a report without events cannot be shown")
	default:
		w.out.WriteString(functionsHeading + "\n")
		for _, name := range w.names {
			w.out.WriteString(name)
			w.out.WriteByte('\n')
		}
		w.err = errors.Join(w.out.Flush(), w.gzip.Close())
	}
	if err := w.file.Close(); w.err == nil {
		w.err = err
	}
	name := w.file.Name()
	w.file = nil
	if w.err == nil {
		w.err = w.metadata()
	}
	if w.err != nil {
		os.Remove(name)
		return fmt.Errorf("%s: %w", name, w.err)
	}
	w.err = os.ErrClosed
	return nil
}

func (w *reportWriter) metadata() error {
	m := &w.meta
	m.RecordedCallCount = m.CallCount
	m.CalledFunctionCount = int64(len(w.names))
	m.WallTimeMS = w.last[w.wt] / 1000
	name := filepath.Join(w.dir, m.Key+".json")
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	err = m.Write(f)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		os.Remove(name)
	}
	return err
}
