package portable

import "github.com/gotach/profiler/sampler/internal/deadlock"

// stuck reports whether all goroutines of the last text, except the profiler's own, have wait
// reasons that can be part of a deadlock. mark changes when one of their stacks changes. all says
// that the text is complete.
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

// confirm reports whether there is a deadlock. The source must have no timer set. look takes one
// more tick.
func (s *standstill) confirm(look func()) bool {
	v := deadlock.Confirm()
	look()
	return s.watch.Conclude(v, s.stuck, s.mark)
}
