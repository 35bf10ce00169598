package formats

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/gotach/profiler/internal/formats/jsonl"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

var tach = &Format{
	Name:       "tach",
	Doc:        "Tachyon file as gotach records it, version 2 on disk",
	Extensions: []string{".tach"},
	Series:     true,
	sniff: func(head []byte) bool {
		v, ok := tachyonVersion(head)
		// A file whose writer has not finished it has zeroes for a header.
		return ok && v != uint32(tachyon.CPython315) ||
			len(head) >= tachyon.HeaderSize && bytes.Count(head[:tachyon.HeaderSize], []byte{0}) == tachyon.HeaderSize
	},
	open:  openTachyon,
	write: writeTachyon(tachyon.Document),
}

var cpython315 = &Format{
	Name:       "cpython315",
	Doc:        "Tachyon file as CPython 3.15 writes and reads it",
	Extensions: []string{".bin"},
	Series:     true,
	sniff: func(head []byte) bool {
		v, ok := tachyonVersion(head)
		return ok && v == uint32(tachyon.CPython315)
	},
	open:  openTachyon,
	write: writeTachyon(tachyon.CPython315),
}

// tachyonVersion returns the version of a Tachyon file of either byte order.
func tachyonVersion(head []byte) (version uint32, ok bool) {
	if len(head) < 8 {
		return 0, len(head) >= 4 && (string(head[:4]) == "HCAT" || string(head[:4]) == "TACH")
	}
	for _, o := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		if o.Uint32(head) == tachyon.Magic {
			return o.Uint32(head[4:]), true
		}
	}
	return 0, false
}

// tachyonContent is an open Tachyon file.
type tachyonContent struct {
	*reader.Reader
	o *Options
}

func openTachyon(s *Source, o *Options) (Content, error) {
	if s.Path != "" {
		r, err := reader.Open(s.Path)
		if err != nil {
			return nil, err
		}
		return &tachyonContent{r, o}, nil
	}
	r, err := reader.New(namedReader{s.stream, s.Name})
	if err != nil {
		return nil, err
	}
	return &tachyonContent{r, o}, nil
}

// A namedReader is a stream that errors can call by its name.
type namedReader struct {
	io.Reader
	name string
}

func (r namedReader) Name() string { return r.name }

func (c *tachyonContent) Series() (*reader.Reader, error) { return c.Reader, nil }

func (c *tachyonContent) Profile() (*profile.Profile, error) {
	return profile.FromTachyon(watchedStream{c.Reader, c.o})
}

func (c *tachyonContent) Dump(w io.Writer) error {
	return jsonl.Write(w, c.Frames(), c.o.samples(c.Reader))
}

// writeTachyon writes the samples and all of gotach's metadata in a layout.
// What only CPython315 can hold is lost in the other one. Into CPython's layout a
// profile that gotach recorded goes at even times, unless o says exact: the
// readers of that layout count samples.
func writeTachyon(layout tachyon.Layout) func(*Target, *Input, *Options) error {
	return func(t *Target, in *Input, o *Options) error {
		r, err := in.Series()
		if err != nil {
			return err
		}
		return t.seekable(func(f io.WriteSeeker) error { return copySeries(f, r, layout, o) })
	}
}

