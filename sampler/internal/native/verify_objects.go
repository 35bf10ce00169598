//go:build linux && (amd64 || arm64)

package native

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/own"
)

// checkObjects is one of the checks of verifyOffsets: of the fields that say what a goroutine waits
// for. Goroutines of our own wait for one object of each kind, whose address is known.
func (n *Source) checkObjects(l *goruntime.Layout) error {
	var (
		mutex sync.Mutex
		write sync.RWMutex
		group sync.WaitGroup
	)
	read := new(sync.RWMutex)
	cond := sync.NewCond(new(sync.Mutex))
	c, d := make(chan int, 3), make(chan int, 5)
	// The runtime's address of a channel is the value of the variable.
	at := func(channel *chan int) uint64 { return uint64(**(**uintptr)(unsafe.Pointer(&channel))) }
	waits := []struct {
		name string
		wait func()
		want uint64 // the address that the goroutine's sudog must have
		also uint64 // the one that its next sudog must have; 0: there is none
	}{
		{"channel", func() { <-c }, at(&c), 0},
		{"set of channels", func() {
			select {
			case <-c:
			case <-d:
			}
		}, min(at(&c), at(&d)), max(at(&c), at(&d))},
		{"Mutex", func() { mutex.Lock(); mutex.Unlock() }, uint64(uintptr(unsafe.Pointer(&mutex)) + l.MutexSema), 0},
		{"RWMutex", func() { write.Lock(); write.Unlock() }, uint64(uintptr(unsafe.Pointer(&write)) + l.RwWriterSema), 0},
		{"RWMutex", func() { read.RLock(); read.RUnlock() }, uint64(uintptr(unsafe.Pointer(read)) + l.RwReaderSema), 0},
		{"WaitGroup", func() { group.Wait() }, uint64(uintptr(unsafe.Pointer(&group)) + l.GroupSema), 0},
		{"Cond", func() { cond.L.Lock(); cond.Wait(); cond.L.Unlock() }, uint64(uintptr(unsafe.Pointer(cond)) + l.CondNotify), 0},
	}
	if !l.Semaphores {
		waits = waits[:2]
	}
	mutex.Lock()
	write.RLock()
	read.Lock()
	group.Add(1)
	defer func() {
		close(c)
		mutex.Unlock()
		write.RUnlock()
		read.Unlock()
		group.Done()
		cond.L.Lock()
		cond.Broadcast()
		cond.L.Unlock()
	}()
	gs := make(chan uintptr)
	for _, w := range waits {
		own.Ordinary(func() {
			gs <- mem.Getg()
			w.wait()
		})
		if g := <-gs; !n.parkedOn(l, g, w.want, w.also, w.name != "channel" && w.also == 0) {
			return fmt.Errorf("the %s that a goroutine waits for is not where it should be", w.name)
		}
	}
	if mem.ReadWord(uintptr(at(&c))+l.HchanSize) != 3 {
		return errors.New("a channel's capacity is not where it should be")
	}
	return nil
}

// parkedOn waits until a goroutine of ours is parked. It reports whether the goroutine's first
// sudog has the address want and, if also is not 0, the next and last one has also. A sudog has the
// address of a semaphore in another field than that of a channel; elem says that it is a semaphore.
func (n *Source) parkedOn(l *goruntime.Layout, g uintptr, want, also uint64, elem bool) bool {
	field := l.SudogC
	if elem {
		field = l.SudogElem
	}
	return n.whileParked(l, g, func() bool {
		// It may also wait for a lock within the object for a moment.
		first := uintptr(mem.ReadWord(g + l.GWaiting))
		if first == 0 || mem.ReadWord(first+field) != want {
			return false
		}
		next := uintptr(mem.ReadWord(first + l.SudogWaitLink))
		return also == 0 || next != 0 && mem.ReadWord(next+field) == also && mem.ReadWord(next+l.SudogWaitLink) == 0
	})
}

