package locks

import (
	"slices"
	"strings"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/tachyon"
)

// others returns the keys of those that keep goroutines waiting at a site for a channel, the best
// ones first, and what they do so by.
func (w *waitChains) others(site *siteSums) (tiers [][]int32, role string) {
	o := w.holdIndex.objects[site.object]
	switch {
	case o == nil || o.sides == nil:
		return nil, ""
	case len(o.exact) > 0 && w.holdIndex.channels.asLocks:
		return [][]int32{o.exact}, RoleHolds
	}
	side := o.sides.of[site.reason]
	if side == nil {
		return nil, ""
	}
	return [][]int32{side.keys, side.weak, side.fields, side.loose}, RoleOtherSide
}

// across returns the goroutines that keep one waiting at a channel. If there are many it returns
// some, others each time: all together would take long if many goroutines wait for many others,
// which wait for many. depth is how many goroutines are before this one in the chain.
//
// Goroutines that were seen on the other side of this very channel all count: whoever acts next
// ends the wait. The same holds for those that have a place in it. Others are only in functions
// that use such a channel, of which there may be many. So the wait must have ended, and only one of
// them may have run then; or only one of them runs each time when the goroutine's waits end there.
func (w *waitChains) across(s *sweep, waiter int32, site *siteSums, depth int) []link {
	if waiter < 0 {
		return nil
	}
	tiers, role := w.others(site)
	for i, keys := range tiers {
		sure, maybe := w.sides(s, waiter, site, keys, role)
		if len(sure) == 0 {
			sure = w.whoRan(s, waiter, site, maybe, keys, role == RoleHolds || i == tierFields && len(maybe) > 1 || i > tierFields)
		}
		if len(sure) > 0 {
			list := w.share(sure, role, depth)
			for i := range list {
				list[i].in = w.inside(s, list[i].goroutine, keys)
			}
			return list
		}
		if len(maybe) > 0 {
			return nil
		}
	}
	return nil
}

// inside returns the frame of a goroutine's present stack that has one of the keys, the innermost
// one.
func (w *waitChains) inside(s *sweep, goroutine int32, keys []int32) *tachyon.Frame {
	for at := s.w.stretches.At(s.now[goroutine] - 1).stack; at != 0; at = w.Caller(at) {
		if slices.ContainsFunc(w.holdIndex.frame(w.Source.Stacks()[at].Frame), func(h frameHold) bool { return slices.Contains(keys, h.key) }) {
			return w.Leaf(at)
		}
	}
	return nil
}

// share divides a wait among goroutines.
func (w *waitChains) share(all []int32, role string, depth int) (list []link) {
	if most := max(1, mostAcross>>max(0, depth-1)); len(all) > most {
		part := (len(all) + most - 1) / most
		w.turn++
		some := all[:0]
		for i := w.turn % part; i < len(all); i += part {
			some = append(some, all[i])
		}
		all = some
	}
	for _, g := range all {
		list = append(list, link{goroutine: g, role: role, how: inferred, share: uint64(len(all))})
	}
	return list
}

// sides returns the goroutines that are in functions with one of the keys: those that surely are on
// the other side of a site's channel, and those that may be, at most maxMaybe.
func (w *waitChains) sides(s *sweep, waiter int32, site *siteSums, keys []int32, role string) (sure, maybe []int32) {
	for _, key := range keys {
		for _, n := range s.inside[key] {
			sec := &s.w.sections[n]
			now := s.now[sec.goroutine]
			if sec.goroutine == waiter || now == 0 || !w.mayEnd(s.w.stretches.At(now-1), site) {
				continue
			}
			switch {
			case role == RoleHolds && w.hasPlace(sec, site), role == RoleOtherSide && w.wasAt(s.w.goroutines[sec.goroutine], site):
				if !slices.Contains(sure, sec.goroutine) {
					sure = append(sure, sec.goroutine)
				}
			case role == RoleHolds && sec.object != 0 || len(maybe) == maxMaybe:
			case !slices.Contains(maybe, sec.goroutine):
				maybe = append(maybe, sec.goroutine)
			}
		}
	}
	return sure, maybe
}

// maxMaybe is the number of goroutines of which it is looked at who ran.
const maxMaybe = 32

// tierFields is the number of those that have no more in common with a channel than the name of a
// field. After it come those of which only the type of the elements is the same.
const tierFields = 2

