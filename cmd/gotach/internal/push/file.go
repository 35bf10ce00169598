package push

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// A File is a profile in the directory.
type File struct {
	Name string // path in the directory, with slashes
	Size int64  // bytes
	dir  *folder

	// ID is the same for the same profile, wherever the file is, and also after "gotach recover".
	// It is made of the process, the session, the file's number in it, and the number of samples. A
	// file that gotach's sampler did not record has one of its content.
	ID ID

	Service, Version string // of the program
	Host             string
	PID              int
	Start            time.Time
	End              time.Time        // not before Start
	Session          *tachyon.Session // nil: gotach's sampler did not record it
	Samples          uint64
	Goroutines       uint32 // at most so many
}

// openFile reads what a file says about itself. The error is a *FileError.
func openFile(dir *folder, name string) (*File, error) {
	f := &File{Name: name, dir: dir}
	return f, f.open(f.describe)
}

// open calls use with the open file. Errors of the file are FileErrors.
func (f *File) open(use func(*reader.Reader) error) error {
	r, err := reader.OpenIn(f.dir.Root, f.Name)
	if err != nil {
		return &FileError{f, unnamed(f, err)}
	}
	defer r.Close()
	err = use(r)
	if bad := (*reader.FormatError)(nil); errors.As(err, &bad) {
		return &FileError{f, unnamed(f, err)}
	}
	return err
}

// unnamed removes the path from the beginning of an error.
func unnamed(f *File, err error) error {
	if text, ok := strings.CutPrefix(err.Error(), f.Name+": "); ok {
		return &textError{text, err}
	}
	return err
}

// A textError is an error with another text.
type textError struct {
	text string
	error
}

func (e *textError) Error() string { return e.text }

// Unwrap returns the error that had the other text.
func (e *textError) Unwrap() error { return e.error }

// describe sets all fields but the names.
func (f *File) describe(r *reader.Reader) error {
	m, err := r.Overview()
	if err != nil {
		return err
	}
	h := r.Header()
	f.Size, f.Samples, f.Goroutines = r.Size(), h.Samples, h.Threads
	f.Start = time.UnixMicro(int64(h.Start)).UTC()
	f.End = f.Start
	hash := sha256.New()
	if s := m.Session; s != nil {
		f.Session = s
		f.Service, _ = stream.ProcessLabel(s, "service")
		f.Version, _ = stream.ProcessLabel(s, "version")
		f.Host, f.PID = s.Host, s.PID
		f.Start = s.Start.UTC()
		f.End = f.Start.Add(max(s.Duration, 0))
		first := s.SessionStart
		if first.IsZero() {
			first = s.Start
		}
		fmt.Fprintf(hash, "%q %d %d %d %q\n", s.Host, s.PID, first.UnixMicro(), s.Part, s.Program)
	}
	switch {
	case f.Session == nil:
		if err := f.hash(hash); err != nil {
			return err
		}
	case m.Checksum != nil:
		if _, err := r.VerifyChecksum(); err != nil {
			return err
		}
	}
	fmt.Fprintf(hash, "%d %d\n", h.Start, h.Samples)
	copy(f.ID[:], hash.Sum(nil))
	return nil
}

// hash writes the file's content to w.
func (f *File) hash(w io.Writer) error {
	file, _, err := f.dir.open(f.Name, os.O_RDONLY)
	if err != nil {
		return &FileError{f, err}
	}
	defer file.Close()
	_, err = io.Copy(w, file)
	return err
}

// Read opens the file and calls use with its samples. If the file is gone or broken, the error is a
// *FileError.
func (f *File) Read(o stream.Options, use func(*stream.Source) error) error {
	return f.open(func(r *reader.Reader) error {
		src, err := stream.New([]stream.File{{Stream: r}}, o)
		if err != nil {
			return err
		}
		return use(src)
	})
}
