package tach

import (
	"encoding/json"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// Options say how to write a file.
type Options struct {
	Layout       tachyon.Layout
	Uncompressed bool
	Exact        bool        // CPython315: samples as they are
	Warn         func(error) // takes the writer's warning, if there is one. May be nil
}

// Write writes the samples and all of gotach's metadata. What only CPython315 can
// hold is lost in the other layout. In CPython's layout, samples that gotach
// recorded are replaced by samples at even times, unless o says Exact: the readers
// of that layout count samples. The numbers of objects are left out of that layout.
//
// The source has Options.Markers and Options.Objects.
func Write(f io.WriteSeeker, src *stream.Source, o Options) error {
	c, err := src.Copy()
	if err != nil {
		return err
	}
	h, m := src.Header(), src.Metadata()
	file, _ := src.Single().(*reader.Reader)
	if s := src.Single(); s != nil {
		h = s.Header()
	}
	wo := writer.Options{Layout: o.Layout, Uncompressed: o.Uncompressed, Start: h.Start, Interval: h.Interval}
	if h.Layout == tachyon.CPython315 {
		wo.CPython = &writer.CPythonInfo{Version: h.Python, Config: h.Config}
		if file != nil {
			if wo.CPython.Stats, err = file.StatisticsBlock(); err != nil {
				return err
			}
		}
	}
	samples, ended := src.Samples(), c.Ended
	evened, early := false, uint64(0)
	if o.Layout == tachyon.CPython315 && !o.Exact && m.Session != nil && h.Layout == tachyon.Document {
		if samples, wo.Start, wo.Interval, err = even(src); err != nil {
			return err
		}
		early, evened, ended = h.Start-wo.Start, true, nil
	}
	w, err := writer.New(f, wo)
	if err != nil {
		return err
	}
	err = writeSamples(w, src, samples, ended, o.Layout == tachyon.Document)
	if err == nil {
		err = writeRecords(w, c, o.Layout == tachyon.Document, func(g *tachyon.Goroutine) {
			if evened {
				g.Labels = slices.Clone(g.Labels)
				evenGoroutine(g, early)
			}
		})
	}
	if err == nil && file != nil {
		err = copyMetadata(w, file, m)
	} else if err == nil {
		err = writeMetadata(w, m)
	}
	if err != nil {
		w.Close()
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	if warning := w.Warning(); warning != nil && o.Warn != nil {
		o.Warn(warning)
	}
	return nil
}

// writeSamples writes samples of a source. ended has the threads that end with each file; nil:
// nobody knows. Without objects, frames of waits have line 0: other readers would show the number
// of an object as a line of source.
func writeSamples(w *writer.Writer, src *stream.Source, samples iter.Seq2[*stream.Sample, error], ended [][]reader.Thread, objects bool) error {
	var ids []uint32 // of the source's frames
	intern := func() {
		for _, f := range src.Frames()[len(ids):] {
			if !objects && reader.IsObject(&f) {
				f.Line = 0
			}
			ids = append(ids, w.Intern(f))
		}
	}
	forgotten := 0 // files
	forget := func(until int) (err error) {
		for ; forgotten < min(until, len(ended)); forgotten++ {
			for _, t := range ended[forgotten] {
				err = errors.Join(err, w.Forget(t.ID, t.Interpreter))
			}
		}
		return err
	}
	var out tachyon.Sample
	for s, err := range samples {
		if err != nil {
			return err
		}
		if file, _ := src.File(); file > forgotten {
			if err := forget(file); err != nil {
				return err
			}
		}
		intern()
		out.Thread, out.Interpreter, out.Time, out.Status, out.Stack = s.Goroutine, s.Interpreter, s.Time, s.Status, out.Stack[:0]
		stacks := src.Stacks()
		for n := s.Stack; n != 0; n = stacks[n].Caller {
			out.Stack = append(out.Stack, ids[stacks[n].Frame])
		}
		if err := w.Write(&out); err != nil {
			return err
		}
	}
	intern()
	return forget(len(ended))
}

// writeRecords writes what is known of goroutines, after change, and of objects.
func writeRecords(w *writer.Writer, c *stream.Copy, objects bool, change func(*tachyon.Goroutine)) error {
	one := make([]tachyon.Goroutine, 1)
	for g, err := range c.EachGoroutine() {
		if err == nil {
			one[0] = *g
			change(&one[0])
			err = w.WriteRecords(&tachyon.Records{Goroutines: one})
		}
		if err != nil {
			return err
		}
	}
	for s, err := range c.Stops() {
		if err == nil {
			err = w.WriteRecords(&tachyon.Records{Stops: s})
		}
		if err != nil {
			return err
		}
	}
	if !objects {
		return nil
	}
	return w.WriteRecords(&tachyon.Records{Objects: c.Objects})
}

// copyMetadata copies a file's metadata objects, unknown kinds too.
func copyMetadata(w *writer.Writer, r *reader.Reader, m *tachyon.Metadata) error {
	for _, text := range r.MetadataObjects() {
		kind, rest, err := SplitMetadata(text)
		if err != nil {
			return err
		}
		var object any = rest
		switch kind {
		case tachyon.KindChecksum, tachyon.KindRecords, tachyon.KindGoroutines:
			continue // the writer adds its own
		case tachyon.KindSession:
			var stored tachyon.Session
			if json.Unmarshal(rest, &stored) == nil && stored.Duration != m.Session.Duration {
				object = m.Session // has the counts from the record section
			}
		}
		if err := w.AddMetadata(kind, object); err != nil {
			return err
		}
	}
	return nil
}

// writeMetadata writes the metadata of a stream that is not a file.
func writeMetadata(w *writer.Writer, m *tachyon.Metadata) error {
	if m.Session != nil {
		if err := w.AddMetadata(tachyon.KindSession, m.Session); err != nil {
			return err
		}
	}
	if m.PCs != nil {
		return w.AddMetadata(tachyon.KindPCs, m.PCs)
	}
	return nil
}

// Other is one of gotach's metadata objects of a kind that this version does not know.
type Other struct {
	Kind   string
	Fields json.RawMessage // an object without the kind
}

// OtherMetadata returns the metadata of unknown kinds in a file, none if it is another stream or
// nil.
func OtherMetadata(s reader.Stream) (list []Other, err error) {
	file, ok := s.(*reader.Reader)
	if !ok {
		return nil, nil
	}
	for _, text := range file.MetadataObjects() {
		kind, fields, err := SplitMetadata(text)
		if err != nil {
			return nil, err
		}
		switch kind {
		case tachyon.KindSession, tachyon.KindPCs, tachyon.KindChecksum, tachyon.KindRecords, tachyon.KindGoroutines:
		default:
			list = append(list, Other{kind, fields})
		}
	}
	return list, nil
}

// SplitMetadata takes the first key and its value off one of gotach's metadata objects.
func SplitMetadata(text string) (kind string, rest json.RawMessage, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	for range 2 { // the brace, the key
		if _, err := d.Token(); err != nil {
			return "", nil, err
		}
	}
	if err := d.Decode(&kind); err != nil {
		return "", nil, err
	}
	after := strings.TrimLeft(text[d.InputOffset():], " \t\r\n")
	after = strings.TrimPrefix(after, ",")
	return kind, json.RawMessage("{" + after), nil
}
