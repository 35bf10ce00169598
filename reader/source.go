package reader

import (
	"bytes"
	"io"
	"os"
)

// A source provides the bytes of a file. ReadAt may be called from several goroutines at
// once. After Close it returns os.ErrClosed.
type source interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// A memory source has the whole content of a pipe or another stream. Its Close has no
// effect.
type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

func readAll(r io.Reader) (source, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	return memory{bytes.NewReader(b)}, nil
}

// openSource opens a file by name. Depending on the system, it maps a regular file or reads
// it as needed. It reads other files, such as pipes, as a whole.
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
