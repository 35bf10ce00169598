package spx

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/klauspost/compress/gzip"
)

// A reportWriter writes a report of wall, CPU and idle time in the notation of
// SPX 0.4. Every value is an integer and, as in the file, since the first event.
// Beyond 2^53 ns, 104 days in all, SPX's pages round. [create] makes a reportWriter.
type reportWriter struct {
	dir    string
	meta   Metadata
	file   *os.File
	gzip   *gzip.Writer
	out    *bufio.Writer // keeps the first error, which close returns
	line   []byte
	micros bool // times are written in microseconds

	names     []string          // of functions, escaped
	index     map[string]uint32 // of names that are not escaped
	open      []call
	wall, cpu int64 // time of the next event, ns since the first one
}

// call is an open one.
type call struct {
	name string
	fn   uint32
}

// create begins a report in dir, which is made where it is missing. The metadata
// must have Key; what the events say is filled in by close. A report that exists is
// not overwritten.
func create(dir string, m Metadata) (*reportWriter, error) {
	m.EnabledMetrics = []string{wallTime, cpuTime, idleTime}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	// SPX lists a report once it sees its JSON file, so that is written last.
	f, err := os.OpenFile(filepath.Join(dir, m.Key+".txt.gz"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	z := gzip.NewWriter(f) // one member: SPX's pages read no more
	w := &reportWriter{dir: dir, meta: m, index: map[string]uint32{}, file: f, gzip: z, out: bufio.NewWriterSize(z, 64<<10)}
	w.out.WriteString(eventsHeading + "\n")
	return w, nil
}

// enter writes that the function of that name is called. The name is written in
// ASCII with HTML entities, as SPX's pages need it.
func (w *reportWriter) enter(name string) {
	fn, ok := w.index[name]
	if !ok {
		fn = uint32(len(w.names))
		w.names = append(w.names, escape(name))
		w.index[name] = fn
	}
	w.open = append(w.open, call{name, fn})
	w.event(fn, '1')
}

// leave writes the ends of calls until depth of them are open.
func (w *reportWriter) leave(depth int) {
	for len(w.open) > depth {
		last := len(w.open) - 1
		w.event(w.open[last].fn, '0')
		w.open = w.open[:last]
		w.meta.CallCount++
	}
}

func (w *reportWriter) event(fn uint32, flag byte) {
	b := strconv.AppendUint(w.line[:0], uint64(fn), 10)
	b = append(b, ' ', flag)
	for _, v := range [...]int64{w.wall, w.cpu, w.wall - w.cpu} {
		b = append(b, ' ')
		if w.micros {
			b = appendMicros(b, v)
		} else {
			b = strconv.AppendInt(b, v, 10)
		}
	}
	w.line = append(b, '\n')
	w.out.Write(w.line)
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

// close ends the report and writes its JSON file. After an error there is neither.
func (w *reportWriter) close() error {
	w.out.WriteString(functionsHeading + "\n")
	for _, name := range w.names {
		w.out.WriteString(name)
		w.out.WriteByte('\n')
	}
	err := cmp.Or(w.out.Flush(), w.gzip.Close(), w.file.Close())
	if err == nil {
		err = w.metadata()
	}
	if err != nil {
		os.Remove(w.file.Name())
		return fmt.Errorf("%s: %w", w.file.Name(), err)
	}
	return nil
}

func (w *reportWriter) metadata() error {
	m := &w.meta
	m.RecordedCallCount = m.CallCount
	m.CalledFunctionCount = int64(len(w.names))
	m.WallTimeMS = w.wall / 1000
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
