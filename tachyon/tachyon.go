// Package tachyon has the types that a profile in the Tachyon format is made of,
// and describes the format. Package reader reads such files, package writer
// writes them.
//
//	r, err := reader.Open("app.tach")
//	…
//	frames := r.Frames()
//	for s, err := range r.Samples() { // s is a *tachyon.Sample
//		…
//		if s.Status&tachyon.OnCPU != 0 && len(s.Stack) > 0 {
//			fmt.Println(s.Thread, frames[s.Stack[0]].Func)
//		}
//	}
//
// All times are unsigned numbers of microseconds. A goroutine is a thread of the
// format, by its goroutine id.
//
// # Layouts
//
// A file holds the samples of one profiling session, or of a part of one. Two
// layouts carry the same sample records: version 2 of the format's document
// ([Document]), which gotach writes, and version 1 ([CPython315]), which CPython
// 3.15 was released with.
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
// Fixed-width integers have the byte order of the machine that wrote the file.
// gotach reads both orders and always writes little-endian: its files start with
// the bytes "HCAT". Varints (uvarint) are LEB128, signed ones (svarint) zigzag
// first.
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
// the encoding (u8). State is kept per (thread, interpreter): the previous time
// (at first the header's start) and the previous stack (at first empty).
//
//	0 REPEAT    count, then count times: delta uvarint, status u8
//	1 FULL      delta uvarint, status u8, depth, depth frame indices
//	2 SUFFIX    delta uvarint, status u8, shared, new, new frame indices
//	3 POP_PUSH  delta uvarint, status u8, pop, push, push frame indices
//
// Counts and indices are uvarints, frames are innermost first. SUFFIX keeps the
// outermost shared frames of the previous stack, POP_PUSH drops the innermost
// pop frames. A delta is the time since that thread's previous sample in
// microseconds; it wraps modulo 2^64. Writers hold repeats back per thread, so
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
// Strings after the last one that a frame uses hold gotach's metadata: each is one
// JSON object whose first key is "gotach" (see [Metadata]). To other readers they
// are strings that no frame uses.
package tachyon

// These constants are part of the wire format and must not be changed.
const (
	Magic      = 0x54414348 // "TACH" in a big-endian file, "HCAT" in a little-endian one
	HeaderSize = 64
	FooterSize = 32

	CompressionNone = 0
	CompressionZstd = 1

	// MaxDepth is how many frames of a stack are written, the innermost ones.
	// CPython's reader rejects files with deeper stacks.
	MaxDepth = 256
)

// A Layout is one of the two file layouts. Its value is the version number in the file.
type Layout uint32

// The layouts.
const (
	CPython315 Layout = 1 // of released CPython 3.15
	Document   Layout = 2 // of the format's document; gotach's own
)

// String returns "document", "cpython315" or "unknown".
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

// The status bits. CPython's names are kept; the comments say what they mean for
// a goroutine.
const (
	HasGIL       Status = 1 << iota // holds a P: runs Go code
	OnCPU                           // used a core, by the kernel's clocks
	Unknown                         // in a system call or C
	GILRequested                    // runnable, waiting for a P
	HasException                    // panicking
	MainThread                      // the main goroutine (bit 5, as in CPython 3.15)
)

// A Frame is one entry of the frame table: a place in the source. A waiting
// goroutine's innermost frame has no file: its function is the reason in brackets,
// such as "[chan receive]", and its line the number of the object waited for, 0
// for none.
type Frame struct {
	File string // as the compiler recorded it
	Func string // as runtime.Frame.Function
	Line int32  // 0 or -1 if the frame has no place in the source
	Span Span   // zero except in CPython's own files
}

// A Span says more than the line about a frame in the layout CPython315. Go frames
// have the zero value: no column, no opcode.
type Span struct {
	Lines   int32 // last line - Line
	Column  int32 // of the first byte, counting from 1; 0 is unknown
	Columns int32 // last column - Column
	Opcode  int16 // the opcode + 1; 0 is none
}

// A Sample is one stack of one goroutine, or of one thread of another language, at
// one instant. How long it stands for is reader.Weighted's to say.
type Sample struct {
	Thread      uint64 // goroutine id
	Interpreter uint32 // 0 user goroutines, 1 the Go runtime's own
	Status      Status
	Time        uint64   // µs on the clock of the header's start time
	Stack       []uint32 // indices into the frame table, innermost first
}
