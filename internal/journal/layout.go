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
//
//	point:  0 u64 offset, u64 samples, u64 bytes before compression,
//	       24 u32 threads, u32 CRC-32C, u32 1: a zstd frame is open here
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

import "errors"

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

	kindFree     = 0
	kindStrings  = 1
	kindFrames   = 2
	kindMetadata = 3
	minSlot      = 32 // bytes; smaller kinds are not slots
	maxSlot      = 16384

	pageHead = 64
	slotHead = 32
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

var (
	// ErrBusy says that another writer, or a recovery, is at work on the profile.
	ErrBusy = errors.New("another process is writing this profile")

	// ErrUnsupported says that the file system or this system cannot map files.
	ErrUnsupported = errors.New("files cannot be mapped here")
)
