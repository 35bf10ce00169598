package locks

import "slices"

// settleChannels charges the time of all channels. Who is on the other side changes at any moment,
// but is looked at twice a tick, or less often if there are many channels.
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
		sec := &s.w.sections[n]
		y := x
		y.time = x.time/count + rest
		rest = 0
		if y.how = how; how == unknown { // each its own
			y.how = max(inferred, sec.how)
		}
		y.short = s.keys[sec.key].Op.IsChannel() && sec.end-sec.begin < 2*s.tick
		s.sayWho(&y, sec)
		s.charge(&y)
	}
}

// across returns sections of goroutines that keep those waiting that wait for a channel: those that
// have a place in it, else those on its other side. If there are many it returns some, others each
// time. Those that were seen waiting for the channel are more certain than others. how is unknown
// if the sections say it.
func (s *sweep) across(c *contended) (list []int32, how how) {
	c.turn++
	add := func(keys []int32, of func(*section) bool) bool {
		for _, key := range keys {
			all := s.inside[key]
			step := 1 + len(all)/maxSides
			for i := c.turn % step; i < len(all); i += step {
				if sec := &s.w.sections[all[i]]; c.waiters[sec.goroutine] == 0 && of(sec) {
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
			g := s.w.sections[n].goroutine
			if !slices.ContainsFunc(some, func(m int32) bool { return s.w.sections[m].goroutine == g }) {
				some = append(some, n)
			}
		}
		list = some
		return len(list) > 0
	}
	was := func(sec *section) bool { return s.waitedFor(s.w.goroutines[sec.goroutine], c.side.objects) }
	any := func(*section) bool { return true }
	switch {
	case add(c.keys.exact, func(sec *section) bool { return sec.object == c.object || sec.object == 0 && c.keys.sides.only }),
		add(c.keys.exact, func(sec *section) bool { return sec.object == 0 }):
		return list, unknown
	case c.side == nil:
		return nil, unknown
	case add(c.side.keys, was):
		return list, seen
	}
	_ = add(c.side.keys, any) || add(c.side.weak, any)
	return list, inferred
}
