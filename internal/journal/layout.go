// Package journal keeps everything that is needed to finish an unfinished profile:
// the writer's state, in a file beside the profile. The file is mapped into memory
// and shared, so its pages belong to the kernel and survive the program, however it
// ends. Keeping them up to date takes no system call and no sync.
//
// While app.tach is written, app.tach.journal lies beside it:
//
//	+------------------+  0
//	| control page     |
//	+------------------+  64 KB
//	| buffer           |  512 KB: the writer's, records not yet in the profile
//	+------------------+  576 KB
//	| pages            |  64 KB each: strings, frames, metadata, or slots
//	+------------------+  a multiple of 1 MB
//
// Integers are in the byte order of the machine. The file's blocks are reserved
// before they are mapped: a full disk is an error of the call that grows the journal,
// not a fault of a store into it.
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
// A durable point is a point that was synced. Its last 16 bytes are u64 a sequence
// number and u32 the CRC-32C of the 56 bytes before. After a reboot the system's
// buffers may be lost, and profile and tables are valid only up to the latest durable
// point.
//
// The profile's sample region is valid up to the offset of the current point. Every
// change takes effect by one aligned store of 8 bytes, the commit word:
//
//	bits 0-23   length of the buffer
//	bits 24-55  a slot whose repeats are in the buffer already (its offset / 8), or 0
//	bits 56-63  generation; its lowest bit says which of the points is current
//
// A process can be killed between any two stores: those before are in the file, those
// after are not. A record is written after the end of the buffer, and then the word
// includes it. After the buffer was written to the profile, the other point is
// written, and then the word switches to it and empties the buffer in one store. So a
// record is never in two places or in none.
//
// # Pages
//
// A page starts with u64 kind, u64 bytes used, u64 sequence number; its content
// starts at 64. Those of kind strings and frames hold, in the order of their
// sequence numbers, the profile's tables in exactly their bytes. Those of kind
// metadata hold entries of a letter (P provisional, A added) and a string as in
// the string table; a provisional one counts as long as there is no later one
// of its kind. Any other kind is a size: the page holds slots of so many bytes.
//
//	slot:  0 u64 thread, u32 interpreter, u32 0
//	      16 u64 offset in the decompressed samples at which the run began, u64 bytes used
//	      32     the thread's pending repeats: deltas and status bytes
//
// A thread that needs a larger slot has two for a moment. The one with more bytes
// counts.
package journal

import (
	"encoding/binary"
	"errors"
	"os"

	"github.com/gotach/profiler/internal/wire"
)

// Suffix is added to the profile's name to make the journal's.
const Suffix = ".journal"

const (
	magic   = 0x4c4e524a48434154 // "TACHJRNL" where the lowest byte comes first
	version = 1

	pageSize   = 64 << 10
	BufferSize = 512 << 10 // of the writer's buffer
	chunkSize  = 1 << 20   // by which a journal grows
	firstPage  = 1 + BufferSize/pageSize

	atVersion, atLayout     = 8, 12
	atStart, atInterval     = 16, 24
	atCompression, atConfig = 32, 36
	atPython, atStatsSize   = 40, 43
	atCommit                = 64
	atPoints, pointSize     = 128, 64
	atStats                 = 256
	atBoot, bootSize        = 320, 36
	atDurable, durableSize  = 384, 64

	kindFree     = 0
	kindStrings  = 1
	kindFrames   = 2
	kindMetadata = 3
	minSlot      = 32 // bytes; smaller kinds are not slots
	maxSlot      = 16384

	pageHead = 64
	slotHead = 32
	slotUsed = 24
)

// commit words
const (
	lengthBits = 24
	slotBits   = 32
	genShift   = lengthBits + slotBits
	lengthMask = 1<<lengthBits - 1
	slotMask   = 1<<slotBits - 1
)

// A Head is the part of a profile's header that is known from the start.
type Head struct {
	Layout          uint32
	Start, Interval uint64 // µs
	Compression     uint32
	Config          uint32
	Python          [3]uint8
	Stats           []byte // the statistics block; at most 64 bytes
}

// A Point is a place in the profile's sample region up to which it is valid.
type Point struct {
	Offset  int64  // in the file
	Samples uint64 // up to there
	Raw     uint64 // bytes before compression
	Threads uint32 // that have a record up to there
	CRC     uint32 // CRC-32C of the region up to there
	Open    bool   // inside a zstd frame
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

// durable returns the latest durable point in a control page.
func durable(b []byte) (p Point, ok bool) {
	latest := uint64(0)
	for n := range 2 {
		d := b[atDurable+n*durableSize:][:durableSize]
		seq := binary.NativeEndian.Uint64(d[48:])
		if seq > latest && binary.NativeEndian.Uint32(d[56:]) == wire.CRC(0, d[:56]) {
			p, ok, latest = readPoint(d), true, seq
		}
	}
	return p, ok
}

// AfterStore is for tests. It is called after each store by which a change takes
// effect: kills at other moments have no other results. It is not called after the
// stores of Slot.Used, which are the last ones of their samples.
var AfterStore func()

// boot returns the boot ID of the system, zero where it has none.
func boot() (id [bootSize]byte) {
	if b, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		copy(id[:], b)
	}
	return id
}

var (
	// ErrBusy is the error for a profile that another process writes or recovers.
	ErrBusy = errors.New("another process is writing this profile")

	// ErrUnsupported is the error of a system or file system that cannot map files.
	ErrUnsupported = errors.New("files cannot be mapped here")
)
