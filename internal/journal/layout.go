// Package journal keeps what an unfinished profile needs to be finished: the
// writer's state, in a file beside the profile's that is mapped into memory and
// shared, so that it outlives the program whatever ends it. The kernel holds
// such pages; nothing is synced and no system call made to keep them up to date.
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
// Integers are in the byte order of the machine. The blocks of the file are
// reserved before they are mapped, so that a full disk is an error of the call
// that grows the journal rather than a fault of a store into it.
//
// # Control page
//
//	  0 u64 magic, stored when the rest of the page is there
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
// A durable point is a point that was synced, and in its last 16 bytes u64 a
// sequence number and u32 the CRC-32C of the 56 bytes before. When the system has
// been booted since, its buffers may be gone, and the latest of these points is
// what the profile and the tables are good for.
//
// The profile's sample region is good up to the offset of the current point.
// Everything that changes does so by one aligned store of 8 bytes, the commit word:
//
//	bits 0-23   length of the buffer
//	bits 24-55  a slot whose repeats are in the buffer already (its offset / 8), or 0
//	bits 56-63  generation; its lowest bit says which of the points is current
//
// A process can be killed between any two stores, but those before are in the
// file and those after are not. So a record is written behind the end of the
// buffer, then the word makes it count; and when the buffer has gone into the
// profile, the other point is written, then the word switches to it and empties
// the buffer at once. At no time is a record in two places or in none.
//
// # Pages
//
// A page starts with u64 kind, u64 bytes used, u64 sequence number; its content
// starts at 64. Those of kind strings and frames hold, in the order of their
// sequence numbers, the profile's tables in exactly their bytes. Those of kind
// metadata hold entries of a letter (P provisional, A added) and a string as in
// the string table; a provisional one counts as long as there is no later one
// of its kind. Any other kind is a size: the page holds slots with so many bytes.
//
//	slot:  0 u64 thread, u32 interpreter, u32 0
//	      16 u64 where in the decompressed samples the run began, u64 bytes used
//	      32     the thread's pending repeats: deltas and status bytes
//
// A thread that needs a larger slot has two for a moment, of which the longer
// one counts.
package journal

import (
	"encoding/binary"
	"errors"
	"os"

	"github.com/gotach/profiler/internal/wire"
)

// Suffix is what a journal's name has beyond the profile's.
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

// A Head is what a profile's header says from the start.
type Head struct {
	Layout          uint32
	Start, Interval uint64 // µs
	Compression     uint32
	Config          uint32
	Python          [3]uint8
	Stats           []byte // to stand before the footer; at most 64 bytes
}

// A Point is a place in the profile's sample region up to which it is good.
type Point struct {
	Offset  int64  // in the file
	Samples uint64 // up to there
	Raw     uint64 // bytes before compression
	Threads uint32 // that have a record up to there
	CRC     uint32 // CRC-32C of the region up to there
	Open    bool   // a zstd frame goes on here
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

// AfterStore is for tests: it is called after each store that makes a change
// count, which are the moments that a kill can tell apart. Not after those of
// Slot.Used, which are the last of the samples that they belong to.
var AfterStore func()

// boot returns the boot ID of the system, zero where it has none.
func boot() (id [bootSize]byte) {
	if b, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		copy(id[:], b)
	}
	return id
}

var (
	// ErrBusy says that another writer, or a recovery, is at work on the profile.
	ErrBusy = errors.New("another process is writing this profile")

	// ErrUnsupported says that the file system or this system cannot map files.
	ErrUnsupported = errors.New("files cannot be mapped here")
)
