//go:build linux && (amd64 || arm64)

package native

import (
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

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
	waited := false
	for end := n.patience.Wait(); !waited && n.patience.Lasts() || time.Now().Before(end); time.Sleep(20 * time.Microsecond) {
		if uint32(mem.ReadWord(g+l.GStatus)) != goruntime.GWaiting || mem.ReadWord(g+l.GM) != 0 {
			continue // it has had no core yet
		}
		waited = true
		// It may also wait for a lock within the object for a moment.
		first := uintptr(mem.ReadWord(g + l.GWaiting))
		if first == 0 || mem.ReadWord(first+field) != want {
			continue
		}
		if also == 0 {
			return true
		}
		next := uintptr(mem.ReadWord(first + l.SudogWaitLink))
		return next != 0 && mem.ReadWord(next+field) == also && mem.ReadWord(next+l.SudogWaitLink) == 0
	}
	return false
}
