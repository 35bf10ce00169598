package locks

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/idle"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// WaitOptions say whose waits to follow: either those of one goroutine, or those of all goroutines
// in functions whose names match.
type WaitOptions struct {
	Goroutine uint64
	Func      *regexp.Regexp
	Options
}

// Waits say what goroutines did and what kept them waiting: another goroutine, which may itself
// wait for a third, and so on.
type Waits struct {
	Duration   time.Duration `json:"duration_ns"`
	Time       time.Duration `json:"ns"`         // of these goroutines together, in these functions
	Waited     time.Duration `json:"waited_ns"`  // the part in which they waited
	Goroutines int           `json:"goroutines"` // number of these goroutines
	Chains     []WaitNode    `json:"chains"`     // what these goroutines did, the most time first; Next has what kept them
}

// A WaitNode is what goroutines did while those that waited for them waited.
type WaitNode struct {
	Time  time.Duration `json:"ns"`
	State string        `json:"state"` // such as sync.Mutex.Lock, sleep or running
	HolderFrame

	// What State waits for, if it is an object or a wait of a library that has a name. The object's
	// number is 0 if that is unknown, and Kind is "" if only the name is known.
	Name   string `json:"name,omitempty"`
	Kind   string `json:"kind,omitempty"`
	Object int32  `json:"object,omitempty"`

	// How the goroutine keeps the one before it waiting: it "holds" the lock, is the "last child"
	// for which a WaitGroup waits, is a "child" that may answer, or is on the "other side" of the
	// channel. Known is how well that is known: "seen" or "inferred". Both are "" for the first
	// node of a chain.
	Role  string `json:"role,omitempty"`
	Known string `json:"known,omitempty"`
	// In is the function of the goroutine that does so, if it is not the one above: it may have
	// called that.
	In *HolderFrame `json:"in,omitempty"`

	Goroutine uint64        `json:"goroutine"`                 // the one with most of the time
	Others    int           `json:"others,omitempty"`          // how many others there were
	AtLeast   bool          `json:"others_at_least,omitempty"` // there were more than Others
	Alone     time.Duration `json:"alone_ns,omitempty"`        // of a last child: time in which it was the only one left
	Brother   time.Duration `json:"-"`                         // the part of it in which it had lived beside another child
	Cycle     bool          `json:"cycle,omitempty"`           // it waits for a goroutine before it in the chain: a deadlock
	Unknown   time.Duration `json:"unknown_ns"`                // time of waits of which it is not known what kept them
	Has       *HolderFrame  `json:"has_one,omitempty"`         // the line of its stack by which it has one of that pool already
	Next      []WaitNode    `json:"next"`                      // what kept it waiting
}

// FindWaits follows the waits of goroutines to what keeps them. It reads the samples twice: first
// for sums of waits as Find does, then to see at each moment who holds what.
func FindWaits(s *analyze.Samples, o WaitOptions) (*Waits, error) {
	return newWaitChains(s, o).find()
}

func newWaitChains(s *analyze.Samples, o WaitOptions) *waitChains {
	o.Channels = true
	w := &waitChains{
		Sums: newLockSums(s, o.Options), o: o, parents: map[uint64]bool{},
		groups: map[waitGroupKey]*targetGroup{}, holds: map[int32]link{}, ids: idCount{}, places: idle.New(s.Source, nil), room: maxMoreGoroutines, inUse: map[*KnownWait]*inUse{}, poolsSeen: map[*pool]map[uint64]bool{},
	}
	w.noteWait, w.loose = w.note, true
	return w
}

// find reads the samples.
func (w *waitChains) find() (*Waits, error) {
	if err := w.read(); err != nil {
		return nil, err
	}
	var err error
	if w.farEnds, err = NewFarEnds(w.Samples); err != nil {
		return nil, err
	}
	w.sectionFinder = newSectionFinder(newHoldIndex(w.Sums))
	w.interest, w.watch = w.isOfInterest, w
	if err := cmp.Or(w.readAll(nil), w.err); err != nil {
		return nil, err
	}
	out := &Waits{Duration: analyze.Micros(w.Sums.End), Goroutines: len(w.ids), Chains: w.result(w.root.next)}
	for _, n := range out.Chains {
		out.Time += n.Time
	}
	out.Waited = reader.Micros(w.waited)
	return out, nil
}

