package requests

import (
	"slices"

	"github.com/gotach/profiler/internal/analyze"
)

// maxValues is the number of labels of which the value is kept. There is no bound to that of their
// addresses.
const maxValues = 1 << 16

// addLabelled is add of requests that are given by a label.
func (f *finder) addLabelled(s *analyze.Sample, c *call) int32 {
	n := f.labelled(s, c)
	if c.span != 0 && n != c.span-1 {
		if r := f.list.At(c.span - 1); r.last >= s.Begin() { // it was the request's last goroutine so far
			r.ends(s.At)
		}
	}
	c.span = n + 1
	return n
}

// labelled adds a sample if it has the label. c is the state of its goroutine.
func (f *finder) labelled(s *analyze.Sample, c *call) int32 {
	if s.Labels == nil {
		return -1
	}
	v, ok := f.values[s.Labels]
	if !ok {
		if text, has := s.Labels.Get(f.o.Label); has {
			if v, ok = f.number[text]; !ok {
				f.spans = append(f.spans, nil)
				v = int32(len(f.spans))
				f.number[text] = v
			}
		}
		if len(f.values) >= maxValues {
			clear(f.values)
		}
		f.values[s.Labels] = v
	}
	if v == 0 {
		return -1
	}
	if c.behind != v && analyze.Waits(s.Status) && f.idle.Always(s.Stack) {
		c.behind = v
	}
	if c.behind == v {
		if analyze.Waits(s.Status) && !s.Unselected {
			f.behind += s.At - s.Begin()
		}
		return -1
	}
	// Goroutines do not come in order of time, but nearly. Times that are near each other are one
	// request.
	f.slack = max(20_000, 10*f.Interval())
	list := f.spans[v-1]
	for _, n := range slices.Backward(list[max(0, len(list)-8):]) {
		r := f.list.At(n)
		if s.Begin() <= r.last+f.slack && s.At+f.slack >= r.before {
			if s.At < r.first {
				r.before, r.first = s.Begin(), s.At
			}
			if s.At > r.last {
				r.goesOn(s)
			}
			r.selected = r.selected || !s.Unselected
			return n
		}
	}
	n := f.list.Len
	f.list.Add(request{before: s.Begin(), first: s.At, last: s.At, after: s.At, goroutine: s.Goroutine, selected: !s.Unselected})
	f.spans[v-1] = append(list, n)
	return n
}
