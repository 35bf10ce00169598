package reader

import (
	"errors"
	"fmt"
)

// ErrUnfinished says that a file has no header yet, since its writer is still at
// work or was killed, and no journal that it could be read with. It comes
// wrapped in a [*FormatError].
var ErrUnfinished = errors.New("the file is unfinished: its writer is still at work or was killed")

// ErrChecksum says that the sample region is not what its writer put into the
// file. It comes wrapped in a [*FormatError].
var ErrChecksum = errors.New("the checksum of the sample region is wrong")

// A FormatError says that a file is not a Tachyon file, or what is broken in it.
type FormatError struct {
	File string // name of the file, empty if it has none

	// Offset is where the error is, in bytes: in the file or, if Decompressed,
	// in the sample data after decompression.
	Offset       int64
	Decompressed bool

	Err error
}

// Error names the file, the offset and what is wrong there.
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

// errorAt returns a FormatError for an offset in the file. The format is as for
// fmt.Errorf, %w included.
func (r *Reader) errorAt(offset int64, format string, args ...any) error {
	return &FormatError{File: r.name, Offset: offset, Err: fmt.Errorf(format, args...)}
}
