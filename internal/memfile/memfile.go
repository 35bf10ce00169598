// Package memfile is files in memory, for tests that write a profile and read it.
package memfile

import (
	"bytes"
	"io"

	"github.com/gotach/profiler/reader"
)

// A File is what a writer writes to. Its zero value is empty.
type File struct {
	Bytes []byte
	at    int
}

func (f *File) Write(p []byte) (int, error) {
	if more := f.at + len(p) - len(f.Bytes); more > 0 {
		f.Bytes = append(f.Bytes, make([]byte, more)...)
	}
	copy(f.Bytes[f.at:], p)
	f.at += len(p)
	return len(p), nil
}

func (f *File) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += int64(f.at)
	case io.SeekEnd:
		offset += int64(len(f.Bytes))
	}
	f.at = int(offset)
	return offset, nil
}

// Finish closes the file's writer and returns a reader of what it wrote.
func (f *File) Finish(t interface{ Fatal(...any) }, w io.Closer) *reader.Reader {
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := reader.New(bytes.NewReader(f.Bytes))
	if err != nil {
		t.Fatal(err)
	}
	return r
}