// waitChains follow the waits of the targets, which are the goroutines that WaitOptions ask for.
// The methods that build the chains are in waitchain.go; which targets share a chain is in
// waittargets.go. Ids of goroutines are those of the stream.
type waitChains struct {
	*Sums
	*sectionFinder
	o       WaitOptions
	lines   []*tachyon.Frame // by stack: the innermost line of the program's own code
	matches []int8           // by stack: 1: has a function that matches, 2: has none
	knownOf []*KnownWait     // by stack; nil: not looked at yet
	places  *idle.Idle       // for known places only
	farEnds *FarEnds
	poolOf  []*pool          // by stack; nil: not looked at yet
	hasOf   []*tachyon.Frame // by stack: see hasOne; nil: not looked at yet
	inUse   map[*KnownWait]*inUse
	// Goroutines of which each pool has one, at most one more than a program with one pool has.
	poolsSeen map[*pool]map[uint64]bool
	parents   map[uint64]bool // goroutines that wait for children, by id
	ids       idCount
	waited    uint64 // time in which targets waited, µs
	err       error  // of load

	onCause func(*cause) // for tests: is told of each time of a target that gets a cause or none

	file       int                 // number of the file + 1 whose children are in children
	children   map[uint64][]uint64 // by parent
	isChild    map[uint64]bool
	createdBy  map[uint64]string // of these children: the function
	brothers   map[uint64]bool   // those that lived beside another child of their parent
	index      map[uint64]int32  // index into goroutines, by id
	goroutines []uint64          // of the window: ids
	families   map[uint64]*family
	wakers     *wakers

	groups map[waitGroupKey]*targetGroup // present targets
	lists  [2][]*targetGroup             // those on locks, and the others that are not alone
	next   uint64                        // when the others are looked at again, µs
	holds  map[int32]link                // who holds an object at this moment, as far as it was asked
	turn   int                           // see across
	root   chainNode                     // its children are the first nodes of all chains
	nodes  int                           // number of nodes
	room   int                           // for goroutines of nodes beyond maxNodeGoroutines
}

// A cause is time in which a target waited, and what for.
type cause struct {
	waiter   uint64 // 0: any of several targets at a lock
	by       uint64 // 0: unknown
	role     string
	how      how
	at, time uint64 // µs; the time ends at at
	state    string
	stack    uint32
	name     string // of what it waits for, if that has one
}

// idCount has the goroutines that were targets, at most maxLockGoroutines.
type idCount map[uint64]struct{}

const (
	maxChain          = 12      // nodes of a chain
	maxChainNodes     = 1 << 17 // of all chains; further ones are added to their parents only
	maxNodeGoroutines = 100     // that each node has room for
	maxMoreGoroutines = 1 << 20 // of all nodes beyond that
	maxParents        = 1 << 19
	maxChildren       = 64 // for which a goroutine waits: the time is divided among them
	mostAcross        = 4  // goroutines on the other side of a channel that are followed at a time
)

// target reports whether a sample is one of a goroutine whose waits are followed.
func (w *waitChains) target(s *analyze.Sample) bool {
	if s.Unselected {
		return false
	}
	if w.o.Func == nil {
		return s.Goroutine == w.o.Goroutine
	}
	if *analyze.At(&w.matches, s.Stack, w.Sums.Stacks()) == 0 {
		w.matches[s.Stack] = 2
		for at := s.Stack; at != 0; at = w.Caller(at) {
			if f := w.Leaf(at); f.File != "" && w.o.Func.MatchString(f.Func) {
				w.matches[s.Stack] = 1
				break
			}
		}
	}
	return w.matches[s.Stack] == 1
}

