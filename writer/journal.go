package writer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"github.com/gotach/profiler/internal/files"
	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

// ErrBusy is the error of [Create] for a file that another process is writing.
var ErrBusy = journal.ErrBusy

// startJournal makes the journal of the file at path. Without a journal the buffer is
// ordinary memory.
func (w *Writer) startJournal(path string) error {
	if w.o.NoJournal {
		return nil
	}
	if fi, err := os.Stat(path); err == nil && !fi.Mode().IsRegular() {
		return nil // a device or a pipe cannot be recovered
	}
	h := journal.Head{
		Layout: uint32(w.o.Layout), Start: w.o.Start, Interval: w.o.Interval,
		Compression: w.out.compression(), Python: w.o.CPython.Version, Config: w.o.CPython.Config, Stats: w.stats,
	}
	j, err := journal.Create(path, h)
	if errors.Is(err, journal.ErrUnsupported) {
		return nil
	}
	switch {
	case errors.Is(err, ErrBusy), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EIO):
		return fmt.Errorf("tachyon writer: %w", err)
	case err != nil:
		w.warn = fmt.Errorf("no journal, so the profile is lost if the program is killed: %w", err)
		return nil
	}
	w.j, w.out.j, w.table.j, w.records.j = j, j, j, j
	w.out.buf = j.Buffer()
	return nil
}

// endJournal closes the journal and deletes it if the file is finished.
func (w *Writer) endJournal(finished bool) error {
	j := w.j
	if j == nil {
		return nil
	}
	w.j, w.out.j, w.table.j = nil, nil, nil
	w.records.lose()
	w.out.buf, w.out.unsaved = nil, nil
	for t := range w.threads.all {
		t.pending, t.slot, t.repeats = nil, journal.Slot{}, 0
	}
	for _, t := range w.threads.free {
		t.pending, t.slot = nil, journal.Slot{}
	}
	if finished {
		return j.Remove()
	}
	return j.Close()
}

// pendingRoom gives a thread a buffer of size bytes and moves its pending repeats into it.
func (w *Writer) pendingRoom(t *thread, size int) {
	if w.j == nil {
		// append would round the size up.
		b := make([]byte, len(t.pending), size)
		copy(b, t.pending)
		t.pending = b
		return
	}
	s, err := w.j.Slot(size)
	if err != nil {
		w.err = err
		return
	}
	data := s.Data()
	if n := copy(data, t.pending); n > 0 {
		w.j.Move(&t.slot, &s, n)
	}
	w.j.Release(t.slot)
	t.slot, t.pending = s, data[:len(t.pending)]
}

// logString adds a string to the journal's table.
func (t *table) logString(s string) error {
	if t.j == nil {
		return nil
	}
	t.entry = wire.AppendString(t.entry[:0], s)
	return t.j.String(t.entry)
}

func (t *table) logFrame(k *frame) error {
	if t.j == nil {
		return nil
	}
	t.entry = t.appendFrame(t.entry[:0], k)
	return t.j.Frame(t.entry)
}

// errTruncated is the error after a fault in the journal's memory.
var errTruncated = errors.New("tachyon writer: the journal was truncated, or its disk failed; the samples in its buffer are lost")

// fault turns a fault in the journal's memory into an error. It is used as
//
//	defer w.fault(debug.SetPanicOnFault(true), &err)
//
// If somebody truncates the journal, a store into its mapping raises SIGBUS, which must not
// end the program. In that case the samples in the buffer are lost. The samples in the file
// are not.
func (w *Writer) fault(old bool, err *error) {
	debug.SetPanicOnFault(old)
	switch f := recover().(type) {
	case nil:
		return
	case interface{ Addr() uintptr }:
	default:
		panic(f)
	}
	if w.err == nil {
		w.err = errTruncated
	}
	w.out.err = w.err
	_ = w.endJournal(true)
	*err = w.err
}

// resolve returns the file to write. It follows a symbolic link at path if the link belongs
// to the user or to root. In a directory where others may write, another user's link could
// point to any file of the user.
func resolve(path string) (string, error) {
	fi, err := os.Lstat(path)
	if err != nil || fi.Mode()&os.ModeSymlink == 0 {
		return path, nil // create returns the error
	}
	if !files.TrustedOwner(fi) {
		return "", &os.PathError{Op: "open", Path: path, Err: errors.New("the symbolic link belongs to another user and is not followed")}
	}
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, os.ErrNotExist) { // the link's target does not exist yet
		if target, err = os.Readlink(path); err == nil && !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
	}
	return target, err
}

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
