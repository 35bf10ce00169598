//go:build linux && (amd64 || arm64)

package native

import "github.com/gotach/profiler/internal/mem"

// Between two ticks the program uses the processor's caches, and waiting for memory is most of the
// cost of looks and visits. So it is prefetched.

const (
	// See fetchNext. A look reads lookBytes of the g, from its status on. A visit reads gBytes of
	// the g and mostly no more than stackBytes of the stack.
	fetchStages, fetchApart, lookBytes, gBytes, stackBytes = 4, 4, 48, 400, 1024

	// fetchAhead is the number of entries that looks at other entries prefetch ahead: neighbours in
	// the roster are mostly neighbours in their circle.
	fetchAhead = 8
)

// fetch prefetches what a look reads.
//
//go:nosplit
//go:norace
//go:nocheckptr
func fetch(s *shared, index, total uint64) {
	if index < total {
		mem.Prefetch(uintptr(mem.Load64(s.entry(index)+entryG*8))+s.Off.GStatus, lookBytes)
	}
}

// fetchNext prefetches what is read of entries further on in a circle: the entry, what a look
// reads, and of those that have moved what a visit reads, the stack last. Each of these tells where
// the next one is, so they are fetchApart looks apart. Which entry comes is known from the turn
// before. It is a hint: entries may have come and gone since.
//
//go:nosplit
//go:norace
//go:nocheckptr
func fetchNext(s *shared, c *circle, first bool, total uint64) {
	for stage := uint64(1); stage <= fetchStages && c.n > fetchStages*fetchApart && c.n <= orderSize; stage++ {
		last := (fetchStages + 1 - stage) * fetchApart
		d := last
		if first {
			d = 1
		}
		for ; d <= last; d++ {
			index := uint64(c.order[(c.looks+d-1-c.n)&(orderSize-1)])
			if index >= total {
				continue
			}
			entry := s.entry(index)
			if stage == 1 {
				mem.Prefetch(entry, 1)
				continue
			}
			g := uintptr(mem.Load64(entry + entryG*8))
			switch {
			case stage == 2:
				mem.Prefetch(g+s.Off.GStatus, lookBytes)
			case mem.Load64(entry+entryMark*8)&^placeBits == mark(s, g):
			case stage == 3:
				mem.Prefetch(g, gBytes)
			default:
				sp := uintptr(mem.Load64(g + s.Off.GSchedSP))
				mem.Prefetch(sp, min(uintptr(mem.Load64(g+s.Off.GStackHi))-sp, stackBytes))
			}
		}
	}
}
