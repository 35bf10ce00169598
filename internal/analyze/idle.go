package analyze

import (
	"time"

	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// Idle tells waits that are idle from those that somebody waits for: nobody would be faster if an idle wait
// were shorter. In this order:
//
//   - A goroutine with labels, or in a request (requestKinds), is at work.
//   - A wait at a known place (idlePlaces) is idle: there a library waits for the next thing to do. At some
//     of them this holds with labels too.
//   - A wait at home is idle. The home of a group, which is the goroutines that were created at one place, is
//     the stack in which its members rest: they wait in the function that they began with, spend at least
//     homeShare of the session there, and come back to it. A group of at most fewMembers that waits in a select for
//     homeShare of the session need not come back. If samples are selected by state, no home is known.
//   - A group of at most fewMembers rests if each waits at one place in the whole session, in a receive or the like. In
//     a session of at least restTime that is idle.
//   - A select without cases is idle, and so are waits of the runtime's own goroutines.
//
// Whether a stack is a home is known when all samples were read. So Add gives each sample a WaitKey. Whoever
// adds up samples keeps those of different keys apart, and asks Is after Finish:
//
//	idle := analyze.NewIdle(src)
//	for s, err := range src.Samples() {
//		sums[idle.Add(s)] += s.Wall
//	}
//	idle.Finish()
//	for key, wall := range sums {
//		if idle.Is(key) { … }
//	}
//
// Keys are small numbers: there are as many as groups have stacks that may be homes. The memory does not
// grow with the number of samples.
type Idle struct {
	src     *stream.Source
	states  states[idleState]
	stacks  []idleStack // by stack
	frames  []idleFrame // by frame
	entries map[string]uint32
	sites   map[stackSite]uint32 // the first stack there

	groups []idleGroup
	group  map[groupKey]uint32 // number + 1
	waits  []idleWait          // WaitKey firstWait + i
	wait   map[waitOf]WaitKey

	file       int    // number of the present file + 1
	begin, end uint64 // of the file's samples, µs
	processes  uint64
	window     bool   // the samples are of a part of a session
	idle       []bool // by WaitKey, after Finish
	rests      []bool // likewise
	sample     sample
}

// A WaitKey says where a goroutine waits, as far as it matters to Idle.
type WaitKey uint32

const (
	NotIdle   WaitKey = 0 // the goroutine does not wait, or is at work
	KnownIdle WaitKey = 1 // it is idle, whatever comes later
	firstWait WaitKey = 2
)

const (
	// homeShare is the least share of its time that a group spends at home.
	homeShare = 0.9
	// lifeShare is how much of the session its goroutines live at least, on average.
	lifeShare = 0.5
	// fewMembers is how many members a group has at most in a process that is at home in a select to which it never came back, or
	// that rests: one that works in the background, but had nothing to do in the whole session.
	fewMembers = 4
	// restTime is the least time, in µs, after which a wait in the whole session is idle. In a shorter session, or a selection of
	// a short time, goroutines may wait for an answer in all of it.
	restTime = 5_000_000
	// maxWaits bounds the memory that keys take, and what sums by key take. Further waits are not idle.
	maxWaits = 1 << 18
	// maxIdleGroups bounds the memory of groups. The goroutines of further ones have no home.
	maxIdleGroups = 1 << 18
)

// idleState is the state of a goroutine.
type idleState struct {
	entry uint32
	group uint32 // number + 1; 0: none
	stack uint32 // of the previous sample
	key   WaitKey
	waits bool   // in the previous sample
	file  uint32 // in which it has a sample, + 1
}

type groupKey struct{ creator, entry uint32 }

// An idleGroup is the goroutines that were created at one place and began with one function.
type idleGroup struct {
	main     bool
	created  bool   // by a function that is known
	time     uint64 // of all samples, µs
	members  uint64
	here     uint64 // members in the present file
	most     uint64 // members in a file, at most
	presence uint64 // the time that the members would have if each lasted as long as the files that it is in, µs
}

type waitOf struct{ group, stack uint32 }

// A stackSite is a stack without the object that the goroutine waits for.
type stackSite struct {
	wait   string
	caller uint32
}

// An idleWait is a stack of a group that may be its home.
type idleWait struct {
	group  uint32
	deep   bool   // not in the function that the goroutine began with, but in one that it calls
	choice bool   // it is a select
	rest   bool   // it is no home, whatever comes
	time   uint64 // µs
	shared uint64 // part of it with an object for which several goroutines wait
	visits uint64
}

// idleStack is what is known about a stack.
type idleStack struct {
	kind   idleKind
	deep   bool
	choice bool       // it waits in a select
	shared bool       // the object that is waited for is one for which several goroutines waited
	site   uint32     // the stack without the object
	entry  uint32     // number of the function that the goroutine began with
	place  *idlePlace // that is known; nil: none
}

type idleKind uint8

const (
	idleUnknown idleKind = iota // not looked at yet
	idleNever
	idlePlain  // a known place, unless the goroutine has labels
	idleAlways // a known place, with labels too
	idleHome   // may be a home
	idleRest   // is no home, but a goroutine may spend a whole session there
)

// NewIdle returns an Idle for the samples of a source, which must have stream.Options.Labels and Creators.
func NewIdle(src *stream.Source) *Idle {
	return &Idle{
		src: src, entries: map[string]uint32{}, processes: uint64(src.ProcessCount()),
		states: states[idleState]{src: src, keep: func(s *idleState) bool { return s.waits && s.key != NotIdle }},
		sites:  map[stackSite]uint32{}, group: map[groupKey]uint32{}, wait: map[waitOf]WaitKey{},
	}
}

// Add adds a sample. It returns the key of the sample's wait.
func (f *Idle) Add(s *stream.Sample) WaitKey {
	waiting := waits(s.Status)
	switch {
	case s.NotSeen || s.Interpreter > tachyon.Runtime:
		return NotIdle
	case s.Interpreter == tachyon.Runtime:
		if waiting && !isGap(f.leaf(s.Stack)) {
			return KnownIdle
		}
		return NotIdle
	}
	x := &f.sample
	x.Sample = s
	x.file, _ = f.src.File()
	if f.file != x.file+1 {
		f.nextFile()
		f.file, f.begin, f.end = x.file+1, s.Time, s.Time
	}
	wall := uint64(s.Wall / time.Microsecond)
	f.begin, f.end = min(f.begin, s.Time-min(s.Time, wall)), max(f.end, s.Time)
	at := f.stack(s.Stack)
	st := f.states.of(x)
	first := st.file != uint32(f.file)
	st.file = uint32(f.file)
	if st.entry != at.entry || st.group == 0 || first {
		f.join(st, at.entry, s, first)
	}
	if st.group != 0 {
		f.groups[st.group-1].time += wall
	}
	same := st.waits == waiting && f.stacks[st.stack].site == at.site
	st.stack, st.waits = s.Stack, waiting
	if !waiting {
		st.key = NotIdle
		return NotIdle
	}
	switch at.kind {
	case idleAlways:
		st.key = KnownIdle
		return KnownIdle
	case idlePlain:
		st.key = KnownIdle
		if s.Labels != nil {
			return NotIdle
		}
		return KnownIdle
	case idleHome, idleRest:
		if at.kind == idleRest && (st.group == 0 || f.groups[st.group-1].here > fewMembers) {
			break
		}
		if !same || st.key < firstWait {
			st.key = f.enter(st.group, at)
		}
		if st.key < firstWait {
			return NotIdle
		}
		w := &f.waits[st.key-firstWait]
		w.time += wall
		if same && s.Status&tachyon.Moved != 0 {
			w.visits++
		}
		if at.shared {
			w.shared += wall
		}
		if s.Labels != nil {
			return NotIdle
		}
		return st.key
	}
	st.key = NotIdle
	return NotIdle
}

// join makes a sample's goroutine a member of the group of those with its creator and an entry.
func (f *Idle) join(st *idleState, entry uint32, s *stream.Sample, first bool) {
	before := st.group
	st.entry, st.group = entry, 0
	key := groupKey{s.Creator, entry}
	n, ok := f.group[key]
	if !ok {
		if len(f.groups) >= maxIdleGroups {
			return
		}
		f.groups = append(f.groups, idleGroup{main: s.Status&tachyon.MainThread != 0, created: s.Creator != 0})
		n = uint32(len(f.groups))
		f.group[key] = n
	}
	st.group = n
	g := &f.groups[n-1]
	if before != n {
		g.members++
	}
	if before != n || first {
		g.here++
	}
}

// enter returns the key of a wait at which a goroutine of a group arrives.
func (f *Idle) enter(group uint32, at *idleStack) WaitKey {
	if group == 0 {
		return NotIdle
	}
	of := waitOf{group, at.site}
	key, ok := f.wait[of]
	if !ok {
		if len(f.waits) >= maxWaits {
			return NotIdle
		}
		key = firstWait + WaitKey(len(f.waits))
		f.waits = append(f.waits, idleWait{group: group, deep: at.deep, choice: at.choice, rest: at.kind == idleRest})
		f.wait[of] = key
	}
	f.waits[key-firstWait].visits++
	return key
}

// nextFile ends a file.
func (f *Idle) nextFile() {
	for i := range f.groups {
		g := &f.groups[i]
		g.presence += g.here * (f.end - f.begin)
		g.most = max(g.most, g.here)
		g.here = 0
	}
}

// Finish says that all samples were added. Then Is knows about all keys.
func (f *Idle) Finish() {
	f.nextFile()
	f.idle = make([]bool, firstWait+WaitKey(len(f.waits)))
	f.idle[KnownIdle] = true
	f.rests = make([]bool, len(f.idle))
	if f.src.SelectsStates() {
		return
	}
	for i := range f.waits {
		w, key := &f.waits[i], firstWait+WaitKey(i)
		if f.idle[key] = f.isHome(w); !f.idle[key] && f.isRest(w) {
			f.rests[key] = true
			g := &f.groups[w.group-1]
			f.idle[key] = !f.window && g.presence >= restTime*g.members
		}
	}
}

// Is reports whether the waits with a key are idle.
func (f *Idle) Is(key WaitKey) bool { return f.idle[key] }

// Rests reports whether the waits with a key are those of a group that rests. Most such goroutines wait for the end of the
// program or for an error. One that hangs looks the same.
func (f *Idle) Rests(key WaitKey) bool { return f.rests[key] }

// few reports whether a group has few members in each process.
func (f *Idle) few(g *idleGroup) bool {
	return g.most <= fewMembers && g.members <= fewMembers*f.processes
}

// isRest reports whether the members of a group wait there in the whole session.
func (f *Idle) isRest(w *idleWait) bool {
	g := &f.groups[w.group-1]
	return (g.created || g.main) && f.few(g) && w.visits <= g.members && float64(w.time) >= homeShare*float64(g.presence)
}

// isHome reports whether a wait is the home of its group.
func (f *Idle) isHome(w *idleWait) bool {
	g := &f.groups[w.group-1]
	switch {
	case w.rest:
		return false
	case float64(w.time) < homeShare*float64(g.time), float64(g.time) < lifeShare*float64(g.presence):
		return false
	case g.main:
		// The main goroutine may wait for the program's end.
		return !w.deep && (w.visits > 1 || float64(w.time) >= homeShare*float64(g.presence))
	case w.choice && g.created && f.few(g) && float64(w.time) >= homeShare*float64(g.presence) && (!w.deep || w.visits <= g.members):
		return true
	case w.deep && float64(w.shared) < homeShare*float64(w.time):
		return false
	}
	// At least one member of a hundred came back. Members that have never been there make this stricter.
	return w.visits >= g.members+max(1, g.members/100)
}
