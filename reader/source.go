package reader

import (
	"bytes"
	"io"
	"os"
)

// A source holds the bytes of a file. ReadAt may be called from several
// goroutines at once, and after Close fails with os.ErrClosed.
type source interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// memory is a file that was read whole, such as a pipe.
type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

func readAll(r io.Reader) (source, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	return memory{bytes.NewReader(b)}, nil
}

// openSource opens a file by name. A regular file is mapped or read as needed,
// depending on the system. Anything else, such as a pipe, is read whole.
func openSource(path string) (source, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() == 0 {
		defer f.Close()
		return readAll(f)
	}
	return regularSource(f, info.Size())
}
