//go:build linux && (amd64 || arm64)

package native

import (
	"unsafe"

	"github.com/gotach/profiler/internal/mem"
)

// New entries of the runtime's list of gs. The runtime makes a g where it has no dead one left to
// reuse, so a server that keeps goroutines has new gs all the time. Their goroutines can be as
// short as others. So ticks read the list themselves and add what is new to the roster, and the
// drain only follows.

// addNew adds the gs that the runtime has made since the tick before to the roster. It takes no
// longer than visits may take; a later tick reads the rest.
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

// readNew adds some entries of the runtime's list, which has n at least. It returns false if the
// next one must wait for another tick.
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
	good := readList(s, k)
	born := s.listedAt + excess(s, s.listedAt)
	for i := uint64(0); i < good; i++ {
		entry := s.entry(index + i)
		mem.Store64(entry+entryG*8, mem.Load64(uintptr(unsafe.Pointer(&s.newGs))+uintptr(i)*8))
		mem.Store64(entry+entryLooked*8, s.listedAt) // its goroutine began after that
		mem.Store64(entry+entryFrom*8, born)
	}
	mem.StoreRelease(uintptr(unsafe.Pointer(&s.goroutines)), index+good)
	mem.StoreRelease(uintptr(unsafe.Pointer(&s.listed)), s.listed+good)
	return good == k
}

// handOver makes ticks add new entries from now on. Goroutines of these have begun after the time
// now.
func (r *roster) handOver(now uint64) error {
	s := r.s
	s.adds, s.full = 0, 0
	if r.taken >= uint64(maxTracked) {
		return nil
	}
	s.listedAt, s.most = now, uint64(min(maxTracked, maxChunks*chunkSize))
	s.adds = 1
	return r.mapAhead()
}
