package writer

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
	"github.com/klauspost/compress/zstd"
)

// WriteRecords adds records to the file's record section. The Writer keeps nothing of r. With a
// journal, a program that is killed afterwards loses none of them, and the Writer's memory does not
// grow with their number. It may be called after an error of the file: Close then finishes the
// file with these records too.
func (w *Writer) WriteRecords(r *tachyon.Records) (err error) {
	if w.closed {
		return ErrClosed
	}
	if w.j != nil {
		defer w.fault(debug.SetPanicOnFault(true), &err)
	}
	if err = w.records.add(r); err != nil && w.err == nil {
		w.err = err
	}
	return err
}

// records is the record section of a file that is being written.
type records struct {
	enc   wire.RecordEncoder
	open  []byte // the records of the block that is not full yet
	zw    *zstd.Encoder
	plain bool // no compression

	j      *journal.Writer // has all that is below, and open. nil: none
	inFile int64           // bytes of blocks in j
	memory [][]byte        // blocks that are not in j
	length int64           // bytes of all blocks
	crc    uint32          // of all blocks
	failed bool            // j takes no more
}

func (r *records) add(list *tachyon.Records) error {
	var errs error
	for i := range list.Goroutines {
		from := len(r.open)
		r.open = r.enc.AppendGoroutine(r.open, &list.Goroutines[i])
		errs = errors.Join(errs, r.added(from))
	}
	for i := range list.Objects {
		b, err := json.Marshal(&list.Objects[i])
		if err != nil {
			return fmt.Errorf("tachyon writer: object: %w", err)
		}
		from := len(r.open)
		r.open = wire.AppendObject(r.open, b)
		errs = errors.Join(errs, r.added(from))
	}
	if list.Stops != nil {
		if err := wire.CheckStops(list.Stops); err != nil {
			return fmt.Errorf("tachyon writer: %w", err)
		}
		from := len(r.open)
		r.open = r.enc.AppendStops(r.open, list.Stops)
		errs = errors.Join(errs, r.added(from))
	}
	if list.Progress != nil && r.logging() { // a finished file does not need it
		b, err := json.Marshal(list.Progress)
		if err != nil {
			return fmt.Errorf("tachyon writer: progress: %w", err)
		}
		errs = errors.Join(errs, r.fail(r.j.Progress(b)))
	}
	return errs
}

// added is called after a record was added to open at from.
func (r *records) added(from int) (err error) {
	if r.logging() {
		err = r.fail(r.j.Records(r.open[from:]))
	}
	if len(r.open) >= wire.BlockSize {
		err = errors.Join(err, r.seal())
	}
	return err
}

// logging reports whether records go into the journal.
func (r *records) logging() bool { return r.j != nil && !r.failed }

// fail notes that the journal takes no more. The records from then on stay in memory.
func (r *records) fail(err error) error {
	r.failed = r.failed || err != nil
	return err
}

// seal ends a block.
func (r *records) seal() error {
	b, err := r.rest()
	if err != nil || len(b) == 0 {
		return err
	}
	if r.logging() {
		err = r.fail(r.j.Block(b))
	}
	if r.logging() {
		r.inFile += int64(len(b))
	} else {
		r.memory = append(r.memory, b)
	}
	r.length += int64(len(b))
	r.crc = wire.CRC(r.crc, b)
	r.open = r.open[:0]
	r.enc.Reset()
	return err
}

// rest returns the last block with the records that are in no block yet, or nil.
func (r *records) rest() ([]byte, error) {
	if len(r.open) == 0 {
		return nil, nil
	}
	if r.plain {
		return wire.AppendBlock(nil, r.open, nil), nil
	}
	if r.zw == nil {
		var err error
		if r.zw, err = wire.NewBlockEncoder(); err != nil {
			return nil, err
		}
	}
	return wire.AppendBlock(nil, r.open, func(b []byte) []byte { return r.zw.EncodeAll(b, nil) }), nil
}

// blocks calls f with the bytes of all blocks, in order.
func (r *records) blocks(f func([]byte)) {
	if r.inFile > 0 {
		r.j.Blocks(r.inFile, f)
	}
	for _, b := range r.memory {
		f(b)
	}
}

// lose forgets the blocks in the journal, which ends.
func (r *records) lose() {
	r.j, r.inFile, r.length, r.crc = nil, 0, 0, 0
	for _, b := range r.memory {
		r.length += int64(len(b))
		r.crc = wire.CRC(r.crc, b)
	}
}
