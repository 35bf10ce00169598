//go:build darwin || dragonfly || freebsd || linux || netbsd

package journal

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/wire"
)

// recordPages are the pages of the record section.
type recordPages struct {
	alone    []*page // records that are in no block yet
	blocks   []*page
	progress *page
	seq      uint64 // of the latest progress
	written  uint64 // bytes of records so far, with those in blocks
}

// began notes the first or next page of a stream.
func (r *recordPages) began(kind uint64, p *page) {
	switch kind {
	case KindRecords:
		r.alone = append(r.alone, p)
	case KindBlocks:
		if n := len(r.blocks); n > 0 {
			release(r.blocks[n-1])
		}
		r.blocks = append(r.blocks, p)
	}
}

// release tells the kernel that a page will not be needed soon. The page's content stays in the
// file; it only takes no memory of the process any more.
func release(p *page) { _ = unix.Madvise(p.b, unix.MADV_DONTNEED) }

// Records adds whole records that are in no block yet.
func (j *Writer) Records(b []byte) error {
	for len(b) > 0 {
		// A page's content is added to the number of written bytes at once, for the next page.
		room := PageSize - PageHead
		if p := j.streams[KindRecords]; p != nil && int(*p.used()) < room {
			room -= int(*p.used())
		}
		n := min(room, len(b))
		if err := j.append(KindRecords, b[:n]); err != nil {
			return err
		}
		j.records.written += uint64(n)
		b = b[n:]
	}
	return nil
}

// Block adds a block. It has all records that are in no block yet.
func (j *Writer) Block(b []byte) error {
	if err := j.append(KindBlocks, b); err != nil {
		return err
	}
	for _, p := range j.records.alone {
		store(p.kind(), KindFree)
		j.free = append(j.free, p)
	}
	j.records.alone, j.streams[KindRecords] = j.records.alone[:0], nil
	return nil
}

// Blocks calls f with the first size bytes of all blocks, piece by piece.
func (j *Writer) Blocks(size int64, f func([]byte)) {
	for _, p := range j.records.blocks {
		n := min(size, int64(*p.used()))
		f(p.b[PageHead : PageHead+n])
		if size -= n; p != j.streams[KindBlocks] {
			release(p)
		}
	}
}

// Progress replaces the latest progress.
func (j *Writer) Progress(json []byte) error {
	r := &j.records
	if len(json) > PlaceSize-PlaceHead {
		return fmt.Errorf("%s: a progress of %d bytes", j.path, len(json))
	}
	if r.progress == nil {
		p, err := j.newPage(KindProgress)
		if err != nil {
			return err
		}
		r.progress = p
	}
	r.seq++
	at := PageHead + int(r.seq&1)*PlaceSize
	b := r.progress.b[at : at+PlaceHead+len(json)]
	store(word(b, 0), 0) // until it is whole
	copy(b[PlaceHead:], json)
	binary.NativeEndian.PutUint32(b[8:], uint32(len(json)))
	binary.NativeEndian.PutUint32(b[12:], wire.CRC(0, json))
	store(word(b, 0), r.seq)
	return nil
}
