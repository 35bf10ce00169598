//go:build linux && (amd64 || arm64)

package native

import (
	"unsafe"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
)

// Roster entries that are in no circle: new ones, and those whose goroutines ended long ago. Ticks
// check them, the new ones first, for being alive. Those that are not new are found by a bit each:
// where a hundred thousand goroutines wait, nearly all entries are in a circle.

const (
	// A tick checks one in checkOneIn of the entries in no circle, but at least minChecks and at
	// most maxChecks. A check is two loads.
	checkOneIn           = 128
	minChecks, maxChecks = 64, 1024

	// If ticks are rare, there are as many checks in a second: so many for each of these periods
	// since the tick before, in ns. Otherwise short-lived goroutines would be missed.
	checkEvery, mostTimesChecks = 1e6, 20

	// After a check that has found a living goroutine come moreChecks more, up to mostChecks.
	moreChecks, mostChecks = 32, 4096

	// mostBits is the number of words of bits that a tick reads at most.
	mostBits = 512
)

// join checks entries that are in no circle, the new ones first, and adds those that are alive to
// the active circle. It visits some of them, at most half of n, rounded up, and returns their
// number. While it finds some it goes on: many goroutines may have begun at once. It is a stage.
//
//go:nosplit
//go:norace
//go:nocheckptr
func join(s *shared, n uint64) (joined uint64) {
	total := mem.LoadAcquire(uintptr(unsafe.Pointer(&s.goroutines)))
	checks := max(minChecks, min(s.outs/checkOneIn, maxChecks))
	checks *= max(1, min((s.now-s.before)/checkEvery, mostTimesChecks))
	checks = min(n, total-s.met) + min(s.outs, checks)
	for done, words := uint64(0), uint64(0); done < checks && words < mostBits; {
		index, ahead := s.met, uint64(1)
		if index >= total {
			if s.probe >= total {
				s.probe = 0
			}
			bits := mem.Load64(s.outside+uintptr(s.probe>>6*8)) >> (s.probe & 63)
			if bits == 0 {
				s.probe = s.probe | 63 + 1
				words++
				continue
			}
			for ; bits&1 == 0; bits >>= 1 {
				s.probe++
			}
			index, ahead = s.probe, bits>>fetchAhead&1
		}
		if ahead != 0 {
			fetch(s, index+fetchAhead, total)
		}
		done++
		entry := s.entry(index)
		if mem.Load64(entry+entryNext*8) == 0 {
			g := uintptr(mem.Load64(entry + entryG*8))
			if !goruntime.Alive(mem.Load32(g + s.Off.GStatus)) {
				meet(s, entry, index, 0, false)
				leaveOut(s, index)
			} else {
				if joined < (n+1)/2 {
					if !visitTimed(s, g, entry, index) {
						break
					}
					joined++
				} else {
					meet(s, entry, index, mem.Load64(g+s.Off.GID), true)
					mem.Store64(entry+entryLooked*8, s.now)
				}
				callEnter(s, &s.active, index, s.now)
				checks = min(checks+moreChecks, max(checks, mostChecks))
			}
		}
		if index == s.met {
			s.met++
		} else {
			s.probe++
		}
	}
	return joined
}

var callJoin = join
