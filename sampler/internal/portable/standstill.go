package portable

import "github.com/gotach/profiler/sampler/internal/deadlock"

// stuck reports whether all goroutines of the last text but the profiler's own wait for
// one another as far as their headers say; mark changes when one of them does something
// else. all says that nothing was left out of the text.
func (s *snapshot) stuck(all bool) (stuck bool, mark uint64) {
	if !all {
		return false, 0
	}
	for _, g := range s.now {
		if g.skip {
			continue
		}
		if !g.reason.stuck {
			return false, 0
		}
		mark = mark*0x9e3779b97f4a7c15 + (g.id ^ g.body)
	}
	return true, mark
}

// standstill finds deadlocks that the session hides; see package deadlock.
type standstill struct {
	on    bool
	watch deadlock.Watch
	stuck bool // at the last tick
	mark  uint64
}

// confirm is called while the source waits for no timer. look takes one more tick.
func (s *standstill) confirm(look func()) bool {
	v := deadlock.Confirm()
	look()
	return s.watch.Conclude(v, s.stuck, s.mark)
}
