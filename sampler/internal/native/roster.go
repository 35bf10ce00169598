//go:build linux && (amd64 || arm64)

package native

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
	"os"
)

// roster is the handler's own copy of runtime.allgs and runtime.allp. The
// runtime never frees a g or a P and never moves one in its list, so what has been
// copied stays true; only what was added since is read again. So the handler
// depends on no array that the runtime may replace, and on no Go pointer.
type roster struct {
	s           *shared
	l           *layout
	allgs, allp sliceAt
	chunks      []mapping
	index       map[uint64]uint32 // by g
	read        uint64            // how many of allgs have been taken in or, beyond maxTracked, not
	left        uint64            // of these, left out
	ptr         uintptr           // allgs as last read
	cap         uint64
	known       bool   // ptr and cap were read twice
	at          uint64 // when all that there were had been taken in, on the handler's clock
}

// refresh takes in the goroutines and Ps that came since the last time.
func (r *roster) refresh() error {
	if err := r.refreshProcs(); err != nil {
		return err
	}
	have, now := r.read, monotonicNow()
	// The runtime writes the three words of allgs one by one. A capacity that
	// was read along with the same pointer twice, at different times, belongs to it.
	ptr, n, c := r.allgs.header()
	if ptr != r.ptr || c != r.cap {
		r.ptr, r.cap, r.known = ptr, c, false
		if have > 0 {
			return nil // at the next refresh
		}
		ptr2, n2, c2 := r.allgs.header()
		if ptr2 != ptr || c2 != c || n2 < n {
			return fmt.Errorf("the list of goroutines changes too fast")
		}
	}
	r.known = true
	if n > c || n < have {
		return nil
	}
	if have == 0 {
		r.index = make(map[uint64]uint32, min(n, uint64(maxTracked)))
	}
	var gs [checked]uint64
	for have < n {
		if len(r.index) >= maxTracked {
			r.left += n - have
			r.read, r.at = n, now
			return nil
		}
		k := min(n-have, uint64(len(gs)))
		if err := read(ptr+uintptr(have)*8, gs[:k]); err != nil {
			return err
		}
		good, err := r.check(gs[:k])
		if err != nil {
			return err
		}
		for _, g := range gs[:good] {
			if err := r.include(g); err != nil {
				return err
			}
			have++
			r.read = have
		}
		if uint64(good) < k {
			return nil // not one yet, perhaps at the next refresh
		}
	}
	r.at = now
	return nil
}

// maxTracked is how many goroutines of the runtime's list are followed. Each takes some
// 600 bytes, of roster, drain and what is downstream, so all take 160 MB at most; a Stop
// that visits them once more takes about a second. Of a program with more the others
// are seen when they run.
var maxTracked = 1 << 18 // less in tests

// include takes in one goroutine, beyond maxTracked too, up to the same number again.
func (r *roster) include(g uint64) error {
	if _, ok := r.index[g]; ok {
		return nil
	}
	i := len(r.index)
	if i >= min(2*maxTracked, maxChunks*chunkSize) {
		return errFull
	}
	if err := r.add(uint32(i), g); err != nil {
		return err
	}
	storeRelease(uintptr(unsafe.Pointer(&r.s.goroutines)), uint64(i)+1)
	return nil
}

var errFull = errors.New("too many goroutines")

// behind reports whether there are goroutines that have not been taken in.
func (r *roster) behind() bool {
	_, n, _ := r.allgs.header()
	return n != r.read || r.left > 0
}

// checked is how many new goroutines are looked at at a time.
const checked = 64

// check counts how many of the words, from the first one, are addresses of a g.
func (r *roster) check(gs []uint64) (int, error) {
	const words = 24 // up to goid and a bit
	var buf [checked * words]uint64
	var to [checked]unix.RemoteIovec
	remote := to[:len(gs)]
	for i, g := range gs {
		if g < 4096 || g&7 != 0 {
			remote, gs = remote[:i], gs[:i]
			break
		}
		remote[i] = unix.RemoteIovec{Base: uintptr(g), Len: words * 8}
	}
	if len(gs) == 0 {
		return 0, nil
	}
	head := buf[:len(gs)*words]
	local := unix.Iovec{Base: (*byte)(unsafe.Pointer(&head[0]))}
	local.SetLen(len(head) * 8)
	n := len(gs) * words * 8
	if plainReads {
		for i, g := range gs {
			if err := read(uintptr(g), head[i*words:(i+1)*words]); err != nil {
				return 0, err
			}
		}
	} else {
		var err error
		if n, err = unix.ProcessVMReadv(os.Getpid(), []unix.Iovec{local}, remote, 0); err != nil {
			return 0, fmt.Errorf("process_vm_readv: %w", err)
		}
	}
	for i := range gs {
		if (i+1)*words*8 > n {
			return i, nil
		}
		g := head[i*words:]
		lo, hi := g[r.l.gStackLo/8], g[r.l.gStackHi/8]
		status := uint32(g[r.l.gStatus/8]) &^ gScan
		if status > 11 || hi < lo || hi-lo > 1<<31 || lo == 0 && hi != 0 {
			return i, nil
		}
	}
	return len(gs), nil
}

func (r *roster) add(i uint32, g uint64) error {
	if i>>chunkBits == uint32(len(r.chunks)) {
		m, err := mapMemory(chunkSize * entryWords * 8)
		if err != nil {
			return err
		}
		r.chunks = append(r.chunks, m)
		store64(r.s.chunks+uintptr(i>>chunkBits)*8, uint64(m.addr()))
	}
	store64(r.s.entry(uint64(i))+entryG*8, g)
	store64(r.s.entry(uint64(i))+entryVisited*8, r.at) // it was not there yet
	r.index[g] = i
	return nil
}

// refreshProcs takes in a change of GOMAXPROCS. allp changes while the world
// is stopped, so its words agree.
func (r *roster) refreshProcs() error {
	ptr, n, c := r.allp.header()
	n = min(n, maxProcs)
	if n == r.s.nprocs || n > c {
		return nil
	}
	var procs [maxProcs]uint64
	if err := read(ptr, procs[:n]); err != nil {
		return err
	}
	if !areProcs(ptr, int(n), r.l) {
		return nil
	}
	for i, p := range procs[:n] {
		store64(r.s.procs+uintptr(i)*8, p)
	}
	storeRelease(uintptr(unsafe.Pointer(&r.s.nprocs)), n)
	return nil
}

// begin has the handler forget what it saw and take goroutines in turns from here on,
// those first that live now. No tick may be under way. Where a program once had many
// goroutines, ticks would take seconds to find the few that are left.
func (r *roster) begin(now uint64) {
	s := r.s
	s.young, s.old = circle{}, circle{}
	s.met, s.probe = uint64(len(r.index)), 0
	for i := range s.met {
		entry := s.entry(i)
		for word := uintptr(entryG + 1); word < entryWords; word++ {
			store64(entry+word*8, 0)
		}
		store64(entry+entryVisited*8, now)
		if alive(load32(uintptr(load64(entry+entryG*8)) + s.off.gStatus)) {
			enter(s, &s.old, i, entry, now)
		}
	}
}

func (r *roster) free() {
	for _, m := range r.chunks {
		unix.Munmap(m)
	}
	r.chunks = nil
}
