package formats

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"

	"github.com/gotach/profiler/internal/formats/jsonl"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
)

// A source is what a format reads from: a path, or a stream that can be read once.
type source struct {
	Name string // for messages
	Path string // "" if it is a stream

	head   []byte    // of a file or a stream
	stream io.Reader // head included
	dir    bool
	size   int64    // of a file
	o      *Options // whom to tell how far reading is
}

// Open returns the bytes from the beginning. Of a stream this works once.
func (s *source) Open() (io.ReadCloser, error) {
	if s.Path == "" {
		return io.NopCloser(s.stream), nil
	}
	f, err := os.Open(s.Path)
	if err != nil || s.o == nil || s.o.Progress == nil && s.o.Context == nil {
		return f, err
	}
	return &watched{File: f, s: s}, nil
}

// watched is a file that tells how far reading it is, and ends when the work is
// called off.
type watched struct {
	*os.File
	s    *source
	done int64
}

// Read reads from the file.
func (w *watched) Read(b []byte) (int, error) {
	if c := w.s.o.Context; c != nil && c.Err() != nil {
		return 0, context.Cause(c)
	}
	n, err := w.File.Read(b)
	w.done += int64(n)
	if w.s.o.Progress != nil {
		w.s.o.Progress(uint64(w.done), uint64(max(w.s.size, w.done)))
	}
	return n, err
}

// WriteTo would go round Read; io.Copy and the like are not to find os.File's.
func (w *watched) WriteTo(to io.Writer) (int64, error) {
	return io.Copy(to, struct{ io.Reader }{w})
}

// headSize is how much of a file sniffing sees.
const headSize = 4096

// newSource looks at a path.
func newSource(path string) (*source, error) {
	s := &source{Name: path, Path: path}
	fi, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		// An SPX report goes by the name that its two files have in common.
		if pair, e := os.Stat(path + ".json"); e == nil {
			s.Path, fi, err = path+".json", pair, nil
		}
	}
	if err != nil {
		return nil, err
	}
	if s.dir = fi.IsDir(); s.dir {
		return s, nil
	}
	f, err := os.Open(s.Path)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() { // a pipe has but one go
		b, err := io.ReadAll(f)
		f.Close()
		if err != nil {
			return nil, err
		}
		return streamSource(bytes.NewReader(b), path)
	}
	defer f.Close()
	s.size = fi.Size()
	s.head, err = readHead(f)
	return s, err
}

func streamSource(r io.Reader, name string) (*source, error) {
	head, err := readHead(r)
	if err != nil {
		return nil, err
	}
	return &source{Name: name, head: head, stream: io.MultiReader(bytes.NewReader(head), r)}, nil
}

func readHead(r io.Reader) ([]byte, error) {
	head := make([]byte, headSize)
	n, err := io.ReadFull(r, head)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return head[:n], err
}

// ErrUnknownFormat says that neither the content nor the name of a file tells
// what format it has.
var ErrUnknownFormat = errors.New("not a format that gotach knows")

// format finds out what format a source has: the content says so first, since
// names lie more often.
func (s *source) format() (*Format, error) {
	for _, f := range table {
		switch {
		case s.dir:
			if f.sniffDir != nil && f.sniffDir(s.Path) {
				return f, nil
			}
		case f.sniff != nil && f.sniff(s.head):
			return f, nil
		}
	}
	if s.dir {
		return nil, errors.New("the directory holds no profile that gotach knows")
	}
	if len(s.head) == 0 {
		return nil, errors.New("the file is empty")
	}
	if f := byExtension(s.Name); f != nil && f.open != nil {
		return f, nil
	}
	return nil, ErrUnknownFormat
}

// An Input is an opened profile of any format.
type Input struct {
	Name   string // of the file, for messages
	Format *Format

	content content
	options Options
	profile *profile.Profile
}

// Open opens a profile. Its format is found out unless o says it.
func Open(path string, o Options) (*Input, error) {
	s, err := newSource(path)
	if err != nil {
		return nil, err
	}
	return open(s, o)
}

// OpenReader opens a profile that is read from r; name is for messages. Formats
// that are several files cannot be opened so.
func OpenReader(r io.Reader, name string, o Options) (*Input, error) {
	s, err := streamSource(r, name)
	if err != nil {
		return nil, err
	}
	return open(s, o)
}

