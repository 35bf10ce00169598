package locks

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/tachyon"
)

// result returns what was found.
func (l *Sums) result() *Locks {
	out := &Locks{Duration: analyze.Micros(l.End), Tick: analyze.Micros(l.tick()), Idle: reader.Micros(l.idles.waited), Locks: []Lock{}, seen: l.seen}
	for key, sums := range l.sums {
		if sums.waited == 0 {
			continue
		}
		o := l.objects[key]
		if sums.notLock(&o) {
			continue
		}
		if l.counted != nil {
			l.counted.count(sums)
		}
		x := Lock{
			key: key, Object: max(0, key), Kind: sums.kind, Name: l.name(key, sums), Capacity: o.Capacity,
			Waited: reader.Micros(sums.waited), BySite: reader.Micros(sums.bySite),
			Goroutines: sums.goroutines, Waits: sums.waits, AtLeast: sums.atLeast, Longest: reader.Micros(sums.longest),
		}
		if !sums.told {
			x.Below = x.Longest
		}
		if o.Addr != 0 {
			x.Address = fmt.Sprintf("%#x", o.Addr)
		}
		x.Sites = l.listSites(sums)
		if analyze.IsLock(x.Kind) || sums.holder.looked {
			x.Holder = l.holder(sums)
		}
		if analyze.IsLock(x.Kind) {
			out.Waited += x.Waited
		}
		out.Locks = append(out.Locks, x)
	}
	l.tellApart(out.Locks)
	sortLocks(out.Locks)
	return out
}

// sortLocks sorts objects: locks first, then by waited time.
func sortLocks(list []Lock) {
	slices.SortFunc(list, func(a, b Lock) int {
		return cmp.Or(analyze.First(a.IsLock(), b.IsLock()), cmp.Compare(b.Waited, a.Waited), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Object, b.Object))
	})
}

// listSites returns the sites of an object.
func (l *Sums) listSites(o *objectSums) []Site {
	type line struct {
		reason string
		frame  tachyon.Frame
	}
	sums := map[line]*Site{}
	for _, s := range o.sites {
		if s.waited == 0 && s.waits == 0 {
			continue // all of its waits were idle
		}
		at := line{s.reason, s.frame}
		x := sums[at]
		if x == nil {
			x = &Site{Func: s.frame.Func, File: s.frame.File, Line: int(s.frame.Line), Reason: s.reason, Sends: s.reason == "select" && l.sources.Offers(&s.frame) != nil}
			sums[at] = x
		}
		x.Waited += reader.Micros(s.waited)
		x.Waits += s.waits
	}
	list := make([]Site, 0, len(sums))
	for _, x := range sums {
		list = append(list, *x)
	}
	sortSites(list)
	return list
}

// sortSites sorts sites, the most waited time first.
func sortSites(list []Site) {
	slices.SortFunc(list, func(a, b Site) int {
		return cmp.Or(cmp.Compare(b.Waited, a.Waited), cmp.Compare(a.Func, b.Func), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Reason, b.Reason))
	})
}

// IsLock reports whether it is a Mutex or RWMutex, which somebody holds.
func (x *Lock) IsLock() bool { return analyze.IsLock(x.Kind) }

// LikeLock reports whether it is one, or a channel that is used like one.
func (x *Lock) LikeLock() bool {
	return x.IsLock() || x.Holder != nil && x.Holder.Role == RoleHolds
}
