package locks

import (
	"cmp"
	"slices"
)

// A waitEnd is the end of a wait for an object.
type waitEnd struct {
	at        uint64 // µs
	object    int32
	goroutine int32
}

// waitEnds returns the ends of all waits in order of time. Waits that last at the end of the window
// have not ended.
func (s *sweep) waitEnds() (list []waitEnd) {
	last := make([]int32, len(s.w.goroutines))
	end := uint64(0)
	for x := range s.w.stretches.All() {
		end = max(end, x.end)
	}
	ended := func(x *stretch) {
		if x.waits != 0 {
			list = append(list, waitEnd{x.end, x.waits, x.goroutine})
		}
	}
	for i := range s.w.stretches.Len {
		x := s.w.stretches.At(i)
		if n := last[x.goroutine]; n > 0 {
			if before := s.w.stretches.At(n - 1); before.waits != x.waits || before.end != x.begin || before.stack != x.stack || x.again {
				ended(before)
			}
		}
		last[x.goroutine] = i + 1
	}
	for _, n := range last {
		if n > 0 && s.w.stretches.At(n-1).end+s.tick < end {
			ended(s.w.stretches.At(n - 1))
		}
	}
	slices.SortFunc(list, func(a, b waitEnd) int { return cmp.Compare(a.at, b.at) })
	return list
}

// since returns the part of a list from a time on.
func since(list []waitEnd, at uint64) []waitEnd {
	i, _ := slices.BinarySearchFunc(list, at, func(e waitEnd, at uint64) int { return cmp.Compare(e.at, at) })
	return list[i:]
}

// handOver finds the objects of sections from what happens at their ends: if a wait for an object
// ends at the same tick, and for no other one, it was that object that the goroutine gave up.
func (s *sweep) handOver(all []waitEnd) {
	ends := map[int32][]waitEnd{} // by key
	for _, e := range all {
		for key := range s.objects[e.object].all {
			ends[key] = append(ends[key], e)
		}
	}
	slack := s.tick / 2
	for i := range s.w.sections {
		sec := &s.w.sections[i]
		if sec.object != 0 || sec.key < 0 || sec.end >= s.until {
			continue // of the last ones the end is not known yet
		}
		for _, e := range since(ends[sec.key], sec.end-min(sec.end, slack)) {
			if e.at > sec.end+slack {
				break
			}
			if e.goroutine == sec.goroutine || s.objects[e.object].sides == nil && s.excluded(e.object, sec) {
				continue
			}
			if sec.object != 0 && sec.object != e.object {
				sec.object, sec.how = 0, unknown
				break
			}
			sec.object, sec.how = e.object, inferred
		}
	}
}

// countHandovers counts how often waits for a lock ended while a goroutine was in a section of it.
func (s *sweep) countHandovers(all []waitEnd) {
	ends := map[int32][]waitEnd{} // by object
	for _, e := range all {
		ends[e.object] = append(ends[e.object], e)
	}
	for i := range s.w.sections {
		sec := &s.w.sections[i]
		if sec.object == 0 || sec.read {
			continue
		}
		for _, e := range since(ends[sec.object], sec.begin+s.tick) {
			if e.at+s.tick > sec.end {
				break
			}
			sec.handovers++
		}
	}
}