func open(s *source, o Options) (in *Input, err error) {
	in = &Input{Name: s.Name, options: o}
	s.o = &in.options
	if o.From != "" {
		in.Format, err = ByName(o.From)
	} else {
		in.Format, err = s.format()
	}
	if err != nil {
		return nil, err
	}
	if in.Format.open == nil {
		return nil, fmt.Errorf("gotach writes %s files but does not read them", in.Format.Name)
	}
	if in.content, err = in.Format.open(s, &in.options); err != nil {
		return nil, err
	}
	return in, nil
}

// Close lets go of the file.
func (in *Input) Close() error { return in.content.Close() }

// Unfinished returns the names of the files whose writers have not finished them.
func (in *Input) Unfinished() (names []string) {
	switch c := in.content.(type) {
	case interface{ Unfinished() bool }:
		if c.Unfinished() {
			names = append(names, in.Name)
		}
	case *joined:
		for _, in := range c.inputs {
			names = append(names, in.Unfinished()...)
		}
	}
	return names
}

// Profile returns the profile added up.
func (in *Input) Profile() (_ *profile.Profile, err error) {
	if in.profile != nil {
		return in.profile, nil
	}
	if c, ok := in.content.(sum); ok {
		in.profile, err = c.Profile()
		return in.profile, err
	}
	s, err := in.Series()
	if err != nil {
		return nil, err
	}
	in.profile, err = profile.FromTachyon(s)
	return in.profile, err
}

// Series returns every sample. It is an error if the format has only sums. The
// stream lives as long as in; it calls Options.Progress and ends when
// Options.Context does.
func (in *Input) Series() (reader.Stream, error) {
	c, ok := in.content.(series)
	if !ok {
		return nil, fmt.Errorf("a %s file has only sums, not each sample and its time", in.Format.Name)
	}
	s, err := c.Series()
	if err != nil {
		return nil, err
	}
	return watchedStream{s, &in.options}, nil
}

// watchedStream is a stream that says how far reading it is, and ends when the
// work is called off.
type watchedStream struct {
	reader.Stream
	o *Options
}

// Unwrap returns the stream that is watched.
func (w watchedStream) Unwrap() reader.Stream { return w.Stream }

// Samples yields the samples.
func (w watchedStream) Samples() iter.Seq2[*tachyon.Sample, error] {
	if w.o.Progress == nil && w.o.Context == nil {
		return w.Stream.Samples()
	}
	return func(yield func(*tachyon.Sample, error) bool) {
		total, done := w.Header().Samples, uint64(0)
		for s, err := range w.Stream.Samples() {
			if !yield(s, err) {
				return
			}
			if done++; done%4096 != 0 {
				continue
			}
			if c := w.o.Context; c != nil && c.Err() != nil {
				yield(nil, context.Cause(c))
				return
			}
			if w.o.Progress != nil {
				w.o.Progress(done, total)
			}
		}
	}
}

// Report makes a report. Formats that know more of a function than its times
// add that to its row.
func (in *Input) Report(o profile.ReportOptions) (*profile.Report, error) {
	if c, ok := in.content.(reporter); ok {
		return c.Report(o)
	}
	p, err := in.Profile()
	if err != nil {
		return nil, err
	}
	return profile.New(p, o)
}

// CutOff says, after other methods have read a file under Options.Prefix, where
// it ends too early. Nil: it is whole.
func (in *Input) CutOff() error {
	if c, ok := in.content.(interface{ CutOff() error }); ok {
		return c.CutOff()
	}
	return nil
}

// Dump writes all that is in the file as JSON lines: of a format of samples each
// sample, of others what their package says.
func (in *Input) Dump(w io.Writer) error {
	switch c := in.content.(type) {
	case dumper:
		return c.Dump(w)
	case series:
		s, err := in.Series()
		if err != nil {
			return err
		}
		return jsonl.Write(w, s)
	}
	p, err := in.Profile()
	if err != nil {
		return err
	}
	return dumpRecords(w, p)
}

// Info says what is known of the file as a whole.
func (in *Input) Info() ([]Field, error) {
	if c, ok := in.content.(informer); ok {
		return c.Info()
	}
	p, err := in.Profile()
	if err != nil {
		return nil, err
	}
	return profileInfo(in.Format, p), nil
}

// Verify checks all of the file that can be checked and returns what it found, in a line.
func (in *Input) Verify() (string, error) {
	if c, ok := in.content.(verifier); ok {
		return c.Verify()
	}
	p, err := in.Profile()
	if err != nil {
		return "", err
	}
	return verified(p), nil
}
