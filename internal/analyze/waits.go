package analyze

import (
	"cmp"
	"regexp"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// WaitOptions say whose waits to follow: either those of one goroutine, or those of all goroutines in
// functions whose names match.
type WaitOptions struct {
	Goroutine uint64
	Func      *regexp.Regexp
	LockOptions
}

// Waits say what goroutines did and what kept them waiting: another goroutine, which may itself wait for a third, and so on.
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

	// What State waits for, if it is an object. Its number is 0 if that is unknown.
	Name   string `json:"name,omitempty"`
	Kind   string `json:"kind,omitempty"`
	Object int32  `json:"object,omitempty"`

	// How the goroutine keeps the one before it waiting: it "holds" the lock, is the "last child" for
	// which a WaitGroup waits, is a "child" that may answer, or is on the "other side" of the channel.
	// Known is how well that is known: "seen" or "inferred". Both are "" for the first node of a chain.
	Role  string `json:"role,omitempty"`
	Known string `json:"known,omitempty"`

	Goroutine uint64        `json:"goroutine"`          // the one with most of the time
	Others    int           `json:"others,omitempty"`   // how many others there were, at most maxNodeGoroutines
	Alone     time.Duration `json:"alone_ns,omitempty"` // of a last child: time in which it was the only one left
	Cycle     bool          `json:"cycle,omitempty"`    // it waits for a goroutine before it in the chain: a deadlock
	Unknown   time.Duration `json:"unknown_ns"`         // time of waits of which it is not known what kept them
	Next      []WaitNode    `json:"next"`               // what kept it waiting
}

// FindWaits follows the waits of goroutines to what keeps them. It reads the samples twice: first for sums of waits as FindLocks
// does, then to see at each moment who holds what.
func FindWaits(s *Samples, o WaitOptions) (*Waits, error) {
	o.Channels = true
	w := &waitChains{
		lockSums: newLockSums(s, o.LockOptions), o: o, parents: map[uint64]bool{},
		groups: map[waitGroupKey]*targetGroup{}, holds: map[int32]link{}, ids: idCount{},
	}
	w.noteWait = w.note
	if err := w.read(); err != nil {
		return nil, err
	}
	w.stayFinder = newStayFinder(newHoldIndex(w.lockSums))
	w.interest, w.watch = w.isOfInterest, w
	if err := cmp.Or(w.readAll(nil), w.err); err != nil {
		return nil, err
	}
	out := &Waits{Duration: micros(w.lockSums.end), Goroutines: len(w.ids), Chains: w.result(w.root.next)}
	for _, n := range out.Chains {
		out.Time += n.Time
	}
	out.Waited = reader.Micros(w.waited)
	return out, nil
}

// waitChains follow the waits of the targets, which are the goroutines that WaitOptions ask for. The methods that build the
// chains are in waitchain.go; which targets share a chain is in waittargets.go. Ids of goroutines are those of the stream.
type waitChains struct {
	*lockSums
	*stayFinder
	o       WaitOptions
	lines   []*tachyon.Frame // by stack: the innermost line of the program's own code
	matches []int8           // by stack: 1: has a function that matches, 2: has none
	parents map[uint64]bool  // goroutines that wait for children, by id
	ids     idCount
	waited  uint64 // time in which targets waited, µs
	err     error  // of load

	file       int                 // number of the file + 1 whose children are in children
	children   map[uint64][]uint64 // by parent
	isChild    map[uint64]bool
	index      map[uint64]int32 // index into goroutines, by id
	goroutines []uint64         // of the window: ids
	first      []uint64         // by goroutine of the window: the beginning of its first stretch
	last       []uint64         // the same: the end of its last stretch
	families   map[uint64]*family
	end        uint64 // of the window

	groups map[waitGroupKey]*targetGroup // present targets
	lists  [2][]*targetGroup             // those on locks, and the others that are not alone
	next   uint64                        // when the others are looked at again, µs
	holds  map[int32]link                // who holds an object at this moment, as far as it was asked
	turn   int                           // see across
	root   chainNode                     // its children are the first nodes of all chains
	nodes  int                           // number of nodes
}

