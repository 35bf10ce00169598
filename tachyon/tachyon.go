// Package tachyon is the Tachyon wire format: the document of itself that the
// writer and the reader both stand on.
//
// A Tachyon file holds the samples of one profiling session. Two layouts carry
// the same sample records: the format document's version 2 ([Document], what
// gotach writes) and version 1 as released with CPython 3.15 ([CPython315]).
//
//	+------------------+  0
//	| header           |  64 bytes; zero until the file is finished
//	+------------------+  64
//	| sample records   |  one zstd stream, or uncompressed
//	+------------------+  string table offset
//	| strings          |  length uvarint, bytes; in order of first use
//	+------------------+  frame table offset
//	| frames           |  in order of first use
//	+------------------+
//	| statistics       |  56 bytes, optional, CPython315 only
//	+------------------+  file size - 32
//	| footer           |  32 bytes
//	+------------------+
//
// Fixed-width integers are in the byte order of the machine that wrote the
// file; gotach always writes little-endian, so the magic lies on disk as
// "HCAT", and reads both. Varints are LEB128, signed ones zigzag first.
//
// # Header
//
//	Document                         CPython315
//	 0 u32 magic 0x54414348           0 u32 magic
//	 4 u32 version = 2                4 u32 version = 1
//	 8 u64 start, µs                  8 u8  Python major, minor, micro, 0
//	16 u64 interval, µs              12 u64 start, µs
//	24 u32 samples                   20 u64 interval, µs
//	28 u32 threads                   28 u64 samples
//	32 u64 string table offset       36 u32 threads
//	40 u64 frame table offset        40 u64 string table offset
//	48 u32 compression (1 = zstd)    48 u64 frame table offset
//	52     12 zero bytes             56 u32 compression
//	                                 60 u32 config: bits 0-2 mode+1 (0 unknown),
//	                                    bit 3 features known, bits 4-8 features
//
// # Sample records
//
// Every record starts with the thread id (u64), the interpreter id (u32) and
// the encoding (u8); see the Encoding constants. State is kept per (thread,
// interpreter): the previous time (at first the header's start) and the
// previous stack (at first empty).
//
//	REPEAT    count, then count times: delta uvarint, status u8
//	FULL      delta uvarint, status u8, depth, depth frame indices
//	SUFFIX    delta uvarint, status u8, shared, new, new frame indices
//	POP_PUSH  delta uvarint, status u8, pop, push, push frame indices
//
// Counts and indices are uvarints, frames are innermost first. SUFFIX keeps the
// outermost shared frames of the previous stack, POP_PUSH drops the innermost
// pop frames. A delta is the time since that thread's previous sample in
// microseconds; it wraps modulo 2^64. Because repeats are held back per thread,
// records of different threads are not in time order.
//
// # Frames
//
//	Document    file uvarint, function uvarint, line svarint
//	CPython315  the same, then svarint end line - line, svarint column,
//	            svarint end column - column, u8 opcode (255 = none)
//
// # Footer
//
//	0 u32 strings, 4 u32 frames, 8 u64 file size, 16 16 zero bytes
//
// # Metadata
//
// Strings after the last one that a frame uses are gotach's own: each is one
// JSON object whose first key is "gotach" (see [Metadata]). Readers that know
// nothing of them see strings that no frame names.
package tachyon

// These constants are part of the wire format and must not be changed.
const (
	Magic      = 0x54414348 // "TACH" in a big-endian file, "HCAT" in ours
	HeaderSize = 64
	FooterSize = 32

	CompressionNone = 0
	CompressionZstd = 1

	// MaxDepth is how many frames a writer keeps of a stack, the innermost
	// ones: CPython's reader rejects a file with a deeper one.
	MaxDepth = 256
)

// An Encoding says how a record gives its stack.
type Encoding = uint8

// The encodings of a sample record.
const (
	Repeat  Encoding = 0
	Full    Encoding = 1
	Suffix  Encoding = 2
	PopPush Encoding = 3
)

// A Layout is one of the two file layouts; its value is the version number on disk.
type Layout uint32

// The layouts.
const (
	CPython315 Layout = 1 // as CPython 3.15 was released with it
	Document   Layout = 2 // as the format document describes it
)

// String returns the name by which gotach's users know the layout.
func (l Layout) String() string {
	switch l {
	case CPython315:
		return "cpython315"
	case Document:
		return "document"
	}
	return "unknown"
}

// Status is a sample's thread state, a set of bits.
type Status uint8

// The status bits and what they say of a goroutine.
const (
	HasGIL       Status = 1 << iota // holds a P
	OnCPU                           // running
	Unknown                         // in a system call or C
	GILRequested                    // runnable, waiting for a P
	HasException                    // panicking
	MainThread                      // the main goroutine (bit 5, as in released CPython)
)

// A Frame is one entry of the frame table: a place in the source.
type Frame struct {
	File string // as the compiler recorded it
	Func string // as runtime.Frame.Function
	Line int32  // 0 or -1: no place in the source
	Span Span   // zero but in CPython's own files
}

// Span is what CPython315 says of a frame beyond its line. The zero value is
// what every Go frame has: no column, no opcode.
type Span struct {
	Lines   int32 // last line - Line
	Column  int32 // of the first byte, counting from 1; 0 is unknown
	Columns int32 // last column - Column
	Opcode  int16 // the opcode + 1; 0 is none
}

// A Sample is one stack of one goroutine (or thread) at one instant.
type Sample struct {
	Thread      uint64   // goroutine id
	Interpreter uint32   // 0 user goroutines, 1 the Go runtime's own
	Status      Status   // what it was doing
	Time        uint64   // µs on the clock of the header's start time
	Stack       []uint32 // indices into the frame table, innermost first
}
