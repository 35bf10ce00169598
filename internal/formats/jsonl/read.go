package jsonl

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/gotach/profiler/internal/formats/tach"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// A line is a sample as JSON.
type line struct {
	Thread      *uint64         `json:"thread_id"`
	Interpreter uint32          `json:"interpreter_id"`
	Time        *uint64         `json:"timestamp"`
	Status      uint8           `json:"status"`
	Marker      bool            `json:"marker"`
	Frames      json.RawMessage `json:"frames"`

	stack []frame // Frames decoded
}

// stacks are those seen before by their text: most samples have one of them, and
// to decode it is most of the work.
type stacks struct {
	known map[string][]frame
	size  int
}

// maxStacks is how many bytes of text are remembered.
const maxStacks = 16 << 20

func (c *stacks) decode(text json.RawMessage) ([]frame, error) {
	if stack, ok := c.known[string(text)]; ok {
		return stack, nil
	}
	var stack []frame
	if len(text) > 0 {
		if err := json.Unmarshal(text, &stack); err != nil {
			return nil, err
		}
	}
	if c.size += len(text); c.known == nil || c.size > maxStacks {
		c.known, c.size = map[string][]frame{}, len(text)
	}
	c.known[string(text)] = stack
	return stack, nil
}

type frame tachyon.Frame

// UnmarshalJSON reads [file, function, line]; Python's None for a line is none.
func (f *frame) UnmarshalJSON(b []byte) error {
	var n *int32
	parts := []any{&f.File, &f.Func, &n}
	if err := json.Unmarshal(b, &parts); err != nil {
		return err
	}
	if len(parts) != 3 {
		return fmt.Errorf("a frame is a file, a function and a line, not %d values", len(parts))
	}
	f.Line = -1
	if n != nil {
		f.Line = *n
	}
	return nil
}

const (
	maxLine = 16 << 20 // bytes
	// lookahead is the number of samples from which Read guesses when the profile
	// began and what its interval was.
	lookahead = 4096
)

// Read reads samples and metadata. If no line of the kind "file" comes first, it
// guesses from the first samples when the profile began and what its interval was.
func Read(r io.Reader) (*reader.Reader, error) {
	return tach.InMemory(func(create tach.Create) error { return read(r, create) })
}

// read hands the samples to the writer that create makes.
func read(in io.Reader, create tach.Create) error {
	r := reading{create: create}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	n := 0
	for lines.Scan() {
		n++
		if text := bytes.TrimSpace(lines.Bytes()); len(text) > 0 {
			if err := r.line(text); err != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
		}
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("longer than %d MB", maxLine>>20)
		}
		return fmt.Errorf("line %d: %w", n+1, err)
	}
	if r.w == nil {
		if err := r.begin(); err != nil {
			return err
		}
	}
	if !r.session.Markers {
		return r.meta.end(r.w, nil)
	}
	return r.meta.end(r.w, &r.session)
}

// A reading is one call of read.
type reading struct {
	create  tach.Create
	w       *writer.Writer // nil: not made yet
	waiting []line         // samples until then
	stack   []tachyon.Frame
	seen    stacks
	session tachyon.Session // guessed
	meta    metadata
}

// line takes a line that is not empty.
func (r *reading) line(text []byte) error {
	if isMetadata(text) {
		err := r.meta.line(text, r.w)
		if err == nil && r.w == nil && r.meta.file != nil {
			err = r.begin()
		}
		return err
	}
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return err
	}
	if l.Thread == nil || l.Time == nil {
		return errors.New("not a sample: no thread_id or no timestamp")
	}
	var err error
	if l.stack, err = r.seen.decode(l.Frames); err != nil {
		return err
	}
	l.Frames = nil
	if r.w != nil {
		return r.put(&l)
	}
	if r.waiting = append(r.waiting, l); len(r.waiting) == lookahead {
		return r.begin()
	}
	return nil
}

// begin makes the writer, and gives it the samples so far.
func (r *reading) begin() (err error) {
	start, interval := clock(r.waiting)
	if f := r.meta.file; f != nil {
		start, interval = f.Start, f.Interval
	}
	if r.w, err = r.create(start, interval); err != nil {
		return err
	}
	if err := r.meta.begin(r.w); err != nil {
		return err
	}
	for i := range r.waiting {
		if err := r.put(&r.waiting[i]); err != nil {
			return err
		}
	}
	r.waiting = nil
	return nil
}

// put writes a sample.
func (r *reading) put(l *line) error {
	if *l.Time > tachyon.MaxTime {
		return fmt.Errorf("the timestamp %d is beyond the limit of %d", *l.Time, uint64(tachyon.MaxTime))
	}
	r.stack = r.stack[:0]
	for _, f := range l.stack {
		r.stack = append(r.stack, tachyon.Frame(f))
	}
	if l.Marker {
		r.session.Markers = true
	} else if l.Interpreter == tachyon.Runtime && tachyon.Status(l.Status)&tachyon.OnCPU == 0 {
		r.session.System = true
	}
	return r.w.WriteFrames(&tachyon.Sample{
		Thread: *l.Thread, Interpreter: l.Interpreter, Time: *l.Time, Status: tachyon.Status(l.Status),
	}, r.stack)
}

// clock guesses the start and the interval from the first samples: the interval
// is the median of the times between two samples of a thread, and the start one
// interval before the first.
func clock(first []line) (start, interval uint64) {
	if len(first) == 0 {
		return 0, 0
	}
	type thread struct {
		id          uint64
		interpreter uint32
	}
	last := map[thread]uint64{}
	var steps []uint64
	start = math.MaxUint64
	for i := range first {
		l := &first[i]
		start = min(start, *l.Time)
		k := thread{*l.Thread, l.Interpreter}
		if t, ok := last[k]; ok && *l.Time > t {
			steps = append(steps, *l.Time-t)
		}
		last[k] = *l.Time
	}
	if len(steps) > 0 {
		slices.Sort(steps)
		interval = steps[len(steps)/2]
	}
	return start - min(start, interval), interval
}

// Sniff reports whether a file that begins with head looks like samples.
func Sniff(head []byte) bool {
	first, _, whole := bytes.Cut(bytes.TrimLeft(head, " \t\r\n"), []byte{'\n'})
	switch {
	case bytes.HasPrefix(first, []byte(`{"gotach":"`+kindFile+`"`)):
	case bytes.HasPrefix(first, []byte("{")) && bytes.Contains(first, []byte(`"thread_id"`)):
	default:
		return false
	}
	return !whole || json.Valid(first)
}
