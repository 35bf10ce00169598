package reader

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/gotach/profiler/internal/infile"
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

// maxStream is how much of a stream is kept, in bytes. It is a variable for tests.
var maxStream int64 = 1 << 30

func readAll(r io.Reader) (source, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxStream+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > maxStream {
		return nil, fmt.Errorf("the stream has more than %d bytes: write it to a file first", maxStream)
	}
	return memory{bytes.NewReader(b)}, nil
}

// resolved returns a path with symbolic links followed: the journal is beside the file itself. A
// link such as /proc/PID/root leads elsewhere than its text says, and is kept.
func resolved(path string) string {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return path
	}
	fi, err := os.Stat(path)
	if there, e := os.Stat(target); err != nil || e != nil || !os.SameFile(fi, there) {
		return path
	}
	return target
}

// openSource opens a file by name. Depending on the system, it maps a regular file or reads
// it as needed. It reads a stream as a whole.
func openSource(path string) (source, error) {
	f, info, err := infile.Open(path)
	if err != nil {
		return nil, err
	}
	return fileSource(f, info)
}

// fileSource returns the source of an open file, which it closes.
func fileSource(f *os.File, info os.FileInfo) (source, error) {
	if !info.Mode().IsRegular() || info.Size() == 0 {
		defer f.Close()
		return readAll(f)
	}
	return regularSource(f, info.Size())
}
