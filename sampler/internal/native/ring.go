//go:build linux && (amd64 || arm64)

package native

import (
	"unsafe"

	"github.com/gotach/profiler/internal/mem"
)

// The ring is written at s.write by the tick thread alone, which publishes it as s.head at the end
// of a tick.

// room makes n contiguous words of the ring available. It returns false if the drain is too
// far behind.
//
//go:nosplit
//go:norace
//go:nocheckptr
func room(s *shared, n uint64) bool {
	pos := (s.write + s.ringAt) & (ringWords - 1)
	pad := uint64(0)
	if pos+n > ringWords {
		pad = ringWords - pos
	}
	if s.write+pad+n-mem.LoadAcquire(uintptr(unsafe.Pointer(&s.tail))) > ringWords {
		return false
	}
	if pad != 0 {
		mem.Store64(s.ring+uintptr(pos)*8, recPad|pad<<8)
		s.write += pad
	}
	return true
}

// put begins a record of n words and writes its first one, which has the kind. It returns the
// record's address, 0 if there is no room.
//
//go:nosplit
//go:norace
//go:nocheckptr
func put(s *shared, kind, n uint64) uintptr {
	if !room(s, n) {
		return 0
	}
	w := s.words(s.write)
	mem.Store64(w, kind|n<<8)
	s.write += n
	return w
}

// nearlyFull reports whether visits in turn must wait until the drain has read more of the ring.
// The rest of it is for goroutines that run: a visit can come later, but a running goroutine's CPU
// time would be given to others.
//
//go:nosplit
//go:norace
//go:nocheckptr
func nearlyFull(s *shared) bool {
	return s.write-mem.LoadAcquire(uintptr(unsafe.Pointer(&s.tail))) > ringWords-ringKept
}

// harvest copies a filled slot's record to the ring.
//
//go:nosplit
//go:norace
//go:nocheckptr
func harvest(s *shared, slot uintptr) {
	n := mem.Load64(slot + slotCount*8)
	if n == 0 {
		return
	}
	if !room(s, n) {
		s.dropped++
		return
	}
	to := s.words(s.write)
	for i := uintptr(0); i < uintptr(n); i++ {
		mem.Store64(to+i*8, mem.Load64(slot+(slotRecord+i)*8))
	}
	s.write += n
}

// words returns the address of word n of the ring, counted since the start of the session.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (s *shared) words(n uint64) uintptr { return s.ring + uintptr((n+s.ringAt)&(ringWords-1))*8 }
