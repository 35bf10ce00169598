package locks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/syntax"
)

// holdersOf returns the goroutines that have a connection of the pool for which one waits, empty if they are unknown. They surely have
// one of this pool if there is no other pool, or if it has the same name in the text. If that is a parameter, it has to be in the same
// function, and the one that ran when the wait ended.
func (w *waitChains) holdersOf(s *sweep, x *stretch, k *KnownWait, at uint64, depth int) []link {
	p := k.pool
	if p == nil || x.goroutine < 0 {
		return nil
	}
	if p.starts != "" {
		return w.groupHolders(s, x, k, at, depth)
	}
	if p.dials != "" {
		for _, i := range w.alive(s.w.goroutines[x.goroutine], at) {
			if s.now[i] != 0 && w.createdBy[s.w.goroutines[i]] == p.dials {
				return []link{{goroutine: i, role: roleChild, how: inferred, share: 1}}
			}
		}
	}
	number, ok := w.number[syntax.Key{Root: rootPool, Path: p.name}]
	if !ok {
		return nil
	}
	sure, maybe, nested := w.poolUsers(s, x, k, number)
	if p == poolOfFlight {
		if len(sure) > 1 {
			return nil // which of them makes the equal call is not known
		}
		return w.share(sure, RoleHolds, depth)
	}
	of, _ := w.poolOn(x.stack, p)
	if w.single(p) {
		of = syntax.Key{} // whatever its name is
	}
	count := len(sure)
	if w.hasOne(x.stack, p) != noLine {
		count++
	}
	w.noteInUse(k, of, count)
	w.inUse[k].mixed = w.inUse[k].mixed || nested
	if len(sure) == 0 {
		sure = w.whoRan(s, x.goroutine, w.site(x.stack), maybe, []int32{number}, false)
	}
	list := w.share(sure, RoleHolds, depth)
	for i := range list {
		_, list[i].in = w.poolOn(s.w.stretches.At(s.now[list[i].goroutine]-1).stack, p)
	}
	return list
}

// poolUsers returns the goroutines that have a connection of the pool for which x waits, and those that may have one of it. nested says that
// others may have one, but wait for one of another pool. number is that of the pool's key.
func (w *waitChains) poolUsers(s *sweep, x *stretch, k *KnownWait, number int32) (sure, maybe []int32, nested bool) {
	p := k.pool
	mine, in := w.poolOn(x.stack, p)
	for _, n := range s.inside[number] {
		g := s.w.sections[n].goroutine
		if g == x.goroutine || s.now[g] == 0 || slices.Contains(sure, g) || slices.Contains(maybe, g) {
			continue
		}
		other := s.w.stretches.At(s.now[g] - 1)
		its, of := w.poolOn(other.stack, p)
		if analyze.Waits(other.status) && (w.known(other.stack) == k || w.places.Place(other.stack) != "") {
			if w.known(other.stack) != k {
				continue
			}
			if w.hasOne(other.stack, p) == noLine { // it may have one, and waits for one of another pool
				nested = true
				continue
			}
		}
		switch {
		case w.single(p), mine != (syntax.Key{}) && its == mine:
			sure = append(sure, g)
		case mine == (syntax.Key{}) && its == mine && in != nil && of != nil && in.Func == of.Func && len(maybe) < maxMaybe:
			maybe = append(maybe, g)
		}
	}
	return sure, maybe, nested
}

// groupHolders returns the goroutines of a group with a limit, such as an errgroup: the children that it has started.
func (w *waitChains) groupHolders(s *sweep, x *stretch, k *KnownWait, at uint64, depth int) []link {
	var list []int32
	for _, i := range w.alive(s.w.goroutines[x.goroutine], at) {
		if s.now[i] != 0 && strings.HasPrefix(w.createdBy[s.w.goroutines[i]], k.pool.starts) {
			list = append(list, i)
		}
	}
	w.noteInUse(k, syntax.Key{}, len(list))
	return w.share(list, RoleHolds, depth)
}

// An inUse says how many goroutines had places of a pool while somebody waited for one.
type inUse struct {
	of    syntax.Key  // the pool
	times map[int]int // instants by the number of goroutines
	mixed bool        // several pools, or goroutines that have more than one place: the number says nothing
}

// noteInUse notes how many goroutines have places of a pool while somebody waits for one.
func (w *waitChains) noteInUse(k *KnownWait, of syntax.Key, count int) {
	u := w.inUse[k]
	if u == nil {
		u = &inUse{of: of, times: map[int]int{}}
		w.inUse[k] = u
	}
	u.mixed = u.mixed || u.of != of
	u.times[count]++
}

// sureInUse is the part of the instants at which as many places must be in use for the number to be said.
const sureInUse = 0.8

// text says how many places are in use, "" if that is not known. Nobody waits while one is free, so those in use are all there are;
// of http.Transport those for one host.
func (u *inUse) text(k *KnownWait) string {
	if u == nil || u.mixed {
		return ""
	}
	all, most := 0, 0
	for count, n := range u.times {
		all += n
		if n > u.times[most] {
			most = count
		}
	}
	switch {
	case most == 0 || float64(u.times[most]) < sureInUse*float64(all):
		return ""
	case k.pool == poolOfTransport:
		return fmt.Sprintf(" (%d in use)", most)
	}
	return fmt.Sprintf(" (%d of %d in use)", most, most)
}
