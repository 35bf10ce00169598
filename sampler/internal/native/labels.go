//go:build linux && (amd64 || arm64)

package native

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pprof labels. g.labels points to what runtime/pprof put there: in every
// supported version a slice of pairs of strings. They are copied at the moment
// of the sample, as a short pprof.Do is over when the drain comes to look. All
// reads go through process_vm_readv: other packages may have set something else, by
// linkname, that cannot be followed blindly.
//
// A label set that has been seen is pinned: the drain holds a Go pointer to it, so
// that its address cannot come to mean another set, and the handler then
// records only the address.

//go:nosplit
//go:norace
//go:nocheckptr
func pinned(s *shared, p uintptr) bool {
	h := pinHash(p)
	for i := uintptr(0); i < 8; i++ {
		switch load64(s.pins + (h+i)%pinSlots*8) {
		case uint64(p):
			return true
		case 0:
			return false
		}
	}
	return false
}

//go:nosplit
//go:norace
//go:nocheckptr
func pinHash(p uintptr) uintptr { return p >> 4 * 0x9e3779b97f4a7c15 >> 52 }

// copyLabels appends a goroutine's labels to a record and returns the words: none
// if there are no labels or they are pinned; else the number of labels (^0: they
// cannot be read), for each label the length of key and value, and the
// bytes of all.
//
//go:nosplit
//go:norace
//go:nocheckptr
func copyLabels(base, p, dst, scratch uintptr) uintptr {
	s := at(base)
	if p == 0 || pinned(s, p) {
		return 0
	}
	store64(dst, ^uint64(0))
	// scratch: a local and a remote iovec, a slice header; later remote iovecs.
	list := scratch + 64
	if !vmRead(s, p, scratch+32, 24, scratch) {
		return 1
	}
	array, n, c := uintptr(load64(scratch+32)), load64(scratch+40), load64(scratch+48)
	if n == 0 {
		store64(dst, 0)
		return 1
	}
	if n > maxLabels || c < n || !vmRead(s, array, list, uintptr(n)*32, scratch) {
		return 1
	}
	bytes, iovs := uint64(0), uint64(0)
	for i := uint64(0); i < 2*n; i++ {
		data, size := load64(list+uintptr(i)*16), load64(list+uintptr(i)*16+8)
		if size > maxLabelBytes {
			return 1
		}
		bytes += size
		store32(dst+8+uintptr(i)*4, uint32(size))
		if size > 0 { // in place: iovecs never overtake the pairs they come from
			store64(list+uintptr(iovs)*16, data)
			store64(list+uintptr(iovs)*16+8, size)
			iovs++
		}
	}
	if bytes > maxLabelBytes {
		return 1
	}
	if s.plain != 0 {
		to := dst + 8 + uintptr(n)*8
		for i := uintptr(0); i < uintptr(iovs); i++ {
			from := uintptr(load64(list + i*16))
			for size := uintptr(load64(list + i*16 + 8)); size > 0; size-- {
				store8(to, load8(from))
				to, from = to+1, from+1
			}
		}
	} else if iovs > 0 {
		store64(scratch, uint64(dst+8+uintptr(n)*8))
		store64(scratch+8, bytes)
		r := rawSyscall(unix.SYS_PROCESS_VM_READV, uintptr(s.pid), scratch, 1, list, uintptr(iovs), 0)
		if uint64(r) != bytes {
			return 1
		}
	}
	store64(dst, n)
	return uintptr(1 + n + (bytes+7)/8)
}

// vmRead reads n bytes at addr, which may be anything, to dst; scratch has room
// for two iovecs.
//
//go:nosplit
//go:norace
//go:nocheckptr
func vmRead(s *shared, addr, dst, n, scratch uintptr) bool {
	if s.plain != 0 {
		for i := uintptr(0); i < n; i += 8 {
			store64(dst+i, load64(addr+i))
		}
		return true
	}
	store64(scratch, uint64(dst))
	store64(scratch+8, uint64(n))
	store64(scratch+16, uint64(addr))
	store64(scratch+24, uint64(n))
	return rawSyscall(unix.SYS_PROCESS_VM_READV, uintptr(s.pid), scratch, 1, scratch+16, 1, 0) == n
}

// labelSets is the drain's side: what pinned addresses mean.
type labelSets struct {
	s    *shared
	ids  int
	sets map[uintptr]labelSet
	old  map[uintptr]labelSet // no longer pinned, but records may still mean them
	full bool
}

type labelSet struct {
	id     int            // never 0
	pin    unsafe.Pointer // keeps the address taken
	labels map[string]string
}

// find returns the set that a record without copied labels means.
func (l *labelSets) find(p uintptr) (labelSet, bool) {
	set, ok := l.sets[p]
	if !ok {
		set, ok = l.old[p]
	}
	return set, ok
}

// decodeLabels reads what copyLabels wrote.
func decodeLabels(words []uint64) map[string]string {
	if len(words) == 0 || words[0] == 0 || words[0] > maxLabels || len(words) < 1+int(words[0]) {
		return nil
	}
	n := int(words[0])
	rest := words[1+n:]
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(rest))), len(rest)*8)
	labels := make(map[string]string, n)
	for _, w := range words[1 : 1+n] {
		k, v := int(uint32(w)), int(w>>32)
		if k+v > len(bytes) {
			return nil
		}
		labels[string(bytes[:k])] = string(bytes[k : k+v])
		bytes = bytes[k+v:]
	}
	return labels
}

// pin makes the handler record only the address of the labels at p, if they are
// still those of a goroutine. field is where its runtime.g has them, a pointer
// to the collector like any other: loaded as one it holds what it points to.
//
//go:norace
//go:nocheckptr
func (l *labelSets) pin(field, p uintptr) {
	if l.full || len(l.sets) >= pinSlots/2 {
		l.full = true
		return
	}
	if _, ok := l.sets[p]; ok {
		return
	}
	live := atomic.LoadPointer(*(**unsafe.Pointer)(unsafe.Pointer(&field)))
	if uintptr(live) != p {
		return
	}
	s := l.s
	n := copyLabels(s.base(), p, uintptr(unsafe.Pointer(&s.pinLabels)), uintptr(unsafe.Pointer(&s.pinScratch)))
	if n == 0 || s.pinLabels[0] == ^uint64(0) {
		return
	}
	h := pinHash(p)
	for i := uintptr(0); i < 8; i++ {
		at := s.pins + (h+i)%pinSlots*8
		if load64(at) == 0 {
			l.ids++
			l.sets[p] = labelSet{l.ids, live, decodeLabels(s.pinLabels[:n])}
			storeRelease(at, uint64(p))
			return
		}
	}
	l.full = true
}

// turn is called after each pass of the drain. When there are too many pins it
// forgets all; what they held is let go of a pass later, when no record can
// mean it any more.
func (l *labelSets) turn() {
	l.old = nil
	if l.full {
		for i := uintptr(0); i < pinSlots; i++ {
			storeRelease(l.s.pins+i*8, 0)
		}
		l.old, l.sets, l.full = l.sets, make(map[uintptr]labelSet), false
	}
}
