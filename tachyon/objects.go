package tachyon

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
