//go:build linux && (amd64 || arm64)

package native

import (
	"unsafe"

	"github.com/gotach/profiler/sampler/internal/goruntime"
	"github.com/gotach/profiler/sampler/internal/mem"
)

// found is what a look or a visit finds of an entry. It is in shared.was, because handlers have little stack.
type found struct {
	lives bool   // it has a living goroutine
	first bool   // that has no visit yet, and is not as old as the session
	mark  uint64 // of the latest visit that recorded its stack
}

// find sets s.was before a look or a visit.
//
//go:nosplit
//go:norace
//go:nocheckptr
func find(s *shared, c *circle, entry, g uintptr) {
	s.was.lives = goruntime.Alive(mem.Load32(g + s.Off.GStatus))
	s.was.mark = mem.Load64(entry + entryMark*8)
	s.was.first = mem.Load64(g+s.Off.GID) != mem.Load64(entry+entryGoid*8) || c == &s.active && mem.Load64(entry+entryFrom*8) != 0
}

// wants reports whether the goroutine must be visited: it is new, or has moved. One that runs gets a signal.
//
//go:nosplit
//go:norace
//go:nocheckptr
func wants(s *shared, g uintptr) bool {
	if status := mem.Load32(g+s.Off.GStatus) &^ goruntime.GScan; !s.was.lives || status == goruntime.GRunning || status == goruntime.GCopying {
		return false
	}
	m := mark(s, g)
	return s.was.first || m == 0 || m != s.was.mark
}

// settle puts an entry into the right circle after a look or a visit. before is the index of the
// entry before it in its circle. s.was is what the look or visit found.
//
//go:nosplit
//go:norace
//go:nocheckptr
func settle(s *shared, c *circle, before, index uint64) {
	entry := s.entry(index)
	last, moved := mem.Load64(entry+entryMoved*8), uint64(0)
	to := c
	switch {
	case !s.was.lives:
		to = &s.active // the runtime reuses it soon
		if last == 0 && c.dead > keepDead+c.n-c.dead {
			to = nil
		}
	case s.was.first || last == 0:
		to, moved = &s.active, s.now
	default:
		moved = last
		after := uintptr(unsafe.Pointer(&s.stillAfter))
		if c == &s.moving {
			after = uintptr(unsafe.Pointer(&s.moverAfter))
		}
		if m := mark(s, uintptr(mem.Load64(entry+entryG*8))); m == 0 || m != s.was.mark {
			to, moved = &s.moving, s.now
		} else if s.now-moved > mem.Load64(after) {
			to = &s.still
		}
	}
	if to != c {
		callExit(s, c, before, index)
		if to != nil {
			callEnter(s, to, index, moved)
		} else {
			leaveOut(s, index)
		}
		return
	}
	mem.Store64(entry+entryMoved*8, moved)
	if (last == 0) != (moved == 0) {
		if moved == 0 {
			c.dead++
		} else {
			c.dead--
		}
	}
}

// mark returns a number that changes when a goroutine moves, 0 if the goroutine is not parked.
// It is not quite exact: trackingSeq has 8 bits, and the number is the same again after the goroutine
// has stopped running 256 times. Of a goroutine that moves as often as that between two ticks, one sample in
// 256 has the stack of the tick before. Coroutines do not change the number.
//
//go:nosplit
//go:norace
//go:nocheckptr
func mark(s *shared, g uintptr) uint64 {
	switch mem.Load32(g+s.Off.GStatus) &^ goruntime.GScan {
	case goruntime.GWaiting, goruntime.GLeaked:
		return markOf(mem.LoadAcquire(uintptr(unsafe.Pointer(&s.Modules))), mem.Load64(g+s.Off.GID), uint64(mem.Load8(g+s.Off.GTrackingSeq)), uint64(mem.Load8(g+s.Off.GWaitReason)))
	}
	return 0
}

// markModules is the lowest bit of the number of modules in a mark. A stack that was recorded before a plugin was
// known ends at the plugin's code, so all stacks are recorded anew then.
const markModules = 57

//go:nosplit
//go:norace
//go:nocheckptr
func markOf(modules, goid, seq, reason uint64) uint64 {
	return 1<<63 | modules&63<<markModules | goid<<16&(1<<markModules-1) | seq<<8 | reason
}

// enter adds an entry to a circle. It will be the last one of the present turn of visits. moved is
// the time at which its goroutine moved last, 0 if it has ended. It is a stage.
//
//go:nosplit
//go:norace
//go:nocheckptr
func enter(s *shared, c *circle, index, moved uint64) {
	entry := s.entry(index)
	if c.n > 0 {
		last := s.entry(c.cursor)
		mem.Store64(entry+entryNext*8, mem.Load64(last+entryNext*8))
		mem.Store64(last+entryNext*8, index+1)
	} else {
		mem.Store64(entry+entryNext*8, index+1)
		c.look = index
	}
	mem.Store64(entry+entryMoved*8, moved)
	takeIn(s, index)
	c.cursor = index
	c.n++
	if moved == 0 {
		c.dead++
	}
}

// exit removes an entry from a circle. before is the index of the entry before it. It is a stage.
//
//go:nosplit
//go:norace
//go:nocheckptr
func exit(s *shared, c *circle, before, index uint64) {
	entry := s.entry(index)
	mem.Store64(s.entry(before)+entryNext*8, mem.Load64(entry+entryNext*8))
	mem.Store64(entry+entryNext*8, 0)
	if c.cursor == index {
		c.cursor = before
	}
	if c.look == index {
		c.look = before
	}
	c.n--
	if mem.Load64(entry+entryMoved*8) == 0 {
		c.dead--
	}
}
