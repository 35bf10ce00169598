//go:build !(darwin || dragonfly || freebsd || linux || netbsd)

package journal

import (
	"errors"
	"os"
)

// A Writer is the journal of a profile that is being written. There is no journal on this
// system.
type Writer struct{}

// A Slot holds a thread's pending repeats.
type Slot struct{}

// Create returns ErrUnsupported.
func Create(string, Head) (*Writer, error) { return nil, ErrUnsupported }

// Lock opens the journal of the profile at path for its recovery.
func Lock(path string) (*os.File, error) { return os.OpenFile(path+Suffix, os.O_RDWR, 0) }

// Held returns ErrUnsupported, or that there is no journal.
func Held(path string) (bool, error) {
	if _, err := os.Stat(path + Suffix); err != nil {
		return false, err
	}
	return false, ErrUnsupported
}

// HeldFile closes a journal and returns ErrUnsupported.
func HeldFile(f *os.File) (bool, error) { return false, errors.Join(ErrUnsupported, f.Close()) }

func (*Writer) Buffer() []byte              { return nil }
func (*Writer) Commit(int, *Slot)           {}
func (*Writer) Advance(Point, int)          {}
func (*Writer) String([]byte) error         { return nil }
func (*Writer) Frame([]byte) error          { return nil }
func (*Writer) Metadata([]byte, bool) error { return nil }
func (*Writer) Records([]byte) error        { return nil }
func (*Writer) Block([]byte) error          { return nil }
func (*Writer) Blocks(int64, func([]byte))  {}
func (*Writer) Progress([]byte) error       { return nil }
func (*Writer) Slot(int) (Slot, error)      { return Slot{}, nil }
func (*Writer) Release(Slot)                {}
func (*Writer) Begin(*Slot, uint64, uint32) {}
func (*Writer) Move(_, _ *Slot, _ int)      {}
func (*Slot) Data() []byte                  { return nil }
func (*Slot) Used(int)                      {}
func (*Writer) Durable(Point) error         { return nil }
func (*Writer) Sync() error                 { return nil }
func (*Writer) Remove() error               { return nil }
func (*Writer) Close() error                { return nil }
