package testenv

import (
	"bytes"
	"io"
)

// A File is a file in memory, for a writer to write to. Its zero value is empty.
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

// Finish closes the file's writer and opens what it wrote, usually with reader.New.
// This package does not import reader, whose own tests use it.
func Finish[R any](t interface{ Fatal(...any) }, f *File, w io.Closer, open func(io.Reader) (R, error)) R {
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := open(bytes.NewReader(f.Bytes))
	if err != nil {
		t.Fatal(err)
	}
	return r
}
