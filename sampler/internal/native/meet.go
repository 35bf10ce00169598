//go:build linux && (amd64 || arm64)

package native

import "github.com/gotach/profiler/internal/mem"

// meet notes which goroutine an entry has. lives is false if it has none. meet returns false if
// there is no room in the ring.
//
//go:nosplit
//go:norace
//go:nocheckptr
func meet(s *shared, entry uintptr, index, goid uint64, lives bool) bool {
	if known := mem.Load64(entry + entryGoid*8); known != goid || !lives {
		if known != 0 && !callGone(s, entry, index) {
			return false
		}
		if lives {
			mem.Store64(entry+entryGoid*8, goid)
			if mem.Load64(entry+entryFrom*8) == 0 { // else the roster has set it for a new entry
				looked := mem.Load64(entry + entryLooked*8)
				mem.Store64(entry+entryFrom*8, looked+excess(s, looked))
			}
		}
	}
	if !lives {
		mem.Store64(entry+entryLooked*8, s.now)
		mem.Store64(entry+entryFrom*8, 0)
	}
	return true
}

// same records that until a time a goroutine had not run since its last stack was recorded. It
// reports whether there was room.
//
//go:nosplit
//go:norace
//go:nocheckptr
func same(s *shared, index, until uint64) bool {
	w := put(s, recSame, 3)
	if w == 0 {
		return false
	}
	mem.Store64(w+8, index)
	mem.Store64(w+16, until)
	return true
}

// gone records that the goroutine of an entry has ended. It reports whether there was room.
//
//go:nosplit
//go:norace
//go:nocheckptr
func gone(s *shared, entry uintptr, index uint64) bool {
	w, looked := put(s, recGone, 5), mem.Load64(entry+entryLooked*8)
	if w == 0 {
		return false
	}
	mem.Store64(w+8, index)
	mem.Store64(w+16, mem.Load64(entry+entryGoid*8))
	mem.Store64(w+24, looked+excess(s, looked))
	mem.Store64(w+32, mem.Load64(entry+entryFrom*8))
	mem.Store64(entry+entryGoid*8, 0)
	mem.Store64(entry+entrySince*8, 0)
	mem.Store64(entry+entryFrom*8, 0)
	return true
}

var callGone = gone

// recordUnmoved records until when looks have found a goroutine where it was at its latest visit,
// if it has moved since. It reports whether there was room.
//
//go:nosplit
//go:norace
//go:nocheckptr
func recordUnmoved(s *shared, entry uintptr, index uint64) bool {
	looked := mem.Load64(entry + entryLooked*8)
	if mem.Load64(entry+entryFrom*8) != 0 || mem.Load64(entry+entryMark*8) == 0 || mem.Load64(entry+entryMoved*8) == looked {
		return true // it has no visit, or the latest look found that it had moved
	}
	return same(s, index, looked)
}

var callUnmoved = recordUnmoved
