package tachyon

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
