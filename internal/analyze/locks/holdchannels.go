package locks

import "slices"

// settleChannels charges the time of all channels. Who is on the other side changes at any moment, but is looked at
// twice a tick, or less often if there are many channels.
func (s *sweep) settleChannels(at uint64) {
	n := uint64(0)
	for _, c := range s.waiting {
		if c.keys.sides != nil {
			s.settle(c, at)
			s.settleChannel(c, at)
			n++
		}
	}
	s.later = at + s.tick/2*(1+n/mostChannels)
}

const (
	mostChannels = 64  // that are looked at twice a tick
	mostSides    = 8   // goroutines on the other side of a channel among whom time is divided at a time
	maxSides     = 256 // that are looked at for that
)

// settleChannel charges the time of a channel that is not charged yet.
func (s *sweep) settleChannel(c *contended, at uint64) {
	if c.keys.sides == nil || s.charge == nil {
		return
	}
	x := charge{object: c.object, from: c.since, to: at, waiters: 1, time: c.pending}
	c.since, c.pending = at, 0
	if x.time == 0 {
		return
	}
	list, how := s.across(c)
	if len(list) == 0 {
		s.charge(&x)
		return
	}
	count := uint64(len(list))
	rest := x.time % count
	for _, n := range list {
		st := &s.w.stays[n]
		y := x
		y.time = x.time/count + rest
		rest = 0
		y.how, y.goroutine = how, s.w.goroutines[st.goroutine]
		if how == unknown { // each its own
			y.how = max(inferred, st.how)
		}
		y.short = s.keys[st.key].Op.IsChannel() && st.end-st.begin < 2*s.tick
		if now := s.now[st.goroutine]; now > 0 {
			stretch := s.w.stretches.At(now - 1)
			y.stack, y.state = stretch.stack, s.Source.State(stretch.status, stretch.stack)
		}
		s.charge(&y)
	}
}

// across returns stays of goroutines that keep those waiting that wait for a channel: those that have a place in it, else
// those on its other side. If there are many it returns some, others each time. Those that were seen waiting for the
// channel are more certain than others. how is unknown if the stays say it.
func (s *sweep) across(c *contended) (list []int32, how how) {
	c.turn++
	add := func(keys []int32, of func(*stay) bool) bool {
		for _, key := range keys {
			all := s.inside[key]
			step := 1 + len(all)/maxSides
			for i := c.turn % step; i < len(all); i += step {
				if st := &s.w.stays[all[i]]; c.waiters[st.goroutine] == 0 && of(st) {
					list = append(list, all[i])
				}
			}
		}
		if n := len(list); n > mostSides {
			step := (n + mostSides - 1) / mostSides
			some := list[:0]
			for i := c.turn % step; i < n; i += step {
				some = append(some, list[i])
			}
			list = some
		}
		// A goroutine may have several calls of such functions.
		some := list[:0]
		for _, n := range list {
			g := s.w.stays[n].goroutine
			if !slices.ContainsFunc(some, func(m int32) bool { return s.w.stays[m].goroutine == g }) {
				some = append(some, n)
			}
		}
		list = some
		return len(list) > 0
	}
	was := func(st *stay) bool {
		for _, o := range c.side.objects {
			if _, ok := s.Sums.seen[objectGoroutine{s.w.goroutines[st.goroutine], o}]; ok {
				return true
			}
		}
		return false
	}
	any := func(*stay) bool { return true }
	switch {
	case add(c.keys.exact, func(st *stay) bool { return st.object == c.object || st.object == 0 && c.keys.sides.only }),
		add(c.keys.exact, func(st *stay) bool { return st.object == 0 }):
		return list, unknown
	case c.side == nil:
		return nil, unknown
	case add(c.side.keys, was):
		return list, seen
	}
	_ = add(c.side.keys, any) || add(c.side.weak, any)
	return list, inferred
}
