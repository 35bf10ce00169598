package analyze

import (
	"cmp"
	"slices"

	"github.com/gotach/profiler/tachyon"
)

// A chainNode is a place in the tree of all chains.
type chainNode struct {
	time       uint64 // µs
	alone      uint64
	unknown    uint64
	goroutines map[uint64]uint64 // time by goroutine, for the first maxNodeGoroutines
	next       map[chainKey]*chainNode
}

type chainKey struct {
	state  string
	frame  tachyon.Frame
	object int32
	role   string
	how    how
	cycle  bool
}

// A link is a goroutine that keeps another one waiting.
type link struct {
	goroutine int32 // of the window
	role      string
	how       how
	alone     bool
	share     uint64 // one in so many: the time is divided among several goroutines
}

// begin prepares a window.
func (w *waitChains) begin(s *sweep) {
	w.index, w.goroutines = map[uint64]int32{}, s.w.goroutines
	for i, id := range s.w.goroutines {
		w.index[id] = int32(i)
	}
	w.first, w.last = make([]uint64, len(s.w.goroutines)), make([]uint64, len(s.w.goroutines))
	w.end = 0
	for x := range s.w.stretches.all() {
		if w.last[x.goroutine] == 0 || x.begin < w.first[x.goroutine] {
			w.first[x.goroutine] = x.begin
		}
		w.last[x.goroutine] = max(w.last[x.goroutine], x.end)
		w.end = max(w.end, x.end)
	}
	w.families = map[uint64]*family{}
	clear(w.groups)
	w.lists, w.next = [2][]*targetGroup{}, 0
}

// follow adds time to the node of a goroutine, and to those that keep it waiting.
func (w *waitChains) follow(s *sweep, holders map[int32]link, parent *chainNode, x *stretch, by link, time, at uint64, path []int32) {
	key := chainKey{state: w.src.State(x.status, x.stack), role: by.role, how: by.how}
	key.frame = *w.line(x.stack)
	site := &w.none
	if waits(x.status) {
		site = w.site(x.stack)
	}
	if site != &w.none {
		key.object = site.object
	}
	key.cycle = by.goroutine >= 0 && slices.Contains(path, by.goroutine)
	n := w.node(parent, key)
	n.time += time
	if by.alone {
		n.alone += time
	}
	if by.goroutine >= 0 {
		id := s.w.goroutines[by.goroutine]
		if _, ok := n.goroutines[id]; ok || len(n.goroutines) < maxNodeGoroutines {
			n.goroutines[id] += time
		}
	}
	if site == &w.none || key.cycle || len(path) >= maxChain {
		return
	}
	path = append(path, by.goroutine)
	links := w.keeps(s, holders, x, site, at, len(path))
	for _, l := range links {
		now := s.now[l.goroutine]
		if now == 0 || l.role == RoleOtherSide && slices.Contains(path, l.goroutine) { // that it could do it does not make a deadlock
			n.unknown += time / l.share
			continue
		}
		if part := time / l.share; part > 0 { // each of many may wait for many others
			w.follow(s, holders, n, s.w.stretches.at(now-1), l, part, at, path)
		}
	}
	if len(links) == 0 {
		n.unknown += time
	}
}

// noLine is the line of stacks that have none.
var noLine = &tachyon.Frame{}

// line returns the innermost line of the program's own code in a stack.
func (w *waitChains) line(stack uint32) *tachyon.Frame {
	if int(stack) >= len(w.lines) {
		w.lines = append(w.lines, make([]*tachyon.Frame, w.lockSums.stacks()-len(w.lines))...)
	}
	if w.lines[stack] == nil {
		if w.lines[stack] = w.own(stack); w.lines[stack] == nil {
			w.lines[stack] = noLine
		}
	}
	return w.lines[stack]
}

// node returns the node below another one.
func (w *waitChains) node(parent *chainNode, key chainKey) *chainNode {
	n := parent.next[key]
	if n != nil {
		return n
	}
	n = &chainNode{goroutines: map[uint64]uint64{}}
	if w.nodes++; w.nodes > maxChainNodes {
		return n // it is not kept
	}
	if parent.next == nil {
		parent.next = map[chainKey]*chainNode{}
	}
	parent.next[key] = n
	return n
}

