//go:build linux && (amd64 || arm64)

package native

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
)

// roster is the handler's own copy of runtime.allgs and runtime.allp. The runtime never frees
// a g or a P and never moves one in its list, so copied entries stay valid. A refresh reads
// only the entries that were added since. So the handler depends on no array that the runtime
// may replace, and on no Go pointer.
//
// Start fills the roster. While a session samples, its ticks read the new entries of allgs
// themselves (census.go), and the drain's refresh only takes these over. If the roster is full, the
// drain adds the goroutines that it meets. All methods are for Start and the drain; of this file
// the handler calls only readList.
type roster struct {
	s         *shared
	l         *goruntime.Layout
	allp      goruntime.SliceAt
	index     map[uint64]uint32 // index of the entry, by g
	taken     uint64            // entries of the roster that are in index
	left      uint64            // entries of allgs that are left out because of maxTracked
	leftAlive uint64            // of these, entries whose goroutine was alive when it was read
	chunks    []mem.Mapping
}

// refresh adds the goroutines and Ps that are new since the last call. Start calls it, then each
// pass of the drain.
func (r *roster) refresh() error {
	if err := r.refreshProcs(); err != nil {
		return err
	}
	if ok, err := r.follow(); ok || err != nil {
		return err
	}
	s, now := r.s, monotonicNow()
	n := mem.LoadAcquire(s.allgs + 8)
	// The list also has gs of goroutines that have ended, which the runtime reuses. If the list
	// is too long, these are added only if there is room after all living goroutines.
	var dead []uint64
	crowded := s.listed == 0 && n > uint64(maxTracked)
	if r.index == nil {
		r.index = make(map[uint64]uint32, min(n, uint64(maxTracked)))
	}
	for s.listed < n {
		k := min(n-s.listed, newAtOnce)
		good := readList(s, k)
		for i, g := range s.newGs[:good] {
			living := goruntime.Alive(uint32(s.newWords[i]))
			switch {
			case crowded && !living && len(dead) < maxTracked:
				dead = append(dead, g)
			case crowded && !living, len(r.index) >= maxTracked:
				r.left++
				if living {
					r.leftAlive++
				}
			default:
				if err := r.include(g); err != nil {
					return err
				}
			}
			s.listed++
		}
		if good < k { // this word is no g yet; try again at the next refresh
			if e := unix.Errno(s.unlisted); e != 0 {
				return fmt.Errorf("process_vm_readv: %w", e)
			}
			return r.includeDead(dead)
		}
	}
	s.listedAt = now
	return r.includeDead(dead)
}

// readList reads the next k entries of the runtime's list, at most newAtOnce, into s.newGs, and the
// statuses of their goroutines into s.newWords. The list has as many, and its length was read
// before. readList returns how many are complete.
//
// To append, the runtime makes room first, if it must, and stores the array's new address. Then it
// stores the length, and the new entry last. The length was read before the address, so the array
// has as many entries if the address is the same after it was read. An entry that is not stored yet
// is 0.
//
//go:nosplit
//go:norace
//go:nocheckptr
func readList(s *shared, k uint64) (good uint64) {
	mem.Fence()
	list, gs := uintptr(mem.Load64(s.allgs)), uintptr(unsafe.Pointer(&s.newGs))
	s.newFrom[0] = [2]uint64{uint64(list) + s.listed*8, k * 8}
	if copyList(s, gs, 1, k) != k {
		return 0
	}
	mem.Fence()
	if uintptr(mem.Load64(s.allgs)) != list {
		return 0
	}
	n := uint64(0)
	for ; n < k; n++ {
		g := mem.Load64(gs + uintptr(n)*8)
		if g < 4096 || g&7 != 0 {
			break
		}
		mem.Store64(uintptr(unsafe.Pointer(&s.newFrom))+uintptr(n)*16, g+uint64(s.Off.GStatus))
		mem.Store64(uintptr(unsafe.Pointer(&s.newFrom))+uintptr(n)*16+8, 8)
	}
	words := uintptr(unsafe.Pointer(&s.newWords))
	n = copyList(s, words, n, n) // the others are not mapped
	for good < n && mem.Load32(words+uintptr(good)*8)&^goruntime.GScan <= goruntime.GDeadExtra {
		good++
	}
	return good
}

// copyList copies so many words from the first n places of s.newFrom, and returns how many it has
// copied.
//
//go:nosplit
//go:norace
//go:nocheckptr
func copyList(s *shared, to uintptr, n, words uint64) uint64 {
	if n == 0 {
		return 0
	}
	r := mem.Gather(s.pid, to, uintptr(words)*8, uintptr(unsafe.Pointer(&s.newFrom)), uintptr(n), uintptr(unsafe.Pointer(&s.newTo)))
	if r > mem.ErrnoFloor {
		s.unlisted = uint64(-r)
		return 0
	}
	return uint64(r) / 8
}

