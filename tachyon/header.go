package tachyon

// Header is the first 64 bytes of a file, in either layout.
type Header struct {
	Layout       Layout
	Start        uint64 // µs, of the session: Unix time in gotach's files
	Interval     uint64 // µs between two ticks, as asked for
	Samples      uint64 // 32 bits on disk in Document
	Threads      uint32 // different (thread, interpreter) pairs
	StringOffset uint64
	FrameOffset  uint64
	Compression  uint32
	Python       [3]uint8 // CPython315: major, minor, micro
	Config       uint32   // CPython315: mode and features, see the package comment
	BigEndian    bool     // read only: the writer was big-endian
}

// Footer is the last 32 bytes of a file.
type Footer struct {
	Strings uint32
	Frames  uint32
	Size    uint64 // of the whole file
}

// Statistics says how a profile went, as CPython's profiler counts it. Only
// CPython's own files have it.
type Statistics struct {
	Duration  float64  // seconds
	Rate      float64  // samples a second
	ErrorRate *float64 // percent of samples that failed; nil is unknown
	Missed    *float64 // percent of samples missed; nil is unknown
}