// whileParked waits until a goroutine of ours is parked, and calls right until it returns true. It
// returns false if it does not for long.
func (n *Source) whileParked(l *goruntime.Layout, g uintptr, right func() bool) bool {
	for end := (time.Time{}); end.IsZero() && n.patience.Lasts() || time.Now().Before(end); time.Sleep(20 * time.Microsecond) {
		switch {
		case uint32(mem.ReadWord(g+l.GStatus)) != goruntime.GWaiting || mem.ReadWord(g+l.GM) != 0: // it has had no core yet
		case right():
			return true
		case end.IsZero():
			end = n.patience.Wait()
		}
	}
	return false
}

// findPoll finds how far above sched.sp a goroutine in [IO wait] has the address of its pollDesc.
// It checks the fields of the pollDesc too. Goroutines of our own wait, one to read and one to
// write. After an error the session does not know which files and connections goroutines wait for,
// and is otherwise the same.
func (n *Source) findPoll(l *goruntime.Layout) (polls foundPolls, err error) {
	n.patience.Pause()
	// Two pipes: what is written to one would wake up who reads from it, and closing a file waits
	// until that goroutine has had a turn.
	var in, out [2]int
	if err := unix.Pipe2(in[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return polls, err
	}
	r := os.NewFile(uintptr(in[0]), "pipe")
	defer unix.Close(in[1])
	defer r.Close()
	if err := unix.Pipe2(out[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return polls, err
	}
	w := os.NewFile(uintptr(out[1]), "pipe")
	defer unix.Close(out[0]) // after w: the kernel sends SIGPIPE to who writes where nobody reads
	defer w.Close()
	read, err := n.pollsOf(l, in[0], l.PollRG, func() { r.Read(make([]byte, 1)) })
	if err != nil {
		return polls, err
	}
	write, err := n.pollsOf(l, out[1], l.PollWG, func() { w.Write(make([]byte, 1<<18)) }) // more than a pipe has room for
	if err != nil {
		return polls, err
	}
	for _, found := range read {
		// The one with the least distance is in the frame of the function that parks, which is the
		// same for all waits.
		also := slices.IndexFunc(write, func(f pollFound) bool { return f.at == found.at })
		if also < 0 || found.p%pollAlign != 0 || write[also].p%pollAlign != 0 {
			continue
		}
		for _, end := range [...]struct {
			file *os.File
			p    uint64
		}{{w, write[also].p}, {r, found.p}} {
			seq := mem.ReadWord(uintptr(end.p) + l.PollFDSeq)
			end.file.Close()
			// Others may have used it since.
			if uses := mem.ReadWord(uintptr(end.p)+l.PollFDSeq) - seq; uses == 0 || uses > 1000 {
				return polls, errors.New("the count of a descriptor's uses is not where it should be")
			}
		}
		return foundPolls{found.at, [2]uint64{found.p, write[also].p}}, nil
	}
	return polls, errors.New("a goroutine in [IO wait] has no address of a runtime.pollDesc at a fixed place")
}

// pollFound is where a goroutine's stack has a pollDesc's address: at bytes above sched.sp.
type pollFound struct{ at, p uint64 }

// pollsOf returns the places of the stack of a goroutine that waits in wait at which it has the
// address of its pollDesc, with the least distance first. The pollDesc has the goroutine in the
// given field, and the descriptor. Afterwards the goroutine has ended, or does so when the
// descriptor is closed.
func (n *Source) pollsOf(l *goruntime.Layout, fd int, field uintptr, wait func()) ([]pollFound, error) {
	tell := make(chan uintptr)
	own.Ordinary(func() {
		tell <- mem.Getg()
		wait()
	})
	g := <-tell
	var found []pollFound
	if n.whileParked(l, g, func() bool {
		sp, hi := uintptr(mem.ReadWord(g+l.GSchedSP)), uintptr(mem.ReadWord(g+l.GStackHi))
		words := make([]uint64, min(max(hi, sp)-sp, pollReach)/8)
		if mem.Read(sp, words) != nil {
			return false
		}
		for i, p := range words {
			if p >= 4096 && p%8 == 0 && mem.ReadWord(uintptr(p)+field) == uint64(g) && mem.ReadWord(uintptr(p)+l.PollFD) == uint64(fd) {
				found = append(found, pollFound{uint64(i) * 8, p})
			}
		}
		return len(found) > 0
	}) {
		return found, nil
	}
	return nil, errors.New("the runtime.pollDesc of a goroutine in [IO wait] is not where it should be")
}