// idCount has the goroutines that were targets, at most maxLockGoroutines.
type idCount map[uint64]struct{}

const (
	maxChain          = 12      // nodes of a chain
	maxChainNodes     = 1 << 17 // of all chains; further ones are added to their parents only
	maxNodeGoroutines = 100
	maxParents        = 1 << 19
	maxChildren       = 64 // for which a goroutine waits: the time is divided among them
	mostAcross        = 4  // goroutines on the other side of a channel that are followed at a time
)

// target reports whether a sample is one of a goroutine whose waits are followed.
func (w *waitChains) target(s *sample) bool {
	if s.Unselected {
		return false
	}
	if w.o.Func == nil {
		return s.Goroutine == w.o.Goroutine
	}
	if int(s.Stack) >= len(w.matches) {
		w.matches = append(w.matches, make([]int8, w.lockSums.stacks()-len(w.matches))...)
	}
	if w.matches[s.Stack] == 0 {
		w.matches[s.Stack] = 2
		for at := s.Stack; at != 0; at = w.caller(at) {
			if f := w.leaf(at); f.File != "" && w.o.Func.MatchString(f.Func) {
				w.matches[s.Stack] = 1
				break
			}
		}
	}
	return w.matches[s.Stack] == 1
}

// note notes a sample of a wait, at the first reading.
func (w *waitChains) note(s *sample, site *siteSums) {
	target := w.target(s)
	if site.kind == tachyon.ObjectWaitGroup || target && isChannel(site.kind) {
		if len(w.parents) < maxParents {
			w.parents[s.Goroutine] = true
		}
	}
}

// isOfInterest reports whether a sample is one of a target, or of another goroutine for which a target may wait.
func (w *waitChains) isOfInterest(s *sample) (target, other bool) {
	if w.file != s.file+1 {
		w.load(s.file)
	}
	if target = w.target(s); target && len(w.ids) < maxLockGoroutines {
		w.ids[s.Goroutine] = struct{}{}
	}
	return target, w.isChild[s.Goroutine]
}

// load reads from a file which goroutines are children of the parents.
func (w *waitChains) load(file int) {
	w.file, w.children, w.isChild = file+1, map[uint64][]uint64{}, map[uint64]bool{}
	if len(w.parents) == 0 {
		return
	}
	_, f := w.src.File()
	for g, err := range stream.Goroutines(f.Stream) {
		if err != nil {
			w.err = err
			return
		}
		if g.Parent == 0 {
			continue
		}
		if parent, id := w.src.Goroutine(g.Parent), w.src.Goroutine(g.ID); w.parents[parent] && !w.isChild[id] && len(w.isChild) < maxParents {
			w.isChild[id] = true
			w.children[parent] = append(w.children[parent], id)
		}
	}
}

// result returns nodes, the most time first.
func (w *waitChains) result(nodes map[chainKey]*chainNode) []WaitNode {
	list := make([]WaitNode, 0, len(nodes))
	for key, n := range nodes {
		x := WaitNode{
			Time: reader.Micros(n.time), State: key.state, HolderFrame: HolderFrame{key.frame.Func, key.frame.File, int(key.frame.Line)},
			Role: key.role, Known: [...]string{"", "inferred", "seen"}[key.how], Alone: reader.Micros(n.alone), Unknown: reader.Micros(n.unknown),
			Cycle: key.cycle, Object: max(0, key.object), Next: w.result(n.next),
		}
		if sums := w.sums[key.object]; sums != nil {
			x.Name, x.Kind = w.name(key.object, sums), sums.kind
		}
		most := uint64(0)
		for g, time := range n.goroutines {
			if time > most || time == most && g < x.Goroutine {
				x.Goroutine, most = g, time
			}
		}
		x.Others = max(0, len(n.goroutines)-1)
		list = append(list, x)
	}
	slices.SortFunc(list, func(a, b WaitNode) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.State, b.State), cmp.Compare(a.Func, b.Func), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Object, b.Object), cmp.Compare(a.Role, b.Role), cmp.Compare(a.Known, b.Known))
	})
	return list
}
