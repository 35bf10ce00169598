//go:build linux && (amd64 || arm64)

package native

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
)

// New entries of the runtime's list of gs. The runtime makes a g where it has no dead one left to reuse, so a
// server that keeps goroutines has new gs all the time. Their goroutines can be as short as others. So
// ticks read the list themselves and add what is new to the roster, and the drain only follows.

// addNew adds the gs that the runtime has made since the tick before to the roster. It takes no longer
// than visits may take; a later tick reads the rest.
//
//go:nosplit
//go:norace
//go:nocheckptr
func addNew(s *shared) {
	if s.adds == 0 || s.full != 0 {
		return
	}
	n, start := mem.LoadAcquire(s.allgs+8), mem.Cycles()
	for s.listed < n {
		if !readNew(s, n) || mem.Cycles()-start > mem.Load64(uintptr(unsafe.Pointer(&s.visitLimit))) {
			return
		}
	}
	s.listedAt = s.now
}

var callAdd = addNew

// readNew adds some entries of the runtime's list, which has n at least. It returns false if the next one
// must wait for another tick.
//
// To append, the runtime makes room first, if it must, and stores the array's new address. Then it stores the
// length, and the new entry last. n was read before the address, so the array has n entries if the address
// is the same after it was read. An entry that is not stored yet is 0.
//
//go:nosplit
//go:norace
//go:nocheckptr
func readNew(s *shared, n uint64) bool {
	index := s.goroutines
	k := min(n-s.listed, newAtOnce, s.mapped-index, s.most-index)
	if k == 0 {
		if index >= s.most {
			mem.StoreRelease(uintptr(unsafe.Pointer(&s.full)), 1)
		}
		return false
	}
	mem.Fence()
	list, gs := uintptr(mem.Load64(s.allgs)), uintptr(unsafe.Pointer(&s.newGs))
	s.newFrom[0] = [2]uint64{uint64(list) + s.listed*8, k * 8}
	if copyMemory(s, gs, 1) != k*8 {
		return false
	}
	mem.Fence()
	if uintptr(mem.Load64(s.allgs)) != list {
		return false
	}
	good := uint64(0)
	for ; good < k; good++ {
		g := mem.Load64(gs + uintptr(good)*8)
		if g < 4096 || g&7 != 0 {
			break
		}
		mem.Store64(uintptr(unsafe.Pointer(&s.newFrom))+uintptr(good)*16, g+uint64(s.Off.GStatus))
		mem.Store64(uintptr(unsafe.Pointer(&s.newFrom))+uintptr(good)*16+8, 8)
	}
	words := uintptr(unsafe.Pointer(&s.newWords))
	good = min(good, copyMemory(s, words, good)/8) // the others are not mapped
	born := s.listedAt + excess(s, s.listedAt)
	added := uint64(0)
	for ; added < good && mem.Load32(words+uintptr(added)*8)&^goruntime.GScan <= goruntime.GDeadExtra; added++ {
		entry := s.entry(index + added)
		mem.Store64(entry+entryG*8, mem.Load64(gs+uintptr(added)*8))
		mem.Store64(entry+entryLooked*8, s.listedAt) // its goroutine began after that
		mem.Store64(entry+entryFrom*8, born)
	}
	s.listed += added
	mem.StoreRelease(uintptr(unsafe.Pointer(&s.goroutines)), index+added)
	return added == k
}

// copyMemory copies from the first n places of s.newFrom to a place with room for so much. It returns the
// number of bytes that it has copied.
//
//go:nosplit
//go:norace
//go:nocheckptr
func copyMemory(s *shared, to uintptr, n uint64) (copied uint64) {
	if n == 0 {
		return 0
	}
	from := uintptr(unsafe.Pointer(&s.newFrom))
	for i := uintptr(0); i < uintptr(n); i++ {
		place, size := uintptr(mem.Load64(from+i*16)), uintptr(mem.Load64(from+i*16+8))
		for at := uintptr(0); at < size && s.plain != 0; at += 8 {
			mem.Store64(to+uintptr(copied)+at, mem.Load64(place+at))
		}
		copied += uint64(size)
	}
	if s.plain != 0 {
		return copied
	}
	s.newTo = [2]uint64{uint64(to), copied}
	r := mem.Syscall(unix.SYS_PROCESS_VM_READV, uintptr(s.pid), uintptr(unsafe.Pointer(&s.newTo)), 1, from, uintptr(n), 0)
	if r > mem.ErrnoFloor {
		s.unlisted = uint64(-r)
		return 0
	}
	return uint64(r)
}

// handOver makes ticks add new entries from now on. Goroutines of these have begun after the time now.
func (r *roster) handOver(now uint64) error {
	s := r.s
	s.adds, s.full = 0, 0
	if r.taken >= uint64(maxTracked) {
		return nil
	}
	s.listed, s.listedAt, s.most = r.read, now, uint64(min(maxTracked, maxChunks*chunkSize))
	s.adds = 1
	return r.mapAhead()
}
