package jsonl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gotach/profiler/internal/formats/tach"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// The kinds of lines that a file has otherwise. The other kinds are those of the file's metadata.
const (
	kindFile      = "file"
	kindObject    = "object"
	kindGoroutine = "goroutine"
	kindStops     = "stops"
)

// file is the line with which metadata begin.
type file struct {
	Start    uint64 `json:"start_us"` // µs on the clock of the timestamps
	Interval uint64 `json:"interval_us"`
}

// appendMetadata appends the lines with a source's metadata to b, and passes b on when it has
// become large. It appends nothing if it has none.
func appendMetadata(b []byte, c *stream.Copy, write func([]byte) error) ([]byte, error) {
	m := c.Metadata()
	others, err := tach.OtherMetadata(c.Single())
	if err != nil {
		return b, err
	}
	begun := false
	var add func(kind string, v any)
	add = func(kind string, v any) {
		if err != nil {
			return
		}
		if !begun { // not if there is nothing to add
			begun = true
			h := c.Header()
			add(kindFile, file{h.Start, h.Interval})
		}
		if b, err = appendLine(b, kind, v); err == nil && len(b) > 64<<10 {
			err = write(b)
			b = b[:0]
		}
	}
	if m.Session != nil {
		add(tachyon.KindSession, m.Session)
	}
	for i := range c.Objects {
		add(kindObject, &c.Objects[i])
	}
	for g, gerr := range c.EachGoroutine() {
		if gerr != nil {
			return b, gerr
		}
		for _, part := range split(*g) {
			add(kindGoroutine, &part)
		}
	}
	for stops, serr := range c.Stops() {
		if serr != nil {
			return b, serr
		}
		add(kindStops, stops)
	}
	if m.PCs != nil {
		add(tachyon.KindPCs, m.PCs)
	}
	for _, o := range others {
		add(o.Kind, o.Fields)
	}
	return b, err
}

// maxLabels is about the number of bytes of labels in a line. A goroutine can have more, if it has
// other labels for each request.
const maxLabels = 1 << 20

// split returns a goroutine's metadata in parts, as tachyon.Records has them.
func split(g tachyon.Goroutine) (parts []tachyon.Goroutine) {
	labels, from, size := g.Labels, 0, 0
	for i := range labels {
		n := 32
		for k, v := range labels[i].Labels {
			n += len(k) + len(v)
		}
		if size += n; size > maxLabels && i > from {
			g.Labels = labels[from:i]
			parts = append(parts, g)
			g = tachyon.Goroutine{ID: g.ID, Last: g.Last}
			from, size = i, n
		}
	}
	g.Labels = labels[from:]
	return append(parts, g)
}

// appendLine appends an object of JSON whose first key is "gotach".
func appendLine(b []byte, kind string, v any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return b, err
	}
	b = appendString(append(b, `{"gotach":`...), kind)
	fields := bytes.TrimSpace(text.Bytes())[1:] // without the brace
	if len(fields) > 1 {
		b = append(b, ',')
	}
	return append(append(b, fields...), '\n'), nil
}

// isMetadata reports whether a line is metadata.
func isMetadata(line []byte) bool { return bytes.HasPrefix(line, []byte(`{"gotach":`)) }

// metadata takes the lines with metadata.
type metadata struct {
	file    *file
	waiting []tachyon.Records // what comes before the writer
	others  []tach.Other
	session *tachyon.Session
	pcs     *tachyon.LeafPCs
}

// line takes a line. It writes what has room in a file at once to w, unless w is nil.
func (m *metadata) line(b []byte, w *writer.Writer) error {
	kind, fields, err := tach.SplitMetadata(string(b))
	if err != nil {
		return err
	}
	var r tachyon.Records
	switch kind {
	case kindFile:
		if m.file != nil || w != nil {
			return fmt.Errorf("a line of the kind %q must come first", kind)
		}
		return json.Unmarshal(b, &m.file)
	case tachyon.KindSession:
		if m.session != nil {
			return fmt.Errorf("a second line of the kind %q", kind)
		}
		return json.Unmarshal(b, &m.session)
	case tachyon.KindPCs:
		if m.pcs != nil {
			return fmt.Errorf("a second line of the kind %q", kind)
		}
		return json.Unmarshal(b, &m.pcs)
	case tachyon.KindChecksum, tachyon.KindRecords, tachyon.KindGoroutines:
		return nil // about the bytes of another file
	case kindGoroutine:
		r.Goroutines = make([]tachyon.Goroutine, 1)
		err = json.Unmarshal(b, &r.Goroutines[0])
	case kindObject:
		r.Objects = make([]tachyon.Object, 1)
		err = json.Unmarshal(b, &r.Objects[0])
	case kindStops:
		r.Stops = &tachyon.Stops{}
		err = json.Unmarshal(b, r.Stops)
	default:
		if !json.Valid(fields) {
			return errors.New("not JSON")
		}
		m.others = append(m.others, tach.Other{Kind: kind, Fields: fields})
		return nil
	}
	if err != nil {
		return err
	}
	if w == nil {
		m.waiting = append(m.waiting, r)
		return nil
	}
	return w.WriteRecords(&r)
}

// begin writes what came before the writer.
func (m *metadata) begin(w *writer.Writer) error {
	for i := range m.waiting {
		if err := w.WriteRecords(&m.waiting[i]); err != nil {
			return err
		}
	}
	m.waiting = nil
	return nil
}

// end writes what belongs to the end of a file. guessed is the session if no line has one, or nil.
func (m *metadata) end(w *writer.Writer, guessed *tachyon.Session) error {
	if m.session != nil {
		guessed = m.session
	}
	if guessed != nil {
		if err := w.AddMetadata(tachyon.KindSession, guessed); err != nil {
			return err
		}
	}
	if m.pcs != nil {
		if err := w.AddMetadata(tachyon.KindPCs, m.pcs); err != nil {
			return err
		}
	}
	for _, o := range m.others {
		if err := w.AddMetadata(o.Kind, o.Fields); err != nil {
			return err
		}
	}
	return nil
}
