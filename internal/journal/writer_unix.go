//go:build darwin || dragonfly || freebsd || linux || netbsd

package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Writer is the journal of a profile that is being written. It must not be used from two
// goroutines at once, except for Durable and Sync. If somebody truncates the file, the
// methods and accesses to the Writer's memory cause memory faults.
type Writer struct {
	f      *os.File
	path   string
	chunks [][]byte
	seq    uint64

	commit *uint64
	gen    uint64
	raw    uint64 // bytes before the current point, before compression
	length uint64 // committed length of the buffer

	durable uint64 // sequence number of the last durable point

	streams [KindBlocks + 1]*page // the last page of each kind
	records recordPages
	free    []*page         // unused pages
	slots   map[int][]*page // by the size of their slots in bytes: pages with a free one
}

// A page is one of the pages after the buffer.
type page struct {
	b     []byte
	off   int64 // file offset
	slots int   // number of slots in use
	free  []int // offsets of the other slots
}

// The first words of a page.
func (p *page) kind() *uint64 { return word(p.b, 0) }
func (p *page) used() *uint64 { return word(p.b, 8) }
func (p *page) seq() *uint64  { return word(p.b, 16) }

// A Slot holds a thread's pending repeats.
type Slot struct {
	used *uint64 // in the journal
	page *page
	at   int // offset in the page
}

// Data returns the slot's whole memory for repeats.
func (s *Slot) Data() []byte {
	begin := s.at + SlotHead
	end := begin + int(*s.page.kind())
	return s.page.b[begin:end:end]
}

// id returns the slot's id in commit words.
func (s *Slot) id() uint64 { return uint64(s.page.off+int64(s.at)) >> 3 }

