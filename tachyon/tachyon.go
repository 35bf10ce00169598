// Package tachyon has the types of a profile, and the format. Its API is not promised (v0), but the
// format is: see docs/compatibility.md. Package writer writes such files, and package reader is for
// programs that compute something from them.
//
// All times are unsigned numbers of microseconds. The format's threads are goroutines; the thread
// id is the goroutine id.
//
// # Layouts
//
// A file holds the samples of one profiling session, or of a part of a session. There are
// two layouts with the same sample records: version 2 ([Document]) is that of the format's
// document, and gotach writes it; version 1 ([CPython315]) is that of the released CPython
// 3.15.
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
//	| records          |  optional, gotach's own: see Record section
//	+------------------+
//	| statistics       |  56 bytes, optional, CPython315 only
//	+------------------+  file size - 32
//	| footer           |  32 bytes
//	+------------------+
//
// Fixed-width integers have the byte order of the machine that wrote the file. gotach reads
// both byte orders and always writes little-endian, so its files start with the bytes
// "HCAT". Varints (uvarint) are LEB128. Signed varints (svarint) are zigzag-encoded first.
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
// Every record starts with the thread id (u64), the interpreter id (u32) and the encoding
// (u8). Readers and writers keep a state for each pair of thread and interpreter: the
// previous time (at first the header's start) and the previous stack (at first empty).
//
//	0 REPEAT    count, then count times: delta uvarint, status u8
//	1 FULL      delta uvarint, status u8, depth, depth frame indices
//	2 SUFFIX    delta uvarint, status u8, shared, new, new frame indices
//	3 POP_PUSH  delta uvarint, status u8, pop, push, push frame indices
//
// Counts and indices are uvarints. No time is after [MaxTime]. Frames are innermost first. SUFFIX
// keeps the outermost frames of the previous stack; shared is their number. POP_PUSH drops the
// innermost frames of the previous stack; pop is their number. A delta is the time since that
// thread's previous sample in microseconds; it wraps modulo 2^64. Writers hold repeats back per
// thread, so records of different threads are not in time order.
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
// gotach's metadata are strings after the last string that a frame uses. Each is one JSON
// object whose first key is "gotach" (see [Metadata]). Other readers see strings that no
// frame uses.
//
// # Record section
//
// The record section has the metadata that grow with the program's life. It is between the
// frame table and the statistics or the footer, where readers of the document do not look. A
// metadata object of the kind "records" has its version, offset, length and checksum (see
// [Section]). A reader that does not know the version skips the section.
//
// The section is a sequence of blocks. Each block can be read without the others.
//
//	0 u32 stored bytes, 4 u32 bytes of records, 8 u32 CRC-32C of the stored bytes
//	12    the stored bytes: the records if both lengths are equal, otherwise one zstd frame
//
// Fixed-width integers are little-endian. A record is its length (uvarint, without the length
// itself), its kind (u8) and its content. Readers skip records of unknown kinds, and unknown
// bytes at the end of a record.
//
//	1 string     the text of the block's next string; the first one has the number 1
//	2 goroutine  id svarint, flags u8, then in this order:
//	             1 parent svarint, 2 created by ref, 4 created at ref, 8 first svarint,
//	             (always) last svarint, 16 first weight uvarint,
//	             32 spans uvarint, for each: from svarint, labels uvarint, for each: key ref, value ref
//	3 progress   a JSON object (see [Progress]); it replaces the previous one
//	4 object     a JSON object (see [Object]); it replaces a previous one with the same number
//	5 stops      until uvarint, goroutines uvarint, for each: difference of the id from the one before uvarint;
//	             then for each: stops << 1 | at least uvarint (see [Stops])
//
// A field whose flag is not set is 0 or empty. A ref is a uvarint: the number of a string, or 0
// and then the text itself with its length (uvarint) before it. An svarint is the difference
// from a previous value of the block, 0 at first, modulo 2^64: id from the previous record's id;
// parent from the previous parent; first from the reference time; last from first, or without it
// from the reference time; from of the first span like last, of other spans from the previous
// span. The reference time is the previous record's first, or its last if it had no first.
// A goroutine may have several records (see [Records]).
package tachyon

// These constants are part of the wire format and must not be changed.
const (
	Magic      = 0x54414348 // "TACH" in a big-endian file, "HCAT" in a little-endian one
	HeaderSize = 64
	FooterSize = 32

	CompressionNone = 0
	CompressionZstd = 1

	// MaxDepth is the most frames of a stack that are written; deeper stacks keep the
	// innermost ones. CPython's reader rejects files with deeper stacks.
	MaxDepth = 256

	// MaxTime is the latest time and the longest length of time of a file, in µs. As Unix time it
	// is in the year 2255. Readers refuse files with later ones: they are damaged, and sums of
	// their times would not fit into 64 bits.
	MaxTime = 1 << 53
)

// A Layout is one of the two file layouts. Its value is the version number in the file.
type Layout uint32

