//go:build linux && (amd64 || arm64)

package native

import (
	"runtime"
	"time"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/sampler/internal/cost"
)

// The counters of goroutines are in runtime.sched, a variable without anything to find it by.
// findSched tries all words of the program's variables that can be its first one, the latest
// goroutine id, and compares the result with runtime.NumGoroutine.

// findSched returns the address of runtime.sched, 0 if it cannot be found.
func findSched(variables []goruntime.Span, l *goruntime.Layout, s *shared, p *cost.Patience) uintptr {
	limit := maxThreads()
	newest := mem.ReadWord(mem.Getg() + l.GID)
	const step, more = 1 << 13, 64
	words := make([]uint64, step+more)
	for _, v := range variables {
		for at := v.Lo; at < v.Hi; at += step * 8 {
			part := words[:min(step+more, int(v.Hi-at)/8)]
			if p.Over("") != nil || mem.ReadBig(at, part) != nil {
				return 0
			}
			for i := 0; i+more <= len(part) && i < step; i++ {
				threads := part[i+int(l.SchedThreads/8)] >> (l.SchedThreads % 8 * 8)
				if id := part[i]; id >= newest && id>>56 == 0 && uint32(threads) == uint32(limit) && isSched(s, at+uintptr(i)*8) {
					return at + uintptr(i)*8
				}
			}
		}
	}
	return 0
}

// isSched compares the number of goroutines with the runtime's answer, before and after some more
// begin, and after these have ended.
func isSched(s *shared, at uintptr) bool {
	s.sched = at
	good := s.right()
	if good {
		_, free := parked(3)
		good = s.right()
		free()
		time.Sleep(100 * time.Microsecond)
		good = good && s.right()
	}
	s.sched = 0
	return good
}

// right reports whether count and runtime.NumGoroutine agree. Goroutines begin and end between the
// two, so it tries often.
//
//go:norace
//go:nocheckptr
func (s *shared) right() bool {
	for range 200 {
		n := runtime.NumGoroutine()
		if c := s.count(); c == uint64(n) && n == runtime.NumGoroutine() {
			return true
		}
	}
	return false
}
