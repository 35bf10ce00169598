// Package formaterr is the error of files that are not as their format has them.
package formaterr

import "fmt"

// Error says where a file is wrong, and why.
type Error struct {
	File   string // name of the file, or of the format if the file has none
	Offset int64  // bytes from the start, after decompression
	Err    error
}

// Error names the file and the place.
func (e *Error) Error() string { return fmt.Sprintf("%s: at byte %d: %v", e.File, e.Offset, e.Err) }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }
