// Package journal stores everything that is needed to finish an unfinished profile, which
// is the writer's state, in a file beside the profile. The file is mapped into memory as a
// shared mapping. So its pages belong to the kernel, and they survive any end of the
// program. Updates of the journal need no system call and no sync.
//
// The journal of app.tach is app.tach.journal. It exists while app.tach is written:
//
//	+------------------+  0
//	| control page     |
//	+------------------+  64 KB
//	| buffer           |  512 KB: the writer's, records not yet in the profile
//	+------------------+  576 KB
//	| pages            |  64 KB each: strings, frames, metadata, records, or slots
//	+------------------+  a multiple of 1 MB
//
// Integers have the byte order of the machine. The file's blocks are allocated before they
// are mapped. So a full disk causes an error of the call that grows the journal, not a
// memory fault of a store.
//
// # Control page
//
//	  0 u64 magic, stored after the rest of the page
//	  8 u32 version of this format, u32 layout of the profile
//	 16 u64 start, u64 interval, µs
//	 32 u32 compression, u32 config
//	 40 u8  Python major, minor, micro; 43 u8 bytes of statistics (0 or 56)
//	 64 u64 the commit word
//	128     two points, 64 bytes each
//	256     statistics
//	320     the boot ID of the system, 36 characters, or zero
//	384     two durable points, 64 bytes each
//
//	point:  0 u64 offset, u64 samples, u64 bytes before compression,
//	       24 u32 threads, u32 CRC-32C, u32 1: a zstd frame is open here
//
// A durable point is a point that was synced. Its last 16 bytes are a sequence number (u64),
// the CRC-32C of the 56 bytes before (u32) and 4 zero bytes. After a reboot, data in the
// system's buffers may be lost. Then the profile and the tables are valid only up to the
// latest durable point.
//
// The profile's sample region is valid up to the offset of the current point. Each change
// takes effect by one aligned store of 8 bytes, the commit word:
//
//	bits 0-23   length of the buffer
//	bits 24-55  offset / 8 of a slot whose repeats are already in the buffer, or 0
//	bits 56-63  generation; its lowest bit is the number of the current point
//
// A process can be killed between any two stores. The stores before that are in the file,
// the later ones are not. The writer first stores a record after the end of the buffer and
// then the word, which includes the record. After the writer has written the buffer to the
// profile, it stores the other point and then the word. This one store makes the other
// point current and empties the buffer. So a record is always in exactly one place.
//
// # Pages
//
// A page starts with its kind (u64), the number of bytes used (u64) and a sequence number (u64).
// Its content starts at 64. Pages of the kinds strings and frames contain the bytes of the
// profile's tables, in the order of the sequence numbers. Pages of the kind metadata contain
// entries: a letter (P provisional, A added) and a string as in the string table. A provisional
// entry is valid until there is a later entry with the same metadata kind. Pages of the kind blocks
// have the blocks of the profile's record section. Pages of the kind records have records that are
// in no block yet; 24 bytes after its start such a page has the number of bytes of records before
// it, in this session (u64). One store of "bytes used" makes a block whole. From then on its
// records count no more where they lie alone, and their pages are freed. The page of the kind
// progress has two places for the latest progress; the one with the higher sequence number counts,
// if its checksum is right. Page kinds from 32 on are a size in bytes: the page has slots of this
// size. Readers skip pages of other kinds.
//
//	place: 0 u64 sequence number, stored last, u32 length, u32 CRC-32C
//	      16     the progress, as JSON
//
//	slot:  0 u64 thread, u32 interpreter, u32 0
//	      16 u64 offset in the decompressed samples at which the run began, u64 bytes used
//	      32     the thread's pending repeats: deltas and status bytes
//
// While a thread moves to a larger slot it has two slots. The one with more bytes used is
// valid.
package journal

import (
	"encoding/binary"
	"errors"
	"os"

	"github.com/gotach/profiler/internal/wire"
)

// Suffix is the end of a journal's name, after the profile's name.
const Suffix = ".journal"

// The numbers of the layout. Package unfinished reads journals by them.
const (
	Magic   = 0x4c4e524a48434154 // "TACHJRNL" in little-endian order
	Version = 1

	PageSize   = 64 << 10
	BufferSize = 512 << 10 // size of the writer's buffer in bytes
	ChunkSize  = 1 << 20   // bytes by which a journal grows
	FirstPage  = 1 + BufferSize/PageSize

	AtVersion, AtLayout     = 8, 12
	AtStart, AtInterval     = 16, 24
	AtCompression, AtConfig = 32, 36
	AtPython, AtStatsSize   = 40, 43
	AtCommit                = 64
	AtPoints, PointSize     = 128, 64
	AtStats                 = 256
	AtBoot, BootSize        = 320, 36
	AtDurable, DurableSize  = 384, 64

	KindFree     = 0
	KindStrings  = 1
	KindFrames   = 2
	KindMetadata = 3
	KindRecords  = 4
	KindBlocks   = 5
	KindProgress = 6
	MinSlot      = 32    // bytes, smallest size of a slot
	MaxSlot      = 16384 // bytes, largest size of a slot

	PageHead = 64
	AtBefore = 24 // in a page of records

	PlaceSize = 16 << 10 // bytes between the two places of the progress
	PlaceHead = 16
	SlotHead  = 32
	slotUsed  = 24
)

// The fields of a commit word.
const (
	LengthBits = 24
	slotBits   = 32
	GenShift   = LengthBits + slotBits
	LengthMask = 1<<LengthBits - 1
	SlotMask   = 1<<slotBits - 1
)

// A Head is the part of a profile's header that is known at the start.
type Head struct {
	Layout          uint32
	Start, Interval uint64 // µs
	Compression     uint32
	Config          uint32
	Python          [3]uint8
	Stats           []byte // the statistics block; at most 64 bytes
}

// A Point is a position up to which the profile's sample region is valid.
type Point struct {
	Offset  int64  // in the file, in bytes
	Samples uint64 // number of samples before the point
	Raw     uint64 // bytes before the point, before compression
	Threads uint32 // number of threads that have a record before the point
	CRC     uint32 // CRC-32C of the region before the point
	Open    bool   // the point is inside a zstd frame
}

// put writes a point's 36 bytes.
func (p *Point) put(b []byte) {
	ne := binary.NativeEndian
	ne.PutUint64(b, uint64(p.Offset))
	ne.PutUint64(b[8:], p.Samples)
	ne.PutUint64(b[16:], p.Raw)
	ne.PutUint32(b[24:], p.Threads)
	ne.PutUint32(b[28:], p.CRC)
	open := uint32(0)
	if p.Open {
		open = 1
	}
	ne.PutUint32(b[32:], open)
}

// putDurable writes a durable point's 64 bytes.
func (p *Point) putDurable(b []byte, seq uint64) {
	p.put(b)
	binary.NativeEndian.PutUint64(b[48:], seq)
	binary.NativeEndian.PutUint32(b[56:], wire.CRC(0, b[:56]))
}

// AfterStore is a hook for tests. It is called after each store that makes a change take
// effect: a kill at another moment has the same result as a kill at one of these. It is not
// called after the stores of Slot.Used, which are always the last stores for a sample.
var AfterStore func()

// Boot returns the boot ID of the system, or zero bytes if the system has none.
func Boot() (id [BootSize]byte) {
	if b, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		copy(id[:], b)
	}
	return id
}

var (
	// ErrBusy is the error for a profile that another process is writing or recovering.
	ErrBusy = errors.New("another process is writing this profile")

	// ErrUnsupported is the error on a system or file system that cannot map files.
	ErrUnsupported = errors.New("this system or file system cannot map files into memory")
)
