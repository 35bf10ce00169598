package reader

import (
	"errors"
	"fmt"

	"github.com/gotach/profiler/internal/decode"
)

// ErrUnfinished is the error for a file that has neither a header nor a usable journal. Its
// writer is still running or was killed. It comes wrapped in a [*FormatError].
var ErrUnfinished = errors.New("the file is unfinished: its writer is still running or was killed")

// ErrChecksum is the error for samples or records that were changed after they were written. It
// comes wrapped in a [*FormatError].
var ErrChecksum = decode.ErrChecksum

// A FormatError is an error in a file's content or of reading the file.
type FormatError struct {
	File string // name of the file, empty if it has none

	// Offset is the position of the error in bytes. It is an offset in the file or, if
	// Decompressed is true, in the sample data after decompression.
	Offset       int64
	Decompressed bool

	Err error
}

// Error returns the file, the offset and the error.
func (e *FormatError) Error() string {
	where := fmt.Sprintf("offset %d: ", e.Offset)
	if e.Decompressed {
		where = fmt.Sprintf("offset %d of the decompressed samples: ", e.Offset)
	}
	if e.File != "" {
		where = e.File + ": " + where
	}
	return where + e.Err.Error()
}

// Unwrap returns Err.
func (e *FormatError) Unwrap() error { return e.Err }

// errorAt returns a FormatError for an offset in the file. The format is that of
// fmt.Errorf, with %w.
func (r *Reader) errorAt(offset int64, format string, args ...any) error {
	return &FormatError{File: r.name, Offset: offset, Err: fmt.Errorf(format, args...)}
}
