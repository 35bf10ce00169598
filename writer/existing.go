package writer

import (
	"encoding/binary"
	"errors"
	"io"
	"math/bits"
	"os"

	"github.com/gotach/profiler/internal/files"
	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

// ErrNotProfile is the error of [Create] for an existing file that is neither empty nor a profile.
var ErrNotProfile = errors.New("the file is not a profile, so it is not overwritten; remove it or use another name")

// Kept returns the new path of the unfinished profile that Create has found at its path, or "".
func (w *Writer) Kept() string { return w.kept }

// keep makes the path free for a new profile. An unfinished profile with its journal gets another
// name: it is that of a program that was killed, and often says why.
func (w *Writer) keep(path string) error {
	if fi, err := os.Lstat(path); err != nil || !fi.Mode().IsRegular() {
		return nil // create returns the error
	}
	f, _, err := files.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	there := journal.Exists(path)
	unfinished, err := check(f, there)
	if err == nil && unfinished && there {
		w.kept, err = journal.Keep(path)
	}
	return err
}

// check returns an error if a regular file has contents that are not those of a profile. A profile
// whose header is missing has zero bytes there. Then there is a journal, or at least compressed
// samples or nothing follow.
func check(f *os.File, hasJournal bool) (unfinished bool, err error) {
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() || fi.Size() == 0 {
		return false, err
	}
	var b [tachyon.HeaderSize + 4]byte
	n, err := f.ReadAt(b[:], 0)
	if err != nil && err != io.EOF {
		return false, err
	}
	if n >= tachyon.HeaderSize {
		if magic := binary.LittleEndian.Uint32(b[:]); magic == tachyon.Magic || bits.ReverseBytes32(magic) == tachyon.Magic {
			return false, nil
		}
		empty := [tachyon.HeaderSize]byte(b[:]) == [tachyon.HeaderSize]byte{}
		if empty && (hasJournal || n == tachyon.HeaderSize || binary.LittleEndian.Uint32(b[tachyon.HeaderSize:]) == wire.ZstdMagic) {
			return true, nil
		}
	}
	return false, &os.PathError{Op: "open", Path: f.Name(), Err: ErrNotProfile}
}
