package page

import (
	"cmp"
	"slices"
)

// An event is a change in a record's time: in a step, the record has part more µs, and from that
// step on it has diff times the whole length of each step more.
type event struct {
	step uint32
	diff int32
	part int64
}

// A course is the time of a record over the session, in steps of equal width. Waits of any length
// take two events, so the memory does not grow with the number of steps.
type course struct {
	events []event
	sorted int // that many events are in order and of different steps
}

// add adds the time from one moment to another, in µs.
func (c *course) add(width, from, to uint64) {
	if to <= from {
		return
	}
	first, last := uint32(from/width), uint32((to-1)/width)
	if first == last {
		c.note(event{step: first, part: int64(to - from)})
		return
	}
	c.note(event{step: first, part: int64(uint64(first+1)*width - from)})
	if last > first+1 {
		c.note(event{step: first + 1, diff: 1})
		c.note(event{step: last, diff: -1})
	}
	c.note(event{step: last, part: int64(to - uint64(last)*width)})
}

func (c *course) note(e event) {
	for i := len(c.events) - 1; i >= max(0, len(c.events)-4); i-- {
		if at := &c.events[i]; at.step == e.step {
			at.diff += e.diff
			at.part += e.part
			return
		}
	}
	if c.events = append(c.events, e); len(c.events) >= 64 && len(c.events) >= 2*c.sorted {
		c.arrange()
	}
}

// arrange puts the events in order, with one for each step.
func (c *course) arrange() {
	slices.SortFunc(c.events, func(a, b event) int { return cmp.Compare(a.step, b.step) })
	out := c.events[:0]
	for _, e := range c.events {
		if n := len(out); n > 0 && out[n-1].step == e.step {
			out[n-1].diff += e.diff
			out[n-1].part += e.part
			continue
		}
		out = append(out, e)
	}
	c.events = slices.DeleteFunc(out, func(e event) bool { return e.diff == 0 && e.part == 0 })
	c.sorted = len(c.events)
}

// double makes the steps twice as long. width is what they were.
func (c *course) double(width uint64) {
	for i := range c.events {
		e := &c.events[i]
		if e.step%2 == 1 && e.diff != 0 {
			e.part += int64(e.diff) * int64(width) // the second half of the longer step
			c.events = append(c.events, event{step: e.step/2 + 1, diff: e.diff})
			e = &c.events[i]
			e.diff = 0
		}
		e.step /= 2
	}
	c.arrange()
}

// eventColumns are the events of courses as columns. A step is the difference to the one before in
// its course.
type eventColumns struct{ steps, diffs, parts []int64 }

func (x *eventColumns) add(c *course) {
	at := int64(0)
	for _, e := range c.events {
		x.steps, x.diffs, x.parts = append(x.steps, int64(e.step)-at), append(x.diffs, int64(e.diff)), append(x.parts, e.part)
		at = int64(e.step)
	}
}
