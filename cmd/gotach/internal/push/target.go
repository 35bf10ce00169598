package push

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"
)

// A Target is where profiles go. Its methods are called by one goroutine at a time.
type Target interface {
	// Send sends the files of a batch. It returns nil when the target has all of them for good, so
	// that they are never sent again. The kinds of errors below say what happens next; any other
	// error means that the same batch comes again later. Send may have sent a part of the batch by
	// then: the target must recognise what comes twice by its id. Send ends soon after its context
	// has ended.
	Send(ctx context.Context, b *Batch) error

	// Limits says how much a batch may have at most.
	Limits() Limits

	// Close frees what the target has.
	Close() error
}

// Limits are those of a batch. A batch has at least one file, however large it is.
type Limits struct {
	Files int   // 0: one
	Bytes int64 // of all files together; 0: any number
}

// A Batch is files that are sent together.
type Batch struct {
	Files []*File

	done map[string]bool
}

// ID identifies the batch. Batches of the same files have the same one, also after a restart.
func (b *Batch) ID() (id ID) {
	h := sha256.New()
	for _, f := range b.Files {
		h.Write(f.ID[:])
	}
	copy(id[:], h.Sum(nil))
	return id
}

// Done reports whether SetDone was called with the key. So a target that sends a batch in parts
// does not send all of them again if one fails. The process that sends a batch remembers this, no
// other.
func (b *Batch) Done(key string) bool { return b.done[key] }

// SetDone says that the target has the part of the batch with this key.
func (b *Batch) SetDone(key string) {
	if b.done == nil {
		b.done = map[string]bool{}
	}
	b.done[key] = true
}

// without returns the batch without a file. What is done stays done.
func (b *Batch) without(f *File) *Batch {
	return &Batch{Files: slices.DeleteFunc(slices.Clone(b.Files), func(g *File) bool { return g == f }), done: b.done}
}

// A RetryError says that the target wants the batch later.
type RetryError struct {
	After time.Duration // the target asks to wait for so long; 0: it does not say
	Err   error
}

// Error returns the reason.
func (e *RetryError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *RetryError) Unwrap() error { return e.Err }

// A RefusedError says that the target will never take the batch. If it has several files, each is
// sent alone then. A file that is refused alone is parked.
type RefusedError struct{ Err error }

// Error returns the reason.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *RefusedError) Unwrap() error { return e.Err }

// A TooLargeError says that the batch is too large. Its files are sent in smaller batches then. A
// file that is too large alone is parked, so targets send a file in parts if need be.
type TooLargeError struct{ Err error }

// Error returns the reason.
func (e *TooLargeError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *TooLargeError) Unwrap() error { return e.Err }

// A FileError says that a file of the batch cannot be read. The others are sent without it.
// File.Read returns it.
type FileError struct {
	File *File
	Err  error
}

// Error returns the file and the reason.
func (e *FileError) Error() string { return fmt.Sprintf("%s: %v", e.File.Name, e.Err) }

// Unwrap returns Err.
func (e *FileError) Unwrap() error { return e.Err }

// An ID identifies a file or a part of one. It is never zero.
type ID [16]byte

// String returns the id as 32 hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Part returns the id of a part of what id identifies. The text must be different for different
// parts.
func (id ID) Part(part string) ID {
	h := sha256.New()
	h.Write(id[:])
	h.Write([]byte(part))
	return ID(h.Sum(nil)[:len(id)])
}