func copySeries(f io.WriteSeeker, r *reader.Reader, layout tachyon.Layout, o *Options) error {
	h := r.Header()
	wo := writer.Options{Layout: layout, Uncompressed: o.Uncompressed, Start: h.Start, Interval: h.Interval}
	if h.Layout == tachyon.CPython315 {
		wo.CPython = &writer.CPythonInfo{Version: h.Python, Config: h.Config, Stats: r.Statistics()}
	}
	from, evened := o.samples(r), layout == tachyon.CPython315 && !o.Exact && recorded(r)
	if evened {
		var err error
		if from, wo.Start, wo.Interval, err = even(watchedStream{r, o}); err != nil {
			return err
		}
	}
	w, err := writer.New(f, wo)
	if err != nil {
		return err
	}
	if err := copySamples(w, r, from); err != nil {
		w.Close()
		return err
	}
	if evened {
		err = copyMetadata(w, r, func(g *tachyon.Goroutine) { evenGoroutine(g, h.Start-wo.Start) })
	} else {
		err = copyMetadata(w, r, nil)
	}
	if err != nil {
		w.Close()
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	o.warn(w.Warning())
	return nil
}

// evenGoroutine changes what is known of a goroutine for a file of even samples
// that begins so many µs earlier.
func evenGoroutine(g *tachyon.Goroutine, early uint64) {
	g.FirstWeight = 0 // each sample stands for one interval, the first ones too
	g.First, g.Last = g.First+early, g.Last+early
	for i := range g.Labels {
		g.Labels[i].From += early
	}
}

// recorded reports whether a file is as a session of gotach's left it.
func recorded(r *reader.Reader) bool {
	m, err := r.Metadata()
	return err == nil && m.Session != nil && r.Header().Layout == tachyon.Document
}

func copySamples(w *writer.Writer, r *reader.Reader, samples iter.Seq2[*reader.Sample, error]) error {
	ids := make([]uint32, len(r.Frames()))
	for i, f := range r.Frames() {
		ids[i] = w.Intern(f)
	}
	var s reader.Sample
	for in, err := range samples {
		if err != nil {
			return err
		}
		stack := s.Stack[:0]
		for _, id := range in.Stack {
			stack = append(stack, ids[id])
		}
		s = *in
		s.Stack = stack
		if err := w.Write(&s); err != nil {
			return err
		}
	}
	return nil
}

// copyMetadata copies gotach's metadata, of each goroutine as change leaves it.
func copyMetadata(w *writer.Writer, r *reader.Reader, change func(*tachyon.Goroutine)) error {
	for _, text := range r.MetadataObjects() {
		kind, rest, err := splitMetadata(text)
		if err != nil {
			return err
		}
		if kind == tachyon.KindChecksum {
			continue // of other bytes; the writer adds its own
		}
		var object any = rest
		if kind == tachyon.KindGoroutines && change != nil {
			var part struct {
				Goroutines []*tachyon.Goroutine `json:"goroutines"`
			}
			if err := json.Unmarshal(rest, &part); err != nil {
				return err
			}
			for _, g := range part.Goroutines {
				change(g)
			}
			object = part
		}
		if err := w.AddMetadata(kind, object); err != nil {
			return err
		}
	}
	return nil
}

// splitMetadata takes the first key and its value off one of gotach's metadata objects.
func splitMetadata(text string) (kind string, rest json.RawMessage, err error) {
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

func (c *tachyonContent) Verify() (string, error) {
	h := c.Header()
	frames, samples, deepest := len(c.Frames()), uint64(0), 0
	type thread struct {
		id          uint64
		interpreter uint32
	}
	threads := map[thread]struct{}{}
	for s, err := range c.o.samples(c.Reader) {
		if err != nil {
			return "", err
		}
		samples++
		deepest = max(deepest, len(s.Stack))
		threads[thread{s.Thread, s.Interpreter}] = struct{}{}
	}
	sum := "no checksum"
	present, err := c.VerifyChecksum()
	if err != nil {
		return "", err
	}
	if present {
		sum = "checksum right"
	}
	return fmt.Sprintf("%s layout, %d bytes, %d samples of %d goroutines, %d frames, deepest stack %d, %s",
		h.Layout, c.Size(), samples, len(threads), frames, deepest, sum), nil
}

// buffered is for Dump of formats that write small pieces. What came before an
// error is written.
func buffered(w io.Writer, f func(*bufio.Writer) error) error {
	b := bufio.NewWriterSize(w, 64<<10)
	return errors.Join(f(b), b.Flush())
}
