package tach

import (
	"bytes"
	"io"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/writer"
)

// Create makes a writer for samples, given when the profile began and the interval
// between two samples of a thread, both in µs.
type Create func(start, interval uint64) (*writer.Writer, error)

// InMemory returns a file of the samples that read hands to the writer that it
// creates. They are kept in memory, compressed as in a file.
func InMemory(read func(Create) error) (*reader.Reader, error) {
	var f memoryFile
	var w *writer.Writer
	err := read(func(start, interval uint64) (_ *writer.Writer, err error) {
		w, err = writer.New(&f, writer.Options{Start: start, Interval: interval})
		return w, err
	})
	if w != nil {
		if cerr := w.Close(); err == nil {
			err = cerr
		}
	}
	if err != nil {
		return nil, err
	}
	return reader.New(bytes.NewReader(f.data))
}

// memoryFile is a file in memory. The zero value is an empty one.
type memoryFile struct {
	data []byte
	at   int64
}

// Write writes at the current place.
func (f *memoryFile) Write(p []byte) (int, error) {
	if more := f.at + int64(len(p)) - int64(len(f.data)); more > 0 {
		f.data = append(f.data, make([]byte, more)...)
	}
	f.at += int64(copy(f.data[f.at:], p))
	return len(p), nil
}

// Seek sets the current place.
func (f *memoryFile) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += f.at
	case io.SeekEnd:
		offset += int64(len(f.data))
	}
	f.at = offset
	return offset, nil
}
