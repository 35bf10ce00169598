package tach

import (
	"encoding/json"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/gotach/profiler/internal/frames"
	"github.com/gotach/profiler/internal/reader"
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
func Write(f io.WriteSeeker, s reader.Stream, o Options) error {
	if o.Layout == tachyon.CPython315 {
		s = reader.WithoutObjects(s)
	}
	h := s.Header()
	wo := writer.Options{Layout: o.Layout, Uncompressed: o.Uncompressed, Start: h.Start, Interval: h.Interval}
	file := fileOf(s)
	if h.Layout == tachyon.CPython315 {
		wo.CPython = &writer.CPythonInfo{Version: h.Python, Config: h.Config}
		if file != nil {
			wo.CPython.Stats = file.Statistics()
		}
	}
	m, err := reader.Overview(s)
	if err != nil {
		return err
	}
	samples := s.Samples()
	evened, early := false, uint64(0)
	if o.Layout == tachyon.CPython315 && !o.Exact && m.Session != nil && h.Layout == tachyon.Document {
		if samples, wo.Start, wo.Interval, err = even(s); err != nil {
			return err
		}
		early, evened = h.Start-wo.Start, true
	}
	w, err := writer.New(f, wo)
	if err != nil {
		return err
	}
	var ends ending
	if !evened {
		ends = endingOf(s)
	}
	err = writeSamples(w, s, samples, ends)
	if err == nil {
		err = writeRecords(w, s, o.Layout == tachyon.Document, func(g *tachyon.Goroutine) {
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

// writeSamples writes samples of a stream. ends tells when threads end; nil: nobody does.
func writeSamples(w *writer.Writer, s reader.Stream, samples iter.Seq2[*tachyon.Sample, error], ends ending) error {
	remap := frames.Remap{From: s.Frames(), To: w}
	remap.All()
	var forgot error
	if ends != nil {
		ends.WhenEnded(func(thread uint64, interpreter uint32) { forgot = errors.Join(forgot, w.Forget(thread, interpreter)) })
		defer ends.WhenEnded(nil)
	}
	var out tachyon.Sample
	for s, err := range samples {
		if err == nil {
			out = *s
			out.Stack, err = remap.Stack(s.Stack)
		}
		if err == nil {
			err = w.Write(&out)
		}
		if err != nil {
			return err
		}
	}
	return forgot
}

// An ending is a stream that tells when threads end, so that the writer need not keep them.
type ending interface {
	WhenEnded(func(thread uint64, interpreter uint32))
}

// endingOf returns the ending that a stream is made of, nil if there is none.
func endingOf(s reader.Stream) ending {
	for {
		if e, ok := s.(ending); ok {
			return e
		}
		u, ok := s.(interface{ Unwrap() reader.Stream })
		if !ok {
			return nil
		}
		s = u.Unwrap()
	}
}

// writeRecords writes what a stream says of goroutines, after change, and of objects.
func writeRecords(w *writer.Writer, s reader.Stream, objects bool, change func(*tachyon.Goroutine)) error {
	one := make([]tachyon.Goroutine, 1)
	for g, err := range reader.Goroutines(s) {
		if err == nil {
			one[0] = *g
			change(&one[0])
			err = w.WriteRecords(&tachyon.Records{Goroutines: one})
		}
		if err != nil {
			return err
		}
	}
	if !objects {
		return nil
	}
	list, err := reader.Objects(s)
	if err == nil {
		err = w.WriteRecords(&tachyon.Records{Objects: list})
	}
	return err
}

// fileOf returns the file that a stream reads, nil if it is more than one file's.
func fileOf(s reader.Stream) *reader.Reader {
	for {
		switch x := s.(type) {
		case *reader.Reader:
			return x
		case interface{ Unwrap() reader.Stream }:
			s = x.Unwrap()
		default:
			return nil
		}
	}
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

// OtherMetadata returns the metadata of unknown kinds in the file that a stream reads.
func OtherMetadata(s reader.Stream) (list []Other, err error) {
	file := fileOf(s)
	if file == nil {
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
