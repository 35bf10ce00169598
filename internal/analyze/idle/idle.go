// Package idle tells waits that are idle from those that somebody waits for. All rooms that add up
// waits ask [Idle].
//
// # Files
//
//   - idle.go: adds samples, and says what is idle
//   - groups.go: groups of goroutines, and where they are at home
//   - stacks.go: what a stack says
//   - places.go: the known places, which docs/idle.md lists
package idle

import (
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/syntax"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// Idle tells waits that are idle from those that somebody waits for: nobody would be faster if an
// idle wait were shorter. In this order:
//
//   - A goroutine with labels, or in a request (RequestKinds), is at work, unless it waits for the
//     next tick of its own ticker in a loop in the background, or reads from the connection of its
//     client in a handler that has taken this over.
//   - A wait at a known place (idlePlaces) is idle: there a library waits for the next thing to do.
//     At some of them this holds with labels too.
//   - A wait at home is idle. A group is the goroutines that were created at one place and run one
//     function. Its home is the place at which its members rest: they wait in the function that
//     they began with, spend at least homeShare of the session there, and come back to it. Selects
//     in one function are one place. If members wait for one object, such as a queue of work, it is
//     parkShare. A group of at most fewMembers that waits in a select for homeShare of the session
//     need not come back. If samples are selected by state, no home is known.
//   - A group of at most fewMembers rests if each waits at one place in the whole session, in a
//     receive or the like. So do all those members of any group that were there when the session
//     began, and wait in the function that they began with or in a select. In a session of at least
//     restTime that is idle.
//   - A select that only waits to send, as the source text has it, is neither, nor is a wait to
//     write to a connection or pipe.
//   - A select without cases is idle, and so are waits of the runtime's own goroutines.
//
// Whether a stack is a home is known when all samples were read. So Add gives each sample a Key.
// Whoever adds up samples keeps those of different keys apart, and asks Is after Finish:
//
//	f := idle.New(src, read)
//	for s, err := range src.Samples() {
//		sums[f.Add(s)] += s.Wall
//	}
//	f.Finish()
//	for key, wall := range sums {
//		if f.Is(key) { … }
//	}
//
// Keys are small numbers: there are as many as groups have stacks that may be homes. The memory
// does not grow with the number of samples.
type Idle struct {
	src     *stream.Source
	texts   *syntax.Sources
	states  analyze.States[idleState]
	stacks  []idleStack // by stack
	frames  []idleFrame // by frame
	entries stream.Table[string]
	sites   map[stackSite]uint32 // the first stack there
	callers stream.Table[callerOf]
	peers   map[int32]string // as Source.Peers, once one is asked for

	groups []idleGroup
	group  map[groupKey]uint32 // number + 1
	waits  []idleWait          // Key firstWait + i
	wait   map[waitOf]Key
	spots  []idleSpot
	spot   map[spotOf]uint32

	file       int    // number of the present file + 1
	begin, end uint64 // of the file's samples, µs
	early      uint64 // goroutines with a sample until this time were there when the session began, µs
	began      map[idleProcess]bool
	processes  uint64
	Window     bool   // the samples are of a part of a session
	idle       []bool // by Key, after Finish
	rests      []bool // likewise
	sample     analyze.Sample
}

// A Key says where a goroutine waits, as far as it matters to Idle.
type Key uint32

const (
	NotIdle   Key = 0 // the goroutine does not wait, or is at work
	KnownIdle Key = 1 // it is idle, whatever comes later
	firstWait Key = 2
)

const (
	// homeShare is the least share of its time that a group spends at home.
	homeShare = 0.9
	// parkShare is homeShare of a group whose members wait for one object and come back to it: at
	// least half of its workers are not needed.
	parkShare = 0.5
	// lifeShare is how much of the session its goroutines live at least, on average.
	lifeShare = 0.5
	// fewMembers is how many members a group has at most in a process that is at home in a select
	// to which it never came back, or that rests: one that works in the background, but had nothing
	// to do in the whole session.
	fewMembers = 4
	// earlyTime is the time, in µs, in which the goroutines are seen that were there when a session
	// began.
	earlyTime = 1_000_000
	// restTime is the least time, in µs, after which a wait in the whole session is idle. In a
	// shorter session, or a selection of a short time, goroutines may wait for an answer in all of
	// it.
	restTime = 5_000_000
	// maxWaits bounds the memory that keys take, and what sums by key take. Further waits are not
	// idle.
	maxWaits = 1 << 18
	// maxIdleGroups bounds the memory of groups. The goroutines of further ones have no home.
	maxIdleGroups = 1 << 18
)

// idleState is the state of a goroutine.
type idleState struct {
	entry uint32
	group uint32 // number + 1; 0: none
	stack uint32 // of the previous sample
	key   Key
	spot  uint32 // number + 1 of the spot of which it is a guest in the present file
	waits bool   // in the previous sample
	early bool   // it was there when the session began
	file  uint32 // in which it has a sample, + 1
}

// A groupKey is what the members of a group have in common. One literal may run different
// functions, so for those that began with a literal it has the function that this called in their
// first sample.
type groupKey struct{ creator, entry, runs uint32 }

// New returns an Idle for the samples of a source, which must have stream.Options.Labels and
// Creators. read reads a source file of the profiled program, by its name in the profile; it may be
// nil.
func New(src *stream.Source, read func(name string) *source.File) *Idle {
	return &Idle{
		src: src, texts: syntax.NewSources(read), processes: uint64(src.ProcessCount()),
		states: analyze.NewStates(src, func(s *idleState) bool { return s.waits && s.key != NotIdle }),
		sites:  map[stackSite]uint32{}, group: map[groupKey]uint32{}, wait: map[waitOf]Key{},
		spot: map[spotOf]uint32{}, began: map[idleProcess]bool{},
	}
}

// Again returns an Idle to which no samples were added. It will have the same keys.
func (f *Idle) Again() *Idle {
	again := New(f.src, nil)
	again.texts = f.texts
	return again
}

// Read returns an Idle to which all samples of a source were added. read is as for New.
func Read(src *stream.Source, read func(name string) *source.File) (*Idle, error) {
	f := New(src, read)
	for s, err := range src.Samples() {
		if err != nil {
			return nil, err
		}
		f.Add(s)
	}
	f.Finish()
	return f, nil
}

// Add adds a sample. It returns the key of the sample's wait.
func (f *Idle) Add(s *stream.Sample) Key {
	waiting := analyze.Waits(s.Status)
	switch {
	case s.NotSeen || s.Interpreter > tachyon.Runtime:
		return NotIdle
	case s.Interpreter == tachyon.Runtime:
		if waiting && !analyze.IsGap(f.leaf(s.Stack)) {
			return KnownIdle
		}
		return NotIdle
	}
	x := &f.sample
	x.Sample = s
	x.File, _ = f.src.File()
	if f.file != x.File+1 {
		f.nextFile()
		f.file, f.begin, f.end = x.File+1, s.Time, s.Time
		f.early = f.earliest(s.Time)
	}
	wall := uint64(s.Wall / time.Microsecond)
	f.begin, f.end = min(f.begin, s.Time-min(s.Time, wall)), max(f.end, s.Time)
	at := f.stack(s.Stack)
	st := f.states.Of(x)
	first := st.file != uint32(f.file)
	if first {
		st.early = st.early || st.file == 0 && s.Time-min(s.Time, wall) <= f.early
		if st.file = uint32(f.file); !st.early || f.processes > 1 {
			st.spot = 0
		}
	}
	if st.entry != at.entry || st.group == 0 || first {
		f.join(st, at, s, first)
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
	return f.waitKey(st, at, s, wall, same)
}

// waitKey returns the key of a goroutine's wait, and adds time to it. same says that the goroutine
// was in it in its previous sample.
func (f *Idle) waitKey(st *idleState, at *idleStack, s *stream.Sample, wall uint64, same bool) Key {
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
		if at.kind == idleRest && (st.group == 0 || f.groups[st.group-1].here > fewMembers && !(at.choice && st.early)) {
			break
		}
		if !same || st.key < firstWait {
			st.key = f.enter(st, at)
		}
		if st.key < firstWait {
			return NotIdle
		}
		f.addWait(st, at, wall, same, s.Status&tachyon.Moved != 0)
		if s.Labels != nil {
			return NotIdle
		}
		return st.key
	}
	st.key = NotIdle
	return NotIdle
}

// addWait adds time, in µs, to the wait that a goroutine is in. same says that it was in it in its
// previous sample, moved that it has run since.
func (f *Idle) addWait(st *idleState, at *idleStack, wall uint64, same, moved bool) {
	w := &f.waits[st.key-firstWait]
	spot := &f.spots[w.spot]
	if st.spot != w.spot+1 {
		st.spot = w.spot + 1
		spot.guests++
	}
	w.time += wall
	spot.time += wall
	if same && moved {
		w.visits++
	}
	if at.choice {
		spot.choices += wall
		if !same || moved {
			spot.visits++
		}
	}
	if at.shared {
		w.shared += wall
	}
}

// earliest returns until when goroutines have their first sample that were there when the session
// began, given the time of the first sample of a file. In later files of a process none were.
func (f *Idle) earliest(begin uint64) uint64 {
	s := f.src.FileSession()
	if s == nil {
		return 0
	}
	process := idleProcess{s.Host, s.PID, s.SessionStart.UnixMicro()}
	if f.began[process] {
		return 0
	}
	f.began[process] = true
	return begin + max(earlyTime, uint64((1-homeShare)*float64(s.Duration.Microseconds())))
}

// join makes a sample's goroutine a member of the group of those with its creator that run what it
// runs.
func (f *Idle) join(st *idleState, at *idleStack, s *stream.Sample, first bool) {
	before := st.group
	key := groupKey{s.Creator, at.entry, at.runs}
	if before != 0 && st.entry == at.entry {
		key.runs = f.groups[before-1].runs
	}
	st.entry, st.group = at.entry, 0
	n, ok := f.group[key]
	if !ok {
		if len(f.groups) >= maxIdleGroups {
			return
		}
		f.groups = append(f.groups, idleGroup{groupKey: key, main: s.Status&tachyon.MainThread != 0, created: s.Creator != 0})
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
func (f *Idle) enter(st *idleState, at *idleStack) Key {
	if st.group == 0 {
		return NotIdle
	}
	of := waitOf{st.group, at.site, st.early}
	key, ok := f.wait[of]
	if !ok {
		if len(f.waits) >= maxWaits {
			return NotIdle
		}
		key = firstWait + Key(len(f.waits))
		spot := spotOf{st.group, at.in, st.early}
		n, ok := f.spot[spot]
		if !ok {
			n = uint32(len(f.spots))
			f.spots = append(f.spots, idleSpot{spotOf: spot})
			f.spot[spot] = n
		}
		f.waits = append(f.waits, idleWait{group: st.group, spot: n, of: of, deep: at.deep, choice: at.choice, rest: at.kind == idleRest})
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
	for i := range f.spots {
		s := &f.spots[i]
		last := s.guests
		if s.early && f.processes == 1 {
			last += s.stays // they should be in this file too
		}
		s.presence += last * (f.end - f.begin)
		s.stays += s.guests
		s.guests = 0
	}
}

// Finish says that all samples were added. Then Is knows about all keys. A further call does
// nothing.
func (f *Idle) Finish() {
	if f.idle != nil {
		return
	}
	f.nextFile()
	f.idle = make([]bool, firstWait+Key(len(f.waits)))
	f.idle[KnownIdle] = true
	f.rests = make([]bool, len(f.idle))
	if f.src.SelectsStates() {
		return
	}
	for i := range f.waits {
		w, key := f.together(&f.waits[i]), firstWait+Key(i)
		if f.idle[key] = f.isHome(&w); f.idle[key] {
			continue
		}
		g, spot := &f.groups[w.group-1], &f.spots[w.spot]
		long := g.presence >= restTime*g.members
		if f.rests[key] = f.isRest(&w); !f.rests[key] && f.stays(&w) {
			f.rests[key] = true
			long = spot.presence >= restTime*spot.stays
		}
		f.idle[key] = f.rests[key] && long && !f.Window
	}
}

// Later reports whether only Finish tells if waits with a key are idle.
func (k Key) Later() bool { return k >= firstWait }

// Is reports whether the waits with a key are idle.
func (f *Idle) Is(key Key) bool { return f.idle[key] }

// Rests reports whether the waits with a key are those of a group that rests. Most such goroutines
// wait for the end of the program or for an error. One that hangs looks the same.
func (f *Idle) Rests(key Key) bool { return f.rests[key] }
