//go:build linux && (amd64 || arm64)

package native

import (
	"sync/atomic"
	"unsafe"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
)

// What records of stacks have in common.

// clearHead clears the words of a record's head from the first one to the last one.
//
//go:nosplit
//go:norace
//go:nocheckptr
func clearHead(rec, first, last uintptr) {
	for i := first; i <= last; i++ {
		mem.Store64(rec+i*8, 0)
	}
}

// beginHead clears a record's head and writes the times, the thread and its CPU time.
//
//go:nosplit
//go:norace
//go:nocheckptr
func beginHead(rec uintptr, time, before, tid, clock uint64) {
	clearHead(rec, 0, headWords-1)
	mem.Store64(rec+headTime*8, time)
	mem.Store64(rec+headBefore*8, before)
	mem.Store64(rec+headTID*8, tid)
	mem.Store64(rec+headClock*8, clock)
}

// recordNear records the words at SP and next to the first return addresses. With them the drain
// adds a caller that the frame pointer chain misses.
//
//go:nosplit
//go:norace
//go:nocheckptr
func recordNear(s *shared, rec, sp, bp, hi uintptr) {
	lo := sp - frameSlack
	mem.Store64(rec+headSP0*8, s.CodeWord(sp, lo, hi))
	mem.Store64(rec+headSP1*8, s.CodeWord(sp+8, lo, hi))
	first, second := uint64(0), uint64(0)
	if bp >= lo && bp <= hi-16 {
		first = s.CodeWord(bp+16, lo, hi)
		if up := uintptr(goruntime.Word(bp, lo, hi)); up > bp && up < hi {
			second = s.CodeWord(up+16, lo, hi)
		}
	}
	mem.Store64(rec+headFrame0*8, first)
	mem.Store64(rec+headFrame1*8, second)
}

var callNear = recordNear

// describe writes the part of a record's head that describes the goroutine itself, without the
// times. It returns flags for the record.
//
//go:nosplit
//go:norace
//go:nocheckptr
func describe(s *shared, rec, g uintptr, index uint64) uint64 {
	mem.Store64(rec+headG*8, uint64(g))
	mem.Store64(rec+headGoid*8, mem.Load64(g+s.Off.GID))
	mem.Store64(rec+headParent*8, mem.Load64(g+s.Off.GParent))
	mem.Store64(rec+headGoPC*8, mem.Load64(g+s.Off.GGoPC))
	mem.Store64(rec+headStartPC*8, mem.Load64(g+s.Off.GStartPC))
	mem.Store64(rec+headLabels*8, mem.Load64(g+s.Off.GLabels))
	mem.Store64(rec+headIndex*8, index)
	if mem.Load64(g+s.Off.GBubble) != 0 {
		return flagBubble
	}
	return 0
}

var callDescribe = describe

// finish appends the labels to a record with n PCs and completes its first word, which has
// status, reason and flags already. It returns the number of words of the record.
//
//go:nosplit
//go:norace
//go:nocheckptr
func finish(s *shared, rec, n, scratch uintptr) uintptr {
	labels := callLabels(s, uintptr(mem.Load64(rec+headLabels*8)), rec+(headWords+n)*8, scratch)
	flags := uint64(0)
	if n >= goruntime.MaxDepth {
		flags = flagCut << 48
	}
	words := headWords + n + labels
	mem.Store64(rec, mem.Load64(rec)|recStack|uint64(words)<<8|flags)
	mem.Store64(rec+headCounts*8, mem.Load64(rec+headCounts*8)|uint64(n)|uint64(labels)<<32)
	return words
}

var callFinish = finish

// runsOf returns headRuns for a goroutine that runs with an M.
//
//go:nosplit
//go:norace
//go:nocheckptr
func runsOf(s *shared, g, m uintptr) uint64 {
	p := uintptr(mem.Load64(m + s.Off.MP))
	if p == 0 {
		return 0
	}
	return uint64(mem.Load8(g+s.Off.GTrackingSeq)) | uint64(mem.Load32(p+s.Off.PSyscallTick))<<8 | uint64(p)<<34
}

// link puts the link register, on processors that have one, before the words at SP in a record.
//
//go:nosplit
//go:norace
//go:nocheckptr
func link(s *shared, rec, ctx uintptr) {
	if ctxLR != 0 {
		mem.Store64(rec+headSP1*8, mem.Load64(rec+headSP0*8))
		mem.Store64(rec+headSP0*8, s.OnlyCode(mem.Load64(ctx+ctxLR)))
	}
}