// keeps returns the goroutines that keep one waiting, empty if they are unknown.
func (w *waitChains) keeps(s *sweep, holders map[int32]link, x *stretch, site *siteSums, at uint64, depth int) []link {
	switch {
	case isLock(site.kind):
		l, ok := holders[site.object]
		if !ok {
			l.goroutine = -1
			if c := s.waiting[site.object]; c != nil {
				if n, how := s.holder(c); n >= 0 {
					l = link{goroutine: s.w.stays[n].goroutine, role: RoleHolds, how: how, share: 1}
				}
			}
			holders[site.object] = l
		}
		if l.goroutine >= 0 {
			return []link{l}
		}
	case site.kind == tachyon.ObjectWaitGroup:
		return w.lastChild(s, x, at, "last child")
	case isChannel(site.kind):
		if list := w.across(s, x.goroutine, site, depth); len(list) > 0 {
			return list
		}
		return w.lastChild(s, x, at, "child")
	}
	return nil
}

// others returns the keys of those that keep goroutines waiting at a site for a channel, and what they do so by.
func (w *waitChains) others(site *siteSums) (keys []int32, role string) {
	o := w.holdIndex.objects[site.object]
	switch {
	case o == nil || o.sides == nil:
		return nil, ""
	case len(o.exact) > 0 && w.holdIndex.channels.taken:
		return o.exact, RoleHolds
	}
	side := o.sides.of[site.reason]
	switch {
	case side == nil:
		return nil, ""
	case len(side.keys) == 0:
		return side.weak, RoleOtherSide
	}
	return side.keys, RoleOtherSide
}

// across returns the goroutines on the other side of a channel. If there are many it returns some, others each
// time: all together would take long if many goroutines wait for many others, which wait for many. depth is how many
// goroutines are before this one in the chain.
func (w *waitChains) across(s *sweep, waiter int32, site *siteSums, depth int) (list []link) {
	keys, role := w.others(site)
	all := 0
	for _, key := range keys {
		all += len(s.inside[key])
	}
	most := max(1, mostAcross>>max(0, depth-1))
	part := max(1, all/most) // one of so many
	skip := 0
	if part > 1 {
		w.turn++
		skip = w.turn % part
	}
	for _, key := range keys {
		stays := s.inside[key]
		for ; skip < len(stays); skip += part {
			g := s.w.stays[stays[skip]].goroutine
			if g != waiter && !slices.ContainsFunc(list, func(l link) bool { return l.goroutine == g }) {
				list = append(list, link{goroutine: g, role: role, how: inferred})
			}
		}
		skip -= len(stays)
	}
	for i := range list {
		list[i].share = uint64(len(list))
	}
	return list
}

// lastChild returns the child of a goroutine for which it waits: of those that live, and do not live on
// after the wait, the one that lives the longest. If the wait has not ended, a group waits for all that
// have not ended either.
func (w *waitChains) lastChild(s *sweep, x *stretch, at uint64, role string) (list []link) {
	if x.goroutine < 0 {
		return nil
	}
	slack := 2 * s.tick
	until := uint64(0) // the end of the wait
	if now := s.now[x.goroutine]; now > 0 {
		until = s.w.stretches.at(now - 1).end
	}
	lasts := until+slack >= w.end
	best, alive := int32(-1), 0
	for _, i := range w.alive(s.w.goroutines[x.goroutine], at) {
		if s.now[i] == 0 || w.last[i] > until+slack {
			continue
		}
		alive++
		if best < 0 || w.last[i] > w.last[best] {
			best = i
		}
		if lasts && w.last[i]+slack >= w.end && len(list) < maxChildren {
			list = append(list, link{goroutine: i, role: role, how: inferred})
		}
	}
	switch {
	case best < 0:
		return nil
	case role == "child" && (lasts || w.last[best]+slack < until):
		return nil // no child has ended when the wait did
	case len(list) == 0:
		list = []link{{goroutine: best, role: role, how: inferred}}
	}
	for i := range list {
		list[i].alone, list[i].share = alive == 1, uint64(len(list))
	}
	return list
}

// A family is the children of a goroutine that have stretches in a window.
type family struct {
	coming []int32 // goroutines of the window by their first stretches, that have not begun yet
	alive  []int32 // in the order of their beginnings
}

// alive returns the children of a goroutine that have begun at a time, without those that have ended. Times must not go
// back within a window. A goroutine can have very many children, most of which live for a short time.
func (w *waitChains) alive(parent, at uint64) []int32 {
	f := w.families[parent]
	if f == nil {
		f = &family{}
		w.families[parent] = f
		for _, id := range w.children[parent] {
			if i, ok := w.index[id]; ok && w.last[i] > 0 {
				f.coming = append(f.coming, i)
			}
		}
		slices.SortStableFunc(f.coming, func(a, b int32) int { return cmp.Compare(w.first[a], w.first[b]) })
	}
	for len(f.coming) > 0 && w.first[f.coming[0]] <= at {
		f.alive = append(f.alive, f.coming[0])
		f.coming = f.coming[1:]
	}
	f.alive = slices.DeleteFunc(f.alive, func(i int32) bool { return w.last[i] < at })
	return f.alive
}