// note notes a sample of a wait, at the first reading.
func (w *waitChains) note(s *analyze.Sample, site *siteSums) {
	w.notePools(s)
	target := w.target(s)
	if site.kind == tachyon.ObjectWaitGroup || target && isChannel(site.kind) {
		if len(w.parents) < maxParents {
			w.parents[s.Goroutine] = true
		}
	}
}

// isOfInterest reports whether a sample is one of a target, or of another goroutine for which a
// target may wait.
func (w *waitChains) isOfInterest(s *analyze.Sample) (target, other bool) {
	if w.file != s.File+1 {
		w.load(s.File)
	}
	if target = w.target(s); target && len(w.ids) < maxLockGoroutines {
		w.ids[s.Goroutine] = struct{}{}
	}
	return target, w.isChild[s.Goroutine]
}

// load reads from a file which goroutines are children of the parents.
func (w *waitChains) load(file int) {
	w.file, w.children, w.isChild, w.createdBy = file+1, map[uint64][]uint64{}, map[uint64]bool{}, map[uint64]string{}
	if len(w.parents) == 0 {
		return
	}
	lives := map[uint64][]tachyon.Goroutine{} // of children, by parent
	_, f := w.Source.File()
	for g, err := range f.Stream.Goroutines() {
		if err != nil {
			w.err = err
			return
		}
		if g.Parent == 0 || g.CreatedBy == analyze.BackgroundRead { // it ends when the handler lets it
			continue
		}
		if parent, id := w.Source.Goroutine(g.Parent), w.Source.Goroutine(g.ID); w.parents[parent] && !w.isChild[id] && len(w.isChild) < maxParents {
			w.isChild[id] = true
			w.createdBy[id] = g.CreatedBy
			w.children[parent] = append(w.children[parent], id)
			lives[parent] = append(lives[parent], tachyon.Goroutine{ID: id, First: g.First, Last: g.Last})
		}
	}
	w.brothers = map[uint64]bool{}
	for _, list := range lives {
		slices.SortFunc(list, func(a, b tachyon.Goroutine) int { return cmp.Compare(a.First, b.First) })
		last := list[0]
		for _, g := range list[1:] {
			if g.First <= last.Last {
				w.brothers[g.ID], w.brothers[last.ID] = true, true
			}
			if g.Last > last.Last {
				last = g
			}
		}
	}
}

// result returns nodes, the most time first.
func (w *waitChains) result(nodes map[chainKey]*chainNode) []WaitNode {
	list := make([]WaitNode, 0, len(nodes))
	nodes, objects := w.alike(nodes)
	for key, n := range nodes {
		n.forgetChance()
		x := WaitNode{
			Time: reader.Micros(n.time), State: key.state, HolderFrame: holderFrame(&key.frame),
			Role: key.role, Known: [...]string{"", "inferred", "seen"}[key.how], Alone: reader.Micros(n.alone), Brother: reader.Micros(n.brother), Unknown: reader.Micros(n.unknown),
			Cycle: key.cycle, Object: max(0, key.object), Next: w.result(n.next),
		}
		if in := holderFrame(&key.in); in != (HolderFrame{}) {
			x.In = &in
		}
		if has := holderFrame(&key.has); has != (HolderFrame{}) {
			x.Has = &has
		}
		if key.known != nil {
			x.Name = key.known.what + w.inUse[key.known].text(key.known)
			if key.peer != "" {
				x.Name = fmt.Sprintf("%s (%s)", x.Name, stream.PeerText(key.peer))
			}
		} else if key.peer != "" {
			x.Name = stream.PeerText(key.peer)
		} else if sums := w.sums[key.object]; sums != nil {
			x.Name, x.Kind = w.name(key.object, sums), sums.kind
			if main := sums.main(); sums.kind == tachyon.ObjectSelect && strings.HasSuffix(x.Name, shortFunc(main.frame.Func)) &&
				slices.ContainsFunc(sums.sites, func(s *siteSums) bool { return s.frame.Func != main.frame.Func }) {
				x.Name = kindName(sums.kind) // it has the name of another function that waits for such channels
			}
			if n := w.objects[key.object].Capacity; n > 0 && key.state == "chan send" {
				x.Name = fmt.Sprintf("%s (%d of %d places taken)", x.Name, n, n) // else nobody would wait
			}
			if n := objects[key]; n > 0 {
				x.Name, x.Object = fmt.Sprintf("%s (%d objects)", lastNumber.ReplaceAllString(w.name(key.object, sums), ""), n), 0
			}
		}
		most := uint64(0)
		for g, time := range n.goroutines {
			if time > most || time == most && g < x.Goroutine {
				x.Goroutine, most = g, time
			}
		}
		x.Others, x.AtLeast = max(0, len(n.goroutines)-1), n.more
		list = append(list, x)
	}
	slices.SortFunc(list, func(a, b WaitNode) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.State, b.State), cmp.Compare(a.Func, b.Func), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Object, b.Object), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Role, b.Role), cmp.Compare(a.Known, b.Known), compareIn(a.In, b.In))
	})
	return list
}

