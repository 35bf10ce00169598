package locks

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/tachyon"
)

// Roles of links, beside RoleHolds and RoleOtherSide.
const (
	roleLastChild = "last child"
	roleChild     = "child"
)

// A chainNode is a place in the tree of all chains.
type chainNode struct {
	time       uint64 // µs
	alone      uint64
	brother    uint64
	unknown    uint64
	goroutines map[uint64]uint64 // time by goroutine
	more       bool              // there were others, for which there was no room
	next       map[chainKey]*chainNode
}

type chainKey struct {
	state  string
	frame  tachyon.Frame
	object int32
	known  *KnownWait
	peer   string        // see FarEnds
	in     tachyon.Frame // of the link, zero if it is frame
	has    tachyon.Frame // see WaitNode.Has, zero if it has none
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
	brother   bool           // it is alone, and was not before
	in        *tachyon.Frame // which function of it does so, nil if it is not known
	share     uint64         // one in so many: the time is divided among several goroutines
}

// begin prepares a window.
func (w *waitChains) begin(s *sweep) {
	w.index, w.goroutines = map[uint64]int32{}, s.w.goroutines
	for i, id := range s.w.goroutines {
		w.index[id] = int32(i)
	}
	w.families = map[uint64]*family{}
	w.wakers = newWakers(s)
	clear(w.groups)
	w.lists, w.next = [2][]*targetGroup{}, 0
}

// chainKey returns the key of a goroutine's node, without cycle, and the site at which it waits for
// an object.
func (w *waitChains) chainKey(x *stretch, by *link) (key chainKey, site *siteSums) {
	key = chainKey{state: w.Source.State(x.status, x.stack), frame: *w.line(x.stack), role: by.role, how: by.how}
	if by.in != nil && *by.in != key.frame {
		key.in = *by.in
	}
	if !analyze.Waits(x.status) {
		return key, &w.none
	}
	site = w.site(x.stack)
	if key.known = w.known(x.stack); key.known != nil {
		key.has = *w.hasOne(x.stack, key.known.pool)
	} else if site != &w.none {
		key.object = site.object
	}
	if name := w.farEnds.Of(x.stack); !strings.Contains(name, " from ") { // a server has many of these
		key.peer = name
	}
	return key, site
}

// follow adds time to the node of a goroutine, and to those that keep it waiting.
func (w *waitChains) follow(s *sweep, holders map[int32]link, parent *chainNode, x *stretch, by link, time, at uint64, path []int32) {
	key, site := w.chainKey(x, &by)
	key.cycle = by.goroutine >= 0 && slices.Contains(path, by.goroutine)
	n := w.node(parent, key)
	n.time += time
	if by.alone {
		n.alone += time
	}
	if by.brother {
		n.brother += time
	}
	if by.goroutine >= 0 {
		id := s.w.goroutines[by.goroutine]
		w.addTo(n, id, time)
	}
	if site == &w.none && key.known == nil || key.cycle || len(path) >= maxChain {
		return
	}
	path = append(path, by.goroutine)
	var links []link
	if key.known == nil {
		links = w.blockers(s, holders, x, site, at, len(path))
	} else if links = w.holdersOf(s, x, key.known, at, len(path)); len(links) == 0 {
		w.tell(s, x, link{goroutine: -1}, key.known.what, time, at, len(path))
		return
	}
	for _, l := range links {
		now := s.now[l.goroutine]
		if now == 0 || l.role == RoleOtherSide && slices.Contains(path, l.goroutine) { // that it could do it does not make a deadlock
			n.unknown += time / l.share
			w.tell(s, x, link{goroutine: -1}, "", time/l.share, at, len(path))
			continue
		}
		if part := time / l.share; part > 0 { // each of many may wait for many others
			w.tell(s, x, l, "", part, at, len(path))
			w.follow(s, holders, n, s.w.stretches.At(now-1), l, part, at, path)
		}
	}
	if len(links) == 0 {
		n.unknown += time
		w.tell(s, x, link{goroutine: -1}, "", time, at, len(path))
	}
}

// tell tells tests what keeps a target waiting, or what it is known to wait for, by name.
func (w *waitChains) tell(s *sweep, x *stretch, l link, name string, time, at uint64, depth int) {
	if w.onCause == nil || depth > 1 {
		return
	}
	c := cause{role: l.role, how: l.how, at: at, time: time, state: w.Source.State(x.status, x.stack), stack: x.stack, name: name}
	if x.goroutine >= 0 {
		c.waiter = s.w.goroutines[x.goroutine]
	}
	if l.goroutine >= 0 {
		c.by = s.w.goroutines[l.goroutine]
	}
	w.onCause(&c)
}

