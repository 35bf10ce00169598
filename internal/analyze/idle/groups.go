package idle

// An idleGroup is the goroutines that were created at one place and run one function.
type idleGroup struct {
	groupKey
	main     bool
	created  bool   // by a function that is known
	time     uint64 // of all samples, µs
	members  uint64
	here     uint64 // members in the present file
	most     uint64 // members in a file, at most
	presence uint64 // the time that the members would have if each lasted as long as the files that it is in, µs
}

type idleProcess struct {
	host  string
	pid   int
	start int64
}

type waitOf struct {
	group, stack uint32
	early        bool
}

type spotOf struct {
	group, in uint32
	early     bool
}

// An idleSpot is a function in which members of a group wait: those that were there when the
// session began, or the others.
type idleSpot struct {
	spotOf
	guests   uint64 // members that have waited there, in the present file
	presence uint64 // the time that they would have if each lasted to the end, or, if they were not there early, as long as its files, µs
	stays    uint64 // guests of all files
	time     uint64 // µs
	choices  uint64 // time in selects, µs
	visits   uint64 // to selects
}

// A stackSite is a stack without the object that the goroutine waits for.
type stackSite struct {
	wait   string
	caller uint32
}

// An idleWait is a stack of a group that may be its home.
type idleWait struct {
	group  uint32
	spot   uint32
	of     waitOf
	deep   bool   // not in the function that the goroutine began with, but in one that it calls
	choice bool   // it is a select
	rest   bool   // it is no home, whatever comes
	time   uint64 // µs
	shared uint64 // part of it with an object for which several goroutines wait
	visits uint64
}

// together returns a wait with the sums of it of members that were there when the session began and
// of others. If it is a select, it is all selects in its function.
func (f *Idle) together(w *idleWait) idleWait {
	sum := *w
	other := w.of
	other.early = !other.early
	if key, ok := f.wait[other]; ok {
		x := &f.waits[key-firstWait]
		sum.time, sum.shared, sum.visits = sum.time+x.time, sum.shared+x.shared, sum.visits+x.visits
	}
	if !w.choice {
		return sum
	}
	at := f.spots[w.spot].spotOf
	at.early = !at.early
	time, visits := f.spots[w.spot].choices, f.spots[w.spot].visits
	if n, ok := f.spot[at]; ok {
		time, visits = time+f.spots[n].choices, visits+f.spots[n].visits
	}
	if sum.time > 0 {
		sum.shared = uint64(float64(sum.shared) / float64(sum.time) * float64(time))
	}
	sum.time, sum.visits = time, visits
	return sum
}

// few reports whether a group has few members in each process.
func (f *Idle) few(g *idleGroup) bool {
	return g.most <= fewMembers && g.members <= fewMembers*f.processes
}

// isRest reports whether the members of a group wait there in the whole session.
func (f *Idle) isRest(w *idleWait) bool {
	g := &f.groups[w.group-1]
	return (g.created || g.main) && f.few(g) && w.visits <= g.members && float64(w.time) >= homeShare*float64(g.presence)
}

// stays reports whether the members that were there when the session began wait there in all of it.
// In a select in another function than that with which they began, they may look at something now
// and then. Where members that came later wait too, they may all be leaked.
func (f *Idle) stays(w *idleWait) bool {
	spot := &f.spots[w.spot]
	if !spot.early || !f.groups[w.group-1].created {
		return false
	}
	later := spot.spotOf
	later.early = false
	if n, ok := f.spot[later]; ok && float64(f.spots[n].time) > (1-homeShare)*float64(spot.time) {
		return false
	}
	if w.choice {
		return float64(spot.choices) >= homeShare*float64(spot.presence) && (spot.visits <= spot.stays || spot.choices >= spot.visits*restTime)
	}
	own := &f.waits[f.wait[w.of]-firstWait]
	return float64(own.time) >= homeShare*float64(spot.presence) && own.visits <= spot.stays
}

// isHome reports whether a wait is the home of its group.
func (f *Idle) isHome(w *idleWait) bool {
	g := &f.groups[w.group-1]
	switch {
	case w.rest:
		return false
	case float64(w.time) < parkShare*float64(g.time), float64(g.time) < lifeShare*float64(g.presence):
		return false
	case float64(w.time) < homeShare*float64(g.time) && (w.choice || float64(w.shared) < homeShare*float64(w.time)):
		return false
	case g.main:
		// The main goroutine may wait for the program's end.
		return !w.deep && (w.visits > 1 || float64(w.time) >= homeShare*float64(g.presence))
	case w.choice && g.created && f.few(g) && float64(w.time) >= homeShare*float64(g.presence) && (!w.deep || w.visits <= g.members):
		return true
	case w.deep && float64(w.shared) < homeShare*float64(w.time):
		return false
	}
	// At least one member of a hundred came back. Members that have never been there make this
	// stricter.
	return w.visits >= g.members+max(1, g.members/100)
}