var lastNumber = regexp.MustCompile(` \d+$`)

// alike returns the nodes with one for those that differ by the object only, if these have the same
// name and are as many as a group of locks has, such as a channel that each call makes. It returns
// how many objects these are.
func (w *waitChains) alike(nodes map[chainKey]*chainNode) (map[chainKey]*chainNode, map[chainKey]int) {
	type group struct {
		chainKey
		name string
	}
	groups := map[group][]int32{}
	of := func(key chainKey) (g group, ok bool) {
		sums := w.sums[key.object]
		if key.object <= 0 || key.known != nil || key.peer != "" || sums == nil {
			return g, false
		}
		g = group{key, lastNumber.ReplaceAllString(w.name(key.object, sums), "")}
		g.object = 0
		return g, true
	}
	for key := range nodes {
		if g, ok := of(key); ok {
			groups[g] = append(groups[g], key.object)
		}
	}
	out, objects := map[chainKey]*chainNode{}, map[chainKey]int{}
	for key, n := range nodes {
		if g, ok := of(key); ok && len(groups[g]) >= fewestAlike {
			key.object = slices.Min(groups[g])
			objects[key] = len(groups[g])
			if out[key] == nil {
				out[key] = &chainNode{goroutines: map[uint64]uint64{}}
			}
			out[key].plus(n)
			continue
		}
		out[key] = n
	}
	return out, objects
}

// rareChild: if less than this part of the time in which goroutines wait for WaitGroups has a last
// child, that child ended by chance.
const rareChild = 0.1

// forgetChance forgets the last children of waits if there is none for nearly all of these: then
// others end the waits, such as a goroutine that commits for many.
func (n *chainNode) forgetChance() {
	last := uint64(0)
	for key, below := range n.next {
		if key.role == roleLastChild {
			last += below.time
		}
	}
	if float64(last) >= rareChild*float64(n.time) {
		return
	}
	n.unknown += last
	maps.DeleteFunc(n.next, func(key chainKey, _ *chainNode) bool { return key.role == roleLastChild })
}

// plus adds another node and what is below it.
func (n *chainNode) plus(x *chainNode) {
	n.time, n.alone, n.brother, n.unknown, n.more = n.time+x.time, n.alone+x.alone, n.brother+x.brother, n.unknown+x.unknown, n.more || x.more
	for g, time := range x.goroutines {
		n.goroutines[g] += time
	}
	for key, below := range x.next {
		if n.next == nil {
			n.next = map[chainKey]*chainNode{}
		}
		if n.next[key] == nil {
			n.next[key] = &chainNode{goroutines: map[uint64]uint64{}}
		}
		n.next[key].plus(below)
	}
}

func compareIn(a, b *HolderFrame) int {
	a, b = cmp.Or(a, &HolderFrame{}), cmp.Or(b, &HolderFrame{})
	return cmp.Or(cmp.Compare(a.Func, b.Func), cmp.Compare(a.Line, b.Line))
}
