package locks

import (
	"regexp"
	"slices"
	"time"
)

// fewestAlike is the least number of objects that Group makes one. Only objects with a number
// count: a Lock without one may be an object that has a Lock with its number too.
const fewestAlike = 3

// A lockAlike is what the objects of a group have in common, such as the locks of many connections.
type lockAlike struct {
	kind, name, role string
	site             Site // the main one, without times
}

var channelNumber = regexp.MustCompile(`channel \d+`)

// alike returns the key of the group of an object.
func (x *Lock) alike() lockAlike {
	k := lockAlike{kind: x.Kind, name: channelNumber.ReplaceAllString(x.Name, "another channel")}
	if len(x.Sites) > 0 {
		k.site = x.Sites[0].place()
	}
	if x.Holder != nil {
		k.role = x.Holder.Role
	}
	return k
}

// place returns the site without what was waited there.
func (s Site) place() Site {
	s.Waited, s.Waits = 0, 0
	return s
}

// Group returns the same with one Lock for all objects of the same kind, name and main site, if
// they are three or more. Its times are their sums, and Objects is their number.
func (l *Locks) Group() *Locks {
	groups := map[lockAlike][]*Lock{}
	for i := range l.Locks {
		x := &l.Locks[i]
		groups[x.alike()] = append(groups[x.alike()], x)
	}
	of := map[int32]int32{} // by key of an object, the key of the first one of its group
	for _, list := range groups {
		if numbered(list) >= fewestAlike {
			for _, x := range list {
				of[x.key] = list[0].key
			}
		}
	}
	goroutines := l.goroutines(of)
	out := *l
	out.Locks = []Lock{}
	for i := range l.Locks {
		x := &l.Locks[i]
		switch first, ok := of[x.key]; {
		case !ok:
			out.Locks = append(out.Locks, *x)
		case first == x.key:
			key := x.alike()
			sum := sumLocks(groups[key])
			sum.Name = key.name
			sum.Goroutines = max(sum.Goroutines, goroutines[first])
			out.Locks = append(out.Locks, sum)
		}
	}
	sortLocks(out.Locks)
	return &out
}

// numbered returns how many of a list are known to be different objects: those with a number.
func numbered(list []*Lock) (n int) {
	for _, x := range list {
		if x.Object > 0 {
			n++
		}
	}
	return n
}

// goroutines returns how many goroutines at least waited for the objects of each group, by the key
// of its first object.
func (l *Locks) goroutines(of map[int32]int32) map[int32]int {
	counted := map[objectGoroutine]struct{}{}
	out := map[int32]int{}
	for key := range l.seen {
		first, ok := of[key.object]
		if !ok {
			continue
		}
		key.object = first
		if _, ok := counted[key]; !ok {
			counted[key] = struct{}{}
			out[first]++
		}
	}
	return out
}

// sumLocks returns the sum of objects that are alike.
func sumLocks(list []*Lock) Lock {
	out := Lock{Kind: list[0].Kind, Objects: numbered(list), key: list[0].key}
	sites := map[Site]*Site{}
	for _, x := range list {
		out.Waited += x.Waited
		out.BySite += x.BySite
		out.Waits += x.Waits
		out.AtLeast = out.AtLeast || x.AtLeast
		if x.Longest > out.Longest {
			out.Longest, out.Below = x.Longest, x.Below
		}
		out.Goroutines = max(out.Goroutines, x.Goroutines)
		for _, s := range x.Sites {
			at := s.place()
			sum := sites[at]
			if sum == nil {
				sum = &at
				sites[at] = sum
			}
			sum.Waited += s.Waited
			sum.Waits += s.Waits
		}
		out.Holder = out.Holder.plus(x)
	}
	for _, s := range sites {
		out.Sites = append(out.Sites, *s)
	}
	sortSites(out.Sites)
	return out
}

// plus adds the holder of an object. The receiver is nil at first.
func (h *Holder) plus(x *Lock) *Holder {
	o := x.Holder
	if o == nil {
		return h
	}
	if h == nil {
		h = &Holder{Role: o.Role, States: map[string]time.Duration{}, Stacks: []HolderStack{}}
	}
	h.Seen += o.Seen
	h.Inferred += o.Inferred
	h.Unknown += o.Unknown
	h.Short += o.Short
	h.TooShort = 2*h.Short > h.Seen+h.Inferred
	for state, time := range o.States {
		h.States[state] += time
	}
	for _, l := range o.Lines {
		i := slices.IndexFunc(h.Lines, func(x HolderLine) bool { return x.State == l.State && x.HolderFrame == l.HolderFrame })
		if i < 0 {
			h.Lines = append(h.Lines, l)
		} else {
			h.Lines[i].Time += l.Time
		}
	}
	sortLines(h.Lines)
	return h
}
