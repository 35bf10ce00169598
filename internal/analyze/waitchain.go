package analyze

import (
	"slices"

	"github.com/gotach/profiler/internal/stream"
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
	w.index = map[uint64]int32{}
	for i, id := range s.w.goroutines {
		w.index[stream.GoroutineInFile(id)] = int32(i)
	}
	w.last = make([]uint64, len(s.w.goroutines))
	w.end = 0
	for i := range s.w.stretches {
		x := &s.w.stretches[i]
		w.last[x.goroutine] = max(w.last[x.goroutine], x.end)
		w.end = max(w.end, x.end)
	}
	clear(w.groups)
}

// step counts the targets.
func (w *waitChains) step(x *stretch, begins bool) {
	if !x.target {
		return
	}
	key := waitGroupKey{x.stack, x.status, x.waits, x.goroutine}
	// Targets that run, or wait for the same lock, have the same chain.
	if !waits(x.status) || x.waits != 0 {
		key.goroutine = -1
	}
	if begins {
		w.groups[key]++
	} else if w.groups[key]--; w.groups[key] <= 0 {
		delete(w.groups, key)
	}
}

// pass adds time to the chains of all targets.
func (w *waitChains) pass(s *sweep, from, to uint64) {
	holders := map[int32]link{}
	for key, count := range w.groups {
		time := (to - from) * uint64(count)
		x := stretch{stack: key.stack, status: key.status, waits: key.object, goroutine: key.goroutine}
		if waits(x.status) {
			w.waited += time
		}
		w.follow(s, holders, &w.root, &x, link{goroutine: key.goroutine}, time, to, nil)
	}
}

// follow adds time to the node of a goroutine, and to those that keep it waiting.
func (w *waitChains) follow(s *sweep, holders map[int32]link, parent *chainNode, x *stretch, by link, time, at uint64, path []int32) {
	key := chainKey{state: stateName(x.status, w.leaf(x.stack)), role: by.role, how: by.how}
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
	links := w.keeps(s, holders, x, site, at)
	for _, l := range links {
		now := s.now[l.goroutine]
		if now == 0 {
			n.unknown += time / l.share
			continue
		}
		w.follow(s, holders, n, &s.w.stretches[now-1], l, time/l.share, at, path)
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
func (w *waitChains) keeps(s *sweep, holders map[int32]link, x *stretch, site *siteSums, at uint64) []link {
	switch {
	case isLock(site.kind):
		l, ok := holders[site.object]
		if !ok {
			l.goroutine = -1
			if c := s.waiting[site.object]; c != nil {
				if n, how := s.holder(c); n >= 0 {
					l = link{goroutine: s.w.stays[n].goroutine, role: "holds", how: how, share: 1}
				}
			}
			holders[site.object] = l
		}
		if l.goroutine >= 0 {
			return []link{l}
		}
	case site.kind == tachyon.ObjectWaitGroup:
		return w.lastChild(s, x, "last child")
	case isChannel(site.kind):
		if list := w.across(s, site); len(list) > 0 {
			return list
		}
		return w.lastChild(s, x, "child")
	}
	return nil
}

// across returns the goroutines on the other side of a channel.
func (w *waitChains) across(s *sweep, site *siteSums) (list []link) {
	functions, ok := w.opposite[site]
	if !ok {
		functions = w.otherSide(site)
		if w.opposite == nil {
			w.opposite = map[*siteSums][]string{}
		}
		w.opposite[site] = functions
	}
	for _, f := range functions {
		key, ok := w.number[lockKey{root: rootUser, path: f}]
		if !ok {
			continue
		}
		for _, n := range s.inside[key] {
			g := s.w.stays[n].goroutine
			if len(list) < maxOtherSide && !slices.ContainsFunc(list, func(l link) bool { return l.goroutine == g }) {
				list = append(list, link{goroutine: g, role: "other side", how: inferred})
			}
		}
	}
	for i := range list {
		list[i].share = uint64(len(list))
	}
	return list
}

// lastChild returns the child of a goroutine for which it waits: of those that live, and do not live on
// after the wait, the one that lives the longest. If the wait has not ended, a group waits for all that
// have not ended either.
func (w *waitChains) lastChild(s *sweep, x *stretch, role string) (list []link) {
	if x.goroutine < 0 {
		return nil
	}
	slack := 2 * s.tick
	until := uint64(0) // the end of the wait
	if now := s.now[x.goroutine]; now > 0 {
		until = s.w.stretches[now-1].end
	}
	lasts := until+slack >= w.end
	best, alive := int32(-1), 0
	for _, id := range w.children[stream.GoroutineInFile(s.w.goroutines[x.goroutine])] {
		i, ok := w.index[id]
		if !ok || s.now[i] == 0 || w.last[i] > until+slack {
			continue
		}
		alive++
		if best < 0 || w.last[i] > w.last[best] {
			best = i
		}
		if lasts && w.last[i]+slack >= w.end && len(list) < maxOtherSide {
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