// whoRan returns the one of several goroutines that ended the present wait of another one, nil if
// it is unknown. If it has to be one that always does so, once is not enough. Several that are in
// one function are workers that may run in step: which of them it always is, cannot be told.
func (w *waitChains) whoRan(s *sweep, waiter int32, site *siteSums, list, keys []int32, hasToBeAlways bool) []int32 {
	from, to, ended := w.wakers.wakeup(waiter)
	if !ended || len(list) == maxMaybe {
		return nil
	}
	ran, always := int32(-1), int32(-1)
	several, severalAlways := false, false
	early := from - min(from, w.wakers.s.tick/2) // goroutines are not looked at all at once
	for _, g := range list {
		if !w.wakers.ran(g, early, to) {
			continue
		}
		several = several || ran >= 0
		ran = g
		if !w.wakers.ran(g, from, to) {
			several = true
			continue
		}
		if w.wakers.always(waiter, site, g) {
			severalAlways = severalAlways || always >= 0
			always = g
		}
	}
	switch {
	case always >= 0 && !severalAlways && w.onlyOne(s, always, list, keys):
		return []int32{always}
	case ran >= 0 && !several && !hasToBeAlways:
		return []int32{ran}
	}
	return nil
}

// onlyOne reports whether no other goroutine of a list is in the same function.
func (w *waitChains) onlyOne(s *sweep, goroutine int32, list, keys []int32) bool {
	in := w.inside(s, goroutine, keys)
	return in != nil && !slices.ContainsFunc(list, func(g int32) bool {
		other := w.inside(s, g, keys)
		return g != goroutine && other != nil && other.Func == in.Func
	})
}

// mayEnd reports whether a goroutine that does this may be the one that ends a wait. It is not if
// it waits in the same function, or at a place where a library waits for the next thing to do.
func (w *waitChains) mayEnd(x *stretch, site *siteSums) bool {
	if !analyze.Waits(x.status) {
		return true
	}
	if w.places.Place(x.stack) != "" {
		return false
	}
	other := w.site(x.stack)
	return other == &w.none || other.frame.Func != site.frame.Func
}

// hasPlace reports whether a section is of a place in a site's channel. Variables of a function may
// be another channel in each call.
func (w *waitChains) hasPlace(sec *section, site *siteSums) bool {
	if sec.object != 0 {
		return sec.object == site.object
	}
	return w.holdIndex.objects[site.object].sides.only && !strings.HasPrefix(w.keys[sec.key].Root, "func ")
}

// wasAt reports whether a goroutine was seen waiting on the other side of a site's channels, in the
// opposite direction.
func (w *waitChains) wasAt(goroutine uint64, site *siteSums) bool {
	if site.object <= 0 {
		return false
	}
	side := w.holdIndex.objects[site.object].sides.of[site.reason]
	return side != nil && w.Sums.waitedFor(goroutine, side.objects)
}

// answerer returns the child of a goroutine that ends its wait by an answer: the only one that
// ended when the wait did, of those that the waiting function has started. A child that itself
// waits for a channel when it ends is none: it may have waited for the end of its parent.
func (w *waitChains) answerer(s *sweep, x *stretch, site *siteSums, at uint64) []link {
	if x.goroutine < 0 {
		return nil
	}
	from, to, ended := w.wakers.wakeup(x.goroutine)
	if !ended {
		return nil
	}
	best, alive := int32(-1), 0
	for _, i := range w.alive(s.w.goroutines[x.goroutine], at) {
		now := s.now[i]
		if now == 0 || w.wakers.last(i).end > to+w.wakers.slack() {
			continue
		}
		alive++
		if !w.wakers.ended(i, from, to) || !w.startedIn(s, i, now-1, site) || w.awaits(i) {
			continue
		}
		if best >= 0 {
			return nil
		}
		best = i
	}
	if best < 0 {
		return nil
	}
	return []link{{goroutine: best, role: roleChild, how: inferred, alone: alive == 1, share: 1}}
}

// awaits reports whether a goroutine waits for a channel in its last stretch.
func (w *waitChains) awaits(goroutine int32) bool {
	x := w.wakers.last(goroutine)
	return analyze.Waits(x.status) && isChannel(w.site(x.stack).kind)
}

// startedIn reports whether a goroutine was started by the function that waits at a site, or is in
// a function literal of it.
func (w *waitChains) startedIn(s *sweep, goroutine, number int32, site *siteSums) bool {
	function := site.frame.Func
	if by := w.createdBy[s.w.goroutines[goroutine]]; by == function || outerFunc(by) == outerFunc(function) && by != "" {
		return true
	}
	for at := s.w.stretches.At(number).stack; at != 0; at = w.Caller(at) {
		if f := w.Leaf(at).Func; strings.HasPrefix(f, outerFunc(function)+".func") {
			return true
		}
	}
	return false
}

// outerFunc returns the function that a function literal is in, by its name; of other functions the
// name.
func outerFunc(name string) string {
	base := strings.LastIndexByte(name, '/') + 1
	if i := strings.Index(name[base:], ".func"); i >= 0 {
		return name[:base+i]
	}
	return name
}