// addTo adds the time of a goroutine to a node.
func (w *waitChains) addTo(n *chainNode, goroutine, time uint64) {
	_, ok := n.goroutines[goroutine]
	switch {
	case ok || len(n.goroutines) < maxNodeGoroutines:
	case w.room > 0:
		w.room--
	default:
		n.more = true
		return
	}
	n.goroutines[goroutine] += time
}

// noLine is the line of stacks that have none.
var noLine = &tachyon.Frame{}

// line returns the innermost line of the program's own code in a stack.
func (w *waitChains) line(stack uint32) *tachyon.Frame {
	if *analyze.At(&w.lines, stack, w.Sums.Stacks()) == nil {
		if w.lines[stack] = w.ProgramFrame(stack); w.lines[stack] == nil {
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

// blockers returns the goroutines that keep one waiting, empty if they are unknown.
func (w *waitChains) blockers(s *sweep, holders map[int32]link, x *stretch, site *siteSums, at uint64, depth int) []link {
	switch {
	case analyze.IsLock(site.kind):
		l, ok := holders[site.object]
		if !ok {
			l.goroutine = -1
			if c := s.waiting[site.object]; c != nil {
				if n, how := s.holder(c); n >= 0 {
					l = link{goroutine: s.w.sections[n].goroutine, role: RoleHolds, how: how, share: 1}
				}
			}
			holders[site.object] = l
		}
		if l.goroutine >= 0 {
			return []link{l}
		}
	case site.kind == tachyon.ObjectWaitGroup:
		return w.lastChild(s, x, at)
	case isChannel(site.kind):
		if list := w.across(s, x.goroutine, site, depth); len(list) > 0 {
			return list
		}
		return w.answerer(s, x, site, at)
	}
	return nil
}

// lastChild returns the child of a goroutine for which it waits: of those that live, and do not go
// on after the wait, the one that lives the longest. If the wait does not end, a group waits for
// all that do not end either.
func (w *waitChains) lastChild(s *sweep, x *stretch, at uint64) (list []link) {
	if x.goroutine < 0 {
		return nil
	}
	_, to, ends := w.wakers.wakeup(x.goroutine)
	best, alive := int32(-1), 0
	for _, i := range w.alive(s.w.goroutines[x.goroutine], at) {
		if s.now[i] == 0 || ends && w.wakers.goesOn(i, to) {
			continue
		}
		alive++
		if best < 0 || w.wakers.last(i).end > w.wakers.last(best).end {
			best = i
		}
		if !ends && w.wakers.last(i).end+w.wakers.slack() >= w.wakers.end && len(list) < maxChildren {
			list = append(list, link{goroutine: i, role: roleLastChild, how: inferred})
		}
	}
	if best < 0 {
		return nil
	}
	if len(list) == 0 {
		list = []link{{goroutine: best, role: roleLastChild, how: inferred}}
	}
	for i := range list {
		list[i].alone, list[i].share = alive == 1, uint64(len(list))
		list[i].brother = list[i].alone && w.brothers[s.w.goroutines[best]]
	}
	return list
}

// A family is the children of a goroutine that have stretches in a window.
type family struct {
	coming []int32 // goroutines of the window by their first stretches, that have not begun yet
	alive  []int32 // in the order of their beginnings
}

// alive returns the children of a goroutine that have begun at a time, without those that have
// ended. Times must not go back within a window. A goroutine can have very many children, most of
// which live for a short time.
func (w *waitChains) alive(parent, at uint64) []int32 {
	f := w.families[parent]
	if f == nil {
		f = &family{}
		w.families[parent] = f
		for _, id := range w.children[parent] {
			if i, ok := w.index[id]; ok && len(w.wakers.numbers[i]) > 0 {
				f.coming = append(f.coming, i)
			}
		}
		slices.SortStableFunc(f.coming, func(a, b int32) int { return cmp.Compare(w.wakers.first(a), w.wakers.first(b)) })
	}
	for len(f.coming) > 0 && w.wakers.first(f.coming[0]) <= at {
		f.alive = append(f.alive, f.coming[0])
		f.coming = f.coming[1:]
	}
	f.alive = slices.DeleteFunc(f.alive, func(i int32) bool { return w.wakers.last(i).end < at })
	return f.alive
}