// Create makes the journal of the profile at path. It replaces a journal whose process has
// ended. If the journal is in use, the error wraps ErrBusy. If something that is not a
// regular file has the journal's name, Create returns an error and does not change it.
func Create(path string, h Head) (*Writer, error) {
	f, err := claim(path)
	if err != nil {
		return nil, err
	}
	j := &Writer{f: f, path: f.Name(), slots: make(map[int][]*page)}
	if err := j.begin(h); err != nil {
		j.Remove()
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return j, nil
}

func (j *Writer) begin(h Head) error {
	if err := j.grow(); err != nil {
		return err
	}
	b := j.chunks[0]
	ne := binary.NativeEndian
	ne.PutUint32(b[AtVersion:], Version)
	ne.PutUint32(b[AtLayout:], h.Layout)
	ne.PutUint64(b[AtStart:], h.Start)
	ne.PutUint64(b[AtInterval:], h.Interval)
	ne.PutUint32(b[AtCompression:], h.Compression)
	ne.PutUint32(b[AtConfig:], h.Config)
	copy(b[AtPython:], h.Python[:])
	b[AtStatsSize] = byte(copy(b[AtStats:AtStats+64], h.Stats))
	id := Boot()
	copy(b[AtBoot:], id[:])
	j.commit = word(b, AtCommit)
	j.putPoint(0, Point{Offset: 64})
	store(word(b, 0), Magic)
	return nil
}

// Buffer returns an empty slice of the memory for records, with a capacity of BufferSize
// bytes.
func (j *Writer) Buffer() []byte {
	return j.chunks[0][PageSize : PageSize : PageSize+BufferSize]
}

// Commit sets the length of the buffer in bytes. If s is not nil, the last record has the
// slot's repeats, and Commit empties the slot.
func (j *Writer) Commit(length int, s *Slot) {
	j.length = uint64(length)
	w := j.gen<<GenShift | j.length
	if s == nil || s.page == nil {
		store(j.commit, w)
		return
	}
	store(j.commit, w|s.id()<<LengthBits)
	store(s.used, 0)
	store(j.commit, w)
}

// Advance makes p the current point and sets the length of the buffer in bytes. The length
// is 0 after the buffer was written to the profile.
func (j *Writer) Advance(p Point, length int) {
	j.gen = (j.gen + 1) & 0xff
	j.putPoint(j.gen&1, p)
	j.raw, j.length = p.Raw, uint64(length)
	store(j.commit, j.gen<<GenShift|j.length)
}

func (j *Writer) putPoint(n uint64, p Point) { p.put(j.chunks[0][AtPoints+n*PointSize:]) }

// Durable stores p as a durable point. The profile and the tables must be synced up to p.
// Durable may be called while another goroutine uses the journal.
func (j *Writer) Durable(p Point) error {
	j.durable++
	var b [DurableSize]byte
	p.putDurable(b[:], j.durable)
	_, err := j.f.WriteAt(b[:], AtDurable+int64(j.durable&1)*DurableSize)
	return err
}

// word returns eight bytes of the journal as one number. A store that makes a change take
// effect must be atomic. A store to an aligned number is atomic, stores to the bytes of a
// slice are not. This is the only unsafe code here. It accesses only memory of the slice:
// the bounds are checked, i is a multiple of 8, and b is mapped until Close. (If the file is
// truncated, accesses to the slice fault too. Package writer handles that.)
func word(b []byte, i int) *uint64 { return (*uint64)(unsafe.Pointer(&b[i : i+8][0])) }

// Reserve extends a file and allocates its blocks. It is a variable so that tests can
// simulate full disks.
var Reserve = reserve

// grow adds a chunk of pages.
func (j *Writer) grow() error {
	off := int64(len(j.chunks)) * ChunkSize
	if err := Reserve(j.f, off, ChunkSize); err != nil {
		return err
	}
	b, err := unix.Mmap(int(j.f.Fd()), off, ChunkSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOTSUP) {
		return ErrUnsupported
	}
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	j.chunks = append(j.chunks, b)
	first := 0
	if off == 0 {
		first = FirstPage
	}
	for n := ChunkSize/PageSize - 1; n >= first; n-- {
		at := n * PageSize
		j.free = append(j.free, &page{b: b[at : at+PageSize : at+PageSize], off: off + int64(at)})
	}
	return nil
}

// reserveByWriting writes zero bytes, for systems that cannot reserve blocks.
func reserveByWriting(f *os.File, off, size int64) error {
	_, err := f.WriteAt(make([]byte, size), off)
	return err
}

// newPage returns an empty page of a kind.
func (j *Writer) newPage(kind uint64) (*page, error) {
	if len(j.free) == 0 {
		if err := j.grow(); err != nil {
			return nil, fmt.Errorf("%s: %w", j.path, err)
		}
	}
	p := j.free[len(j.free)-1]
	j.free = j.free[:len(j.free)-1]
	clear(p.b[8:])
	p.slots, p.free = 0, p.free[:0]
	j.seq++
	*p.seq() = j.seq
	if kind == KindRecords {
		*word(p.b, AtBefore) = j.records.written
	}
	store(p.kind(), kind)
	return p, nil
}

// String adds a string's entry to the string table.
func (j *Writer) String(entry []byte) error { return j.append(KindStrings, entry) }

// Frame adds a frame's entry to the frame table, after its strings.
func (j *Writer) Frame(entry []byte) error { return j.append(KindFrames, entry) }

// Metadata adds a metadata object. The next object of the same kind replaces a provisional
// one.
func (j *Writer) Metadata(text []byte, provisional bool) error {
	letter := byte('A')
	if provisional {
		letter = 'P'
	}
	return j.append(KindMetadata, append(binary.AppendUvarint([]byte{letter}, uint64(len(text))), text...))
}

func (j *Writer) append(kind uint64, b []byte) error {
	for len(b) > 0 {
		p := j.streams[kind]
		if p == nil || *p.used() == PageSize-PageHead {
			var err error
			if p, err = j.newPage(kind); err != nil {
				return err
			}
			j.streams[kind] = p
			j.records.began(kind, p)
		}
		used := p.used()
		n := copy(p.b[PageHead+*used:], b)
		store(used, *used+uint64(n))
		b = b[n:]
	}
	return nil
}

// Slot returns a slot of size bytes. size is a power of two from 32 to 16384.
func (j *Writer) Slot(size int) (Slot, error) {
	open := j.slots[size]
	if len(open) == 0 {
		p, err := j.newPage(uint64(size))
		if err != nil {
			return Slot{}, err
		}
		for at := PageSize - (PageSize-PageHead)%(SlotHead+size) - SlotHead - size; at >= PageHead; at -= SlotHead + size {
			p.free = append(p.free, at)
		}
		open = append(open, p)
		j.slots[size] = open
	}
	p := open[len(open)-1]
	at := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.slots++
	if len(p.free) == 0 {
		j.slots[size] = open[:len(open)-1]
	}
	return Slot{word(p.b, at+slotUsed), p, at}, nil
}

// Release frees a slot and drops its content.
func (j *Writer) Release(s Slot) {
	if s.page == nil {
		return
	}
	store(s.used, 0)
	p, size := s.page, int(*s.page.kind())
	if len(p.free) == 0 {
		j.slots[size] = append(j.slots[size], p)
	}
	p.free = append(p.free, s.at)
	if p.slots--; p.slots == 0 {
		j.slots[size] = slices.DeleteFunc(j.slots[size], func(q *page) bool { return p == q })
		store(p.kind(), KindFree)
		j.free = append(j.free, p)
	}
}

// Begin stores the ids of the thread whose repeats s will have, and that the run begins at the end
// of the buffer. s must be empty.
func (j *Writer) Begin(s *Slot, thread uint64, interpreter uint32) {
	b := s.page.b[s.at:]
	binary.NativeEndian.PutUint64(b, thread)
	binary.NativeEndian.PutUint32(b[8:], interpreter)
	binary.NativeEndian.PutUint64(b[16:], j.raw+j.length)
}

// Move moves the repeats of s to the slot to. to must be unused and already have a copy of
// the n bytes of s.
func (j *Writer) Move(s, to *Slot, n int) {
	copy(to.page.b[to.at:to.at+slotUsed], s.page.b[s.at:])
	store(to.used, uint64(n))
	store(s.used, 0)
}

// Used sets the number of bytes used in s.
func (s *Slot) Used(n int) { storeFast(s.used, uint64(n)) }

// Sync syncs the journal. It may be called while another goroutine uses the journal.
func (j *Writer) Sync() error { return j.f.Sync() }

// Remove closes and deletes the journal. After that, accesses to its memory cause faults.
func (j *Writer) Remove() error {
	return errors.Join(ignoreMissing(os.Remove(j.path)), j.Close())
}

// Close unmaps and closes the journal. It does not delete the file.
func (j *Writer) Close() error {
	var errs []error
	for _, b := range j.chunks {
		errs = append(errs, unix.Munmap(b))
	}
	j.chunks = nil
	return errors.Join(append(errs, j.f.Close())...)
}
