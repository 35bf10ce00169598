package formats

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/gotach/profiler/internal/files"
	"github.com/gotach/profiler/internal/infile"
)

// A source is what a format reads from: a path, or a stream that can be read once.
type source struct {
	Name string // for messages
	Path string // "" if it is a stream

	head   []byte    // of a file or a stream
	stream io.Reader // head included
	dir    bool
	size   int64    // of a file
	o      *Options // whose Progress and Context apply to reading
}

// Open returns a reader of all bytes. It works once for a stream.
func (s *source) Open() (io.ReadCloser, error) {
	if s.Path == "" {
		return io.NopCloser(s.stream), nil
	}
	f, _, err := files.Open(s.Path)
	if err != nil || s.o == nil || s.o.Progress == nil && s.o.Context == nil {
		return f, err
	}
	return &watched{File: f, s: s}, nil
}

// read calls use with a reader of all bytes.
func (s *source) read(use func(io.Reader) error) error {
	f, err := s.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	return use(f)
}

// watched is a file that reports progress and stops when the Context ends.
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

// WriteTo hides the method of os.File, with which io.Copy would bypass Read.
func (w *watched) WriteTo(to io.Writer) (int64, error) {
	return io.Copy(to, struct{ io.Reader }{w})
}

// headSize is the number of bytes that sniffing sees.
const headSize = 4096

// newSource returns the source at a path.
func newSource(path string) (*source, error) {
	s := &source{Name: path, Path: path}
	fi, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		// The name of an SPX report is what the names of its two files have in common.
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
	f, fi, err := infile.Open(s.Path)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return streamSource(f, path) // which stays open: it can be read once
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
	return io.ReadAll(io.LimitReader(r, headSize))
}

// ErrUnknownFormat says that neither the content nor the name of a file tells
// what format it has.
var ErrUnknownFormat = errors.New("not a format that gotach knows")

// format finds out the format of a source. The content decides before the name,
// which is wrong more often.
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
		return nil, errors.New("the directory is no profile; name the files in it")
	}
	if len(s.head) == 0 {
		return nil, errors.New("the file is empty")
	}
	if f := byExtension(s.Name); f != nil && f.open != nil {
		return f, nil
	}
	return nil, ErrUnknownFormat
}