// pprof labels. g.labels points to the labels that runtime/pprof has set: in every supported
// version a slice of pairs of strings. The handler copies them at the time of the sample,
// because a short pprof.Do has ended when the drain reads the record. All reads go through
// process_vm_readv: another package may have set a pointer to something else, by linkname.
//
// The drain pins each label set that it has seen: it holds a Go pointer to the set, so that
// its address cannot be reused for another set. From then on the handler records only the
// address.

// copyLabels appends a goroutine's labels to a record and returns the number of words that it
// wrote: 0 if there are no labels or they are pinned. Otherwise it writes the number of labels
// (^0: they cannot be read), the lengths of key and value of each label, and the bytes of all
// keys and values.
//
//go:nosplit
//go:norace
//go:nocheckptr
func copyLabels(s *shared, p, dst, scratch uintptr) uintptr {
	if p == 0 || s.pins.has(uint64(p)) {
		return 0
	}
	mem.Store64(dst, ^uint64(0))
	// scratch has a local iovec, a remote iovec and a slice header, then the list of pairs. The
	// remote iovecs of keys and values replace that list.
	list := scratch + 64
	if !vmRead(s, p, scratch+32, 24, scratch) {
		return 1
	}
	array, n, c := uintptr(mem.Load64(scratch+32)), mem.Load64(scratch+40), mem.Load64(scratch+48)
	if n == 0 {
		mem.Store64(dst, 0)
		return 1
	}
	if n > maxLabels || c < n || !vmRead(s, array, list, uintptr(n)*32, scratch) {
		return 1
	}
	bytes, iovs := uint64(0), uint64(0)
	for i := uint64(0); i < 2*n; i++ {
		data, size := mem.Load64(list+uintptr(i)*16), mem.Load64(list+uintptr(i)*16+8)
		if size > maxLabelBytes {
			return 1
		}
		bytes += size
		mem.Store32(dst+8+uintptr(i)*4, uint32(size))
		if size > 0 { // the iovec overwrites a pair that has been read already
			mem.Store64(list+uintptr(iovs)*16, data)
			mem.Store64(list+uintptr(iovs)*16+8, size)
			iovs++
		}
	}
	if bytes > maxLabelBytes {
		return 1
	}
	if iovs > 0 && mem.Gather(s.pid, dst+8+uintptr(n)*8, uintptr(bytes), list, uintptr(iovs), scratch) != uintptr(bytes) {
		return 1
	}
	mem.Store64(dst, n)
	return uintptr(1 + n + (bytes+7)/8)
}

var callLabels = copyLabels

// vmRead reads n bytes at addr, which may be unmapped, to dst. scratch has room for two
// iovecs.
//
//go:nosplit
//go:norace
//go:nocheckptr
func vmRead(s *shared, addr, dst, n, scratch uintptr) bool {
	mem.Store64(scratch+16, uint64(addr))
	mem.Store64(scratch+24, uint64(n))
	return mem.Gather(s.pid, dst, n, scratch+16, 1, scratch) == n
}

// labelSets is the drain's map of pinned addresses to label sets.
type labelSets struct {
	s    *shared
	ids  int
	sets map[uintptr]labelSet
	old  map[uintptr]labelSet // no longer pinned, but records may still refer to them
	full bool                 // there are too many pins
}

type labelSet struct {
	id     int            // never 0
	pin    unsafe.Pointer // keeps the set alive, so that its address is not reused
	labels map[string]string
}

// find returns the set at p, for a record that has no copy of its labels.
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

// pin makes the handler record only the address of the labels at p. It does so only if p is
// still the value of field, the address of g.labels of a goroutine. pin loads that field as a
// Go pointer, and keeps it, so the collector keeps the set alive.
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
	n := copyLabels(s, p, uintptr(unsafe.Pointer(&s.pinLabels)), uintptr(unsafe.Pointer(&s.pinScratch)))
	if n == 0 || s.pinLabels[0] == ^uint64(0) {
		return
	}
	l.ids++
	l.sets[p] = labelSet{l.ids, live, decodeLabels(s.pinLabels[:n])}
	l.full = !s.pins.add(uint64(p))
}

// turn is called after each pass of the drain. If there are too many pins it removes them
// all. It releases the sets one pass later, when no record can refer to them any more.
func (l *labelSets) turn() {
	l.old = nil
	if l.full {
		l.s.pins.clear()
		l.old, l.sets, l.full = l.sets, make(map[uintptr]labelSet), false
	}
}
