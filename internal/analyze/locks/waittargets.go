package locks

import (
	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/tachyon"
)

// A waitGroupKey is the targets that do the same and wait for the same.
type waitGroupKey struct {
	stack     uint32
	status    tachyon.Status
	object    int32
	goroutine int32 // -1: any
}

// A targetGroup is targets that have the same chain.
type targetGroup struct {
	waitGroupKey
	count int
	since uint64 // its time is in the chains until then, µs
	list  int    // index into waitChains.lists; -1: in none
	at    int    // index into the list
}

const (
	onLocks  = iota // groups that wait for locks: their chains can change at any moment
	onOthers        // others that something may keep waiting: looked at twice a tick, or less often if they are many
	alone    = -1   // groups that nothing keeps waiting as far as is known
)

// step counts the targets.
func (w *waitChains) step(x *stretch, begins bool) {
	if !x.target {
		return
	}
	key := targetKey(x)
	g := w.groups[key]
	switch {
	case g == nil && !begins:
		return
	case g == nil:
		g = &targetGroup{waitGroupKey: key, since: x.begin, list: w.listOf(key)}
		w.groups[key] = g
		if g.list >= 0 {
			g.at = len(w.lists[g.list])
			w.lists[g.list] = append(w.lists[g.list], g)
		}
	}
	if begins {
		g.count++
		return
	}
	if g.count--; g.count > 0 {
		return
	}
	delete(w.groups, key)
	if g.list >= 0 {
		list := w.lists[g.list]
		last := list[len(list)-1]
		list[g.at], last.at = last, g.at
		w.lists[g.list] = list[:len(list)-1]
	}
}

// targetKey returns the key of a target's group.
func targetKey(x *stretch) waitGroupKey {
	key := waitGroupKey{x.stack, x.status, x.waits, x.goroutine}
	// Targets that run, or wait for the same lock, have the same chain.
	if !analyze.Waits(x.status) || x.waits != 0 {
		key.goroutine = -1
	}
	return key
}

// listOf returns the list of a group.
func (w *waitChains) listOf(key waitGroupKey) int {
	if !analyze.Waits(key.status) {
		return alone
	}
	switch site, known := w.site(key.stack), w.known(key.stack); {
	case key.object != 0:
		return onLocks
	case known != nil && known.pool != nil:
		return onOthers
	case key.goroutine >= 0 && len(w.children[w.goroutines[key.goroutine]]) > 0,
		isChannel(site.kind) && w.holdIndex.objects[site.object] != nil:
		if isChannel(site.kind) || site.kind == tachyon.ObjectWaitGroup {
			return onOthers
		}
	}
	return alone
}

// pass adds the time until now to the chains that change now, or may have changed.
func (w *waitChains) pass(s *sweep, to uint64, changes []moment) {
	clear(w.holds)
	for _, m := range changes {
		if x := s.w.stretches.At(m.number()); x.target {
			if g := w.groups[targetKey(x)]; g != nil {
				w.settle(s, g, to)
			}
		}
	}
	for _, g := range w.lists[onLocks] {
		w.settle(s, g, to)
	}
	if to >= w.next {
		w.next = to + s.tick/2*max(1, uint64(len(w.lists[onOthers])/mostAcross))
		for _, g := range w.lists[onOthers] {
			w.settle(s, g, to)
		}
	}
}

// settle adds the time of a group until now to its chain.
func (w *waitChains) settle(s *sweep, g *targetGroup, to uint64) {
	if to <= g.since {
		return
	}
	time := (to - g.since) * uint64(g.count)
	g.since = to
	x := stretch{stack: g.stack, status: g.status, waits: g.object, goroutine: g.goroutine}
	if analyze.Waits(x.status) {
		w.waited += time
	}
	w.follow(s, w.holds, &w.root, &x, link{goroutine: g.goroutine}, time, to, nil)
}
