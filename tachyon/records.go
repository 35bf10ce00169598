package tachyon

import "time"

// Records are metadata that a sampler learns while it runs. They go into the record section of
// the file as they become known, so nobody has to keep them, and a killed program's file has them.
type Records struct {
	// Goroutines are parts of goroutines' metadata. The first part of a goroutine has all that is
	// known so far. Each further part has the ID, the present Last, and the label spans that are
	// new. A goroutine without a further part after its last sample was alive at the end. So if it
	// waited then, readers of an unfinished file add a sample to it, at the time of the latest
	// progress.
	Goroutines []Goroutine

	// Objects are what goroutines wait for. An object replaces a previous one with the same
	// number.
	Objects []Object

	// Stops counts from where the previous one ended, or from the file's start. nil: nothing new.
	Stops *Stops

	// Progress replaces the previous one. nil: nothing new.
	Progress *Progress
}

// Progress is the part of a [Session] that changes while the session runs. It counts only in
// a file that was not finished; a finished file has a complete Session.
type Progress struct {
	Duration     time.Duration `json:"duration_ns"`
	Source       string        `json:"source"`
	SourceReason string        `json:"source_reason,omitempty"`
	RateReached  float64       `json:"rate_reached"`
	// As in Session.
	Objects        string `json:"objects,omitempty"`
	ObjectsUnnamed string `json:"objects_unnamed,omitempty"`
	Stops          bool   `json:"stops,omitempty"`
	FarEndsUnknown string `json:"far_ends_unknown,omitempty"`
	Kept           string `json:"kept,omitempty"`
	Counts
}

// Describe copies p into a session.
func (p *Progress) Describe(s *Session) {
	s.Duration, s.Source, s.SourceReason = p.Duration, p.Source, p.SourceReason
	s.RateReached, s.Counts = p.RateReached, p.Counts
	s.Objects, s.ObjectsUnnamed, s.FarEndsUnknown, s.Stops, s.Kept = p.Objects, p.ObjectsUnnamed, p.FarEndsUnknown, p.Stops, p.Kept
}

// Stops says how often goroutines stopped running in a time: they began to wait, were preempted, or
// came out of a system call without a processor to run on. The time begins where that of the
// previous record with an earlier Until ends.
type Stops struct {
	Until uint64           `json:"until_us"` // µs since the file's start
	List  []GoroutineStops `json:"list"`     // ascending ids; goroutines that are not in it did not stop. Empty: nothing is known of the time
}

// GoroutineStops says how often one goroutine stopped running. It is counted from visit to visit.
// So what was before the goroutine's first sample or after its last one is missing.
type GoroutineStops struct {
	ID uint64 `json:"id"`
	N  uint64 `json:"n"`
	// AtLeast says that it may have stopped more often. The runtime's counter has eight bits, and
	// between two visits it may have passed zero.
	AtLeast bool `json:"at_least,omitempty"`
}

// Add merges a part of a goroutine's metadata into g, which has the parts before it.
func (g *Goroutine) Add(part *Goroutine) {
	g.Last = max(g.Last, part.Last)
	g.Labels = append(g.Labels, part.Labels...)
}

// A Section says where a file's record section is.
type Section struct {
	Version int    `json:"version"` // RecordsVersion
	Offset  int64  `json:"offset"`  // in the file, in bytes
	Length  int64  `json:"length"`  // bytes
	CRC32C  uint32 `json:"crc32c"`  // of these bytes
}

// RecordsVersion is the version of record sections that this package describes.
const RecordsVersion = 1

// An Object is what goroutines wait for: a lock, a channel and the like. The line of a waiting
// goroutine's innermost frame is the object's number. The number is 0 where only one goroutine
// was seen waiting for the object, and where the sampler does not know the object: the native
// source knows all kinds since Go 1.26, and with Go 1.25 channels only (Session.Objects). The
// portable source knows none. The number is also 0 for objects that many programs make for each
// request: after the first few hundred objects in the heap, further ones get a number only if they
// live for more than a second, and only some a second do.
//
// A number stays the same in all files of a session. After the memory of an object was freed,
// another object at the same address has another number, as far as the sampler can tell: if it
// is of another kind, or a channel of another capacity, or goroutines wait for it whose stacks
// have no function in common with those that waited for the first one.
type Object struct {
	Number int32  `json:"n"`    // from 1
	Kind   string `json:"kind"` // one of the constants below
	Addr   uint64 `json:"addr,omitempty"`

	// Static is the link-time address of an object that lies in a variable of the program; 0
	// means that it does not. Symbol is that variable as the executable's symbol table has it,
	// such as "main.cache", and Offset the distance in bytes from its start to the object. Symbol
	// is "" if the executable has no symbols (Session.ObjectsUnnamed), or if the program was
	// killed within about a second after the object got its number.
	Static uint64 `json:"static,omitempty"`
	Symbol string `json:"symbol,omitempty"`
	Offset uint64 `json:"offset,omitempty"`

	// Name says what a connection, listener, pipe or file is, such as "tcp 10.2.3.4:5432",
	// "unix /run/db.sock" or "file /dev/tty". All connections to one address are one object. Of
	// connections that the program has accepted, those of one host to one port are one object:
	// "tcp :8080 from 10.2.3.4". These objects have no address, and a number as soon as one
	// goroutine waits for them.
	Name string `json:"name,omitempty"`

	Capacity int64   `json:"capacity,omitempty"` // of a channel; -1 is unknown
	Members  []int32 `json:"members,omitempty"`  // of a select: the numbers of its channels that have one, at least two
}

// The kinds of objects. Readers and writers that wait for a RWMutex wait for one object, and so
// do writers that wait for the Mutex inside it. The address is that of the value: of the
// sync.Mutex, not of the semaphore in it.
const (
	ObjectMutex     = "sync.Mutex"
	ObjectRWMutex   = "sync.RWMutex"
	ObjectWaitGroup = "sync.WaitGroup"
	ObjectCond      = "sync.Cond"
	ObjectSemaphore = "semaphore" // of another package of the standard library, such as that of a file
	ObjectChannel   = "chan"
	ObjectSelect    = "select" // a set of channels
)

// The kinds of objects for which goroutines wait in [IO wait]: what a file descriptor refers to, at
// the other end of a connection. The native source knows them unless Session.FarEndsUnknown says
// why not.
const (
	ObjectConnection = "connection"
	ObjectListener   = "listener" // a socket that accepts connections, or to which anybody may send
	ObjectPipe       = "pipe"
	ObjectFile       = "file" // a terminal, a named pipe, or what the kernel has no path for, such as a pidfd
)

// The values of Session.Objects.
const (
	AllObjects   = "all"
	OnlyChannels = "channels"
)