// The layouts.
const (
	CPython315 Layout = 1 // the layout of the released CPython 3.15
	Document   Layout = 2 // the layout of the format's document, gotach's default
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

// The status bits except Moved have CPython's names. The comments give their meanings for a
// goroutine.
//
//	HasGIL|OnCPU   runs on a core
//	HasGIL         runs for the Go scheduler, but the kernel gives its thread no core
//	GILRequested   runnable, waits for a P
//	Unknown|OnCPU  in a system call or C, on a core
//	Unknown        blocked in a system call or C
//	none of these  waits
//
// The weights of the samples with OnCPU add up to the CPU time of the process.
//
// Moved tells one long wait from several waits at the same place. If the stack or the state differs
// from the previous sample's, the goroutine has moved too, and the bit is not needed. The native
// source sets it for goroutines that wait or are runnable, not for those in system calls. The
// portable source does not know.
const (
	HasGIL       Status = 1 << iota // holds a P
	OnCPU                           // used a core for the sample's weight, by the kernel's clocks
	Unknown                         // in a system call or C
	GILRequested                    // runnable, waiting for a P
	HasException                    // panicking
	MainThread                      // the main goroutine (bit 5, as in CPython 3.15)
	Moved                           // has run since its previous sample, which has the same stack and state
)

// A Frame is one entry of the frame table: a place in the source. The innermost frame of a waiting
// or runnable goroutine has no file. Its function is the reason for the wait in brackets, such as
// "[chan receive]". Its line is the number of the object that the goroutine waits for, or 0 if
// there is none. A goroutine that waits for a P has "[runnable]" there. One that has not run yet
// has "[runnable, not started]", and one more frame: the function that its go statement calls.
type Frame struct {
	File string // as the compiler recorded it
	Func string // as runtime.Frame.Function
	Line int32  // 0 or -1 if the frame has no place in the source
	Span Span   // zero except in CPython's own files
}

// A Span adds columns, lines and the opcode to a frame in the layout CPython315. Go frames
// have the zero value: no column, no opcode.
type Span struct {
	Lines   int32 // last line - Line
	Column  int32 // column of the first byte, from 1; 0 is unknown
	Columns int32 // last column - Column
	Opcode  int16 // the opcode + 1; 0 is none
}

// A Sample is one stack of one goroutine, or of one thread of another language, at one
// instant. Package reader says how much time it stands for.
type Sample struct {
	Thread      uint64 // goroutine id; from FirstPseudo on if Interpreter is Process
	Interpreter uint32 // User, Runtime or Process
	Status      Status
	Time        uint64   // µs on the clock of the header's start time
	Stack       []uint32 // indices into the frame table, innermost first
}

// The interpreters of files that gotach records. In CPython's own files an interpreter is one
// of Python's.
const (
	User    = 0 // goroutines of the program
	Runtime = 1 // goroutines of the Go runtime, such as those of its garbage collector
	// Process has CPU time that no known goroutine used. Its threads are no goroutines. The
	// outermost frame of a stack is [scheduler], [C threads], [profiler] or [unknown goroutine].
	// There is one thread for each core's worth of a kind.
	Process = 2

	FirstPseudo = 1 << 62 // the first thread id of Process
)

// Functions of frames that are no place in the source, besides the reasons for waits.
const (
	FuncRunnable   = "[runnable]"              // the goroutine waits for a P
	FuncNotStarted = "[runnable, not started]" // it has not run yet
	FuncScheduler  = "[scheduler]"             // CPU time of the runtime outside goroutines
	FuncC          = "[C threads]"             // CPU time of threads that C started
	FuncProfiler   = "[profiler]"              // CPU time of the profiler itself
	FuncUnknown    = "[unknown goroutine]"     // CPU time of goroutines that had ended, or are not known
	FuncNotSeen    = "[not seen]"              // time of Counts.NotSeen
	FuncNoSymbols  = "[code without symbols]"  // code that Go has no tables for, such as that of a just-in-time compiler
	FuncNotRead    = "[stack not read]"        // the goroutine ran, but nothing more is known
)

// A Header is the first 64 bytes of a file, in either layout.
type Header struct {
	Layout       Layout
	Start        uint64   // start of the file, in µs; Unix time in gotach's files
	Interval     uint64   // µs between two ticks, as asked for
	Samples      uint64   // number of samples; at most 2^32-1 in Document
	Threads      uint32   // number of different pairs of thread and interpreter
	StringOffset uint64   // file offset of the string table, in bytes
	FrameOffset  uint64   // file offset of the frame table, in bytes
	Compression  uint32   // CompressionNone or CompressionZstd, for the sample records
	Python       [3]uint8 // CPython315: major, minor, micro
	Config       uint32   // CPython315: mode and features, see the package comment
	BigEndian    bool     // the file's byte order; writers ignore it
}

// Statistics are the counts of CPython's profiler for one profile. Only CPython's own files
// have them.
type Statistics struct {
	Duration  float64  // seconds
	Rate      float64  // samples a second
	ErrorRate *float64 // percent of samples that failed; nil is unknown
	Missed    *float64 // percent of samples missed; nil is unknown
}