// includeDead adds entries of goroutines that have ended, as far as there is room.
func (r *roster) includeDead(gs []uint64) error {
	for i, g := range gs {
		if len(r.index) >= maxTracked {
			r.left += uint64(len(gs) - i)
			break
		}
		if err := r.include(g); err != nil {
			return err
		}
	}
	return nil
}

// maxTracked is the number of goroutines of the runtime's list that are visited in turns. Each
// takes some 600 bytes in roster, drain and recorder, so all take 160 MB at most. A Stop that
// visits them once more takes about a second. In a program with more goroutines, the others
// are sampled only while they run.
var maxTracked = 1 << 18 // less in tests

// include adds one goroutine, also if there are maxTracked, up to twice that number.
func (r *roster) include(g uint64) error {
	if _, ok := r.index[g]; ok {
		return nil
	}
	i := int(r.taken)
	if i >= min(2*maxTracked, maxChunks*chunkSize) {
		return errFull
	}
	if err := r.add(uint32(i), g); err != nil {
		return err
	}
	r.taken = uint64(i) + 1
	mem.StoreRelease(uintptr(unsafe.Pointer(&r.s.goroutines)), r.taken)
	return nil
}

var errFull = errors.New("too many goroutines")

// behind reports whether there are goroutines that the roster does not have.
func (r *roster) behind() bool {
	return mem.LoadAcquire(r.s.allgs+8) != mem.LoadAcquire(uintptr(unsafe.Pointer(&r.s.listed))) || r.left > 0
}

// add stores a g as the entry with number i, which must be the next one.
func (r *roster) add(i uint32, g uint64) error {
	if i>>chunkBits == uint32(len(r.chunks)) {
		if err := r.mapChunk(); err != nil {
			return err
		}
	}
	mem.Store64(r.s.entry(uint64(i))+entryG*8, g)
	mem.Store64(r.s.entry(uint64(i))+entryLooked*8, r.s.listedAt) // its goroutine began after that
	r.index[g] = i
	return nil
}

// mapChunk maps memory for the next entries.
func (r *roster) mapChunk() error {
	m, err := mem.Map(chunkSize * entryWords * 8)
	if err != nil {
		return err
	}
	mem.Store64(r.s.chunks+uintptr(len(r.chunks))*8, uint64(m.Addr()))
	r.chunks = append(r.chunks, m)
	return nil
}

// refreshProcs reads the list of Ps again after a change of GOMAXPROCS. allp changes only
// while the world is stopped, so its three words belong together.
func (r *roster) refreshProcs() error {
	ptr, n, c := r.allp.Header()
	n = min(n, maxProcs)
	if n == r.s.nprocs || n > c {
		return nil
	}
	var procs [maxProcs]uint64
	if err := mem.Read(ptr, procs[:n]); err != nil {
		return err
	}
	if !goruntime.AreProcs(ptr, int(n), r.l) {
		return nil
	}
	for i, p := range procs[:n] {
		mem.Store64(r.s.procs+uintptr(i)*8, p)
	}
	mem.StoreRelease(uintptr(unsafe.Pointer(&r.s.nprocs)), n)
	return nil
}

// free unmaps the entries. No handler may run.
func (r *roster) free() {
	for _, m := range r.chunks {
		unix.Munmap(m)
	}
	r.chunks = nil
}

// follow takes over the entries that ticks have added. It returns false if they add no more.
func (r *roster) follow() (bool, error) {
	s := r.s
	if s.adds == 0 {
		return false, nil
	}
	full := mem.LoadAcquire(uintptr(unsafe.Pointer(&s.full))) != 0
	total := mem.LoadAcquire(uintptr(unsafe.Pointer(&s.goroutines)))
	for i := r.taken; i < total; i++ {
		r.index[mem.Load64(s.entry(i)+entryG*8)] = uint32(i)
	}
	r.taken = total
	if full {
		s.adds = 0
		return false, nil
	}
	return true, r.mapAhead()
}

// aheadChunks is the number of chunks that are mapped ahead at least. Memory that is not used takes
// no room.
const aheadChunks = 16

// mapAhead maps memory for entries that ticks may add before the next call: for as many as there
// are.
func (r *roster) mapAhead() error {
	want := min(2*int(r.taken)+aheadChunks*chunkSize, int(r.s.most)+chunkSize-1, maxChunks*chunkSize)
	for len(r.chunks) < want>>chunkBits {
		if err := r.mapChunk(); err != nil {
			return err
		}
	}
	mem.StoreRelease(uintptr(unsafe.Pointer(&r.s.mapped)), uint64(len(r.chunks))<<chunkBits)
	return nil
}
