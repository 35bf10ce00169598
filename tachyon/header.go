package tachyon

// A Header is the first 64 bytes of a file, in either layout.
type Header struct {
	Layout       Layout
	Start        uint64   // µs, of the session: Unix time in gotach's files
	Interval     uint64   // µs between two ticks, as asked for
	Samples      uint64   // at most 2^32-1 in Document
	Threads      uint32   // different pairs of thread and interpreter
	StringOffset uint64   // of the string table in the file, in bytes
	FrameOffset  uint64   // of the frame table
	Compression  uint32   // of the sample records: CompressionNone or CompressionZstd
	Python       [3]uint8 // CPython315: major, minor, micro
	Config       uint32   // CPython315: mode and features, see the package comment
	BigEndian    bool     // the file's byte order; writers ignore it
}

// Statistics says how a profile went, as CPython's profiler counts it. Only
// CPython's own files have it.
type Statistics struct {
	Duration  float64  // seconds
	Rate      float64  // samples a second
	ErrorRate *float64 // percent of samples that failed; nil is unknown
	Missed    *float64 // percent of samples missed; nil is unknown
}
