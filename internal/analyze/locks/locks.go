// Package locks finds what goroutines wait for, who has it meanwhile, and the chains of such waits.
// Command, page and top call [Find] and [FindWaits], and a survey adds samples to [Sums]. Times
// without a unit are in µs.
//
// # Files
//
// Chains of waits use all the rest:
//
//   - waits.go: which waits, and their sums; waitchain.go, waitpools.go, waitsides.go, wakers.go,
//     waittargets.go
//   - locks.go: sums of waits by object; groups.go, list.go, names.go, idle.go, waitcount.go
//   - holdersums.go: who held a lock meanwhile; holdchannels.go, handover.go, holders.go,
//     sections.go
//   - channels.go: who is on the other side of a channel; holdkeys.go
//   - farends.go: the far ends of waits; knownwaits.go, pools.go: what functions of libraries are
//     known to wait for
//   - waitpoint.go: what a stack says about a wait
package locks

import (
	"cmp"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/idle"
	"github.com/gotach/profiler/internal/analyze/syntax"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// Options say how to find out about locks. The zero value is the usual choice.
type Options struct {
	// Source reads a source file of the profiled program, by its name in the profile. It is for
	// names and for the lines between Lock and Unlock. It returns nil if there is none. Nil: no
	// file is read.
	Source func(name string) *source.File
	// Channels asks for the other sides of all channels. Otherwise only such are looked at that are
	// used like locks.
	Channels bool
}

// Locks are the locks, channels and the like that goroutines waited for.
type Locks struct {
	Duration time.Duration `json:"duration_ns"`
	Tick     time.Duration `json:"tick_ns"`   // between two samples of a goroutine that runs or waits for a lock, the median
	Waited   time.Duration `json:"waited_ns"` // for locks, of all goroutines together
	// Idle is left out: time in which goroutines waited for the next thing to do, at channels and
	// the like.
	Idle  time.Duration `json:"idle_ns"`
	Locks []Lock        `json:"locks"` // locks first, then by waited time

	seen map[objectGoroutine]struct{} // see Sums
}

// A Lock is an object that goroutines waited for: a Mutex or RWMutex, or a channel, WaitGroup or
// Cond.
type Lock struct {
	Object     int32         `json:"object"` // its number in the profile; 0: unknown, so it may be several objects
	Kind       string        `json:"kind"`   // as tachyon.Object.Kind
	Name       string        `json:"name"`   // such as main.mu or c.mu
	Address    string        `json:"address,omitempty"`
	Capacity   int64         `json:"capacity,omitempty"` // of a channel
	Waited     time.Duration `json:"waited_ns"`
	BySite     time.Duration `json:"by_site_ns,omitempty"` // part of Waited of which only the site is known, at which goroutines waited for no other object
	Goroutines int           `json:"goroutines"`           // that waited; at least so many if there are more than maxLockGoroutines
	Waits      int           `json:"waits"`
	AtLeast    bool          `json:"at_least,omitempty"` // there may have been more waits, shorter than two ticks
	Longest    time.Duration `json:"longest_ns"`
	Below      time.Duration `json:"longest_ns_below,omitempty"` // Longest, if that is a limit: no wait was told apart from those before and after
	Sites      []Site        `json:"sites"`                      // the most waited time first
	Holder     *Holder       `json:"holder,omitempty"`           // of a Mutex or RWMutex; the other side of a channel
	Objects    int           `json:"objects,omitempty"`          // how many objects it is the sum of, see Locks.Group; 0: one

	key int32 // of Sums.sums
}

// A Site is a line at which goroutines waited.
type Site struct {
	Func   string        `json:"func"`
	File   string        `json:"file"`
	Line   int           `json:"line"`
	Reason string        `json:"reason"`          // such as sync.Mutex.Lock
	Sends  bool          `json:"sends,omitempty"` // it is a select that waits to send, by the source text
	Waited time.Duration `json:"waited_ns"`
	Waits  int           `json:"waits"`
}

const (
	// maxLockGoroutines bounds the memory for counting the goroutines of objects.
	maxLockGoroutines = 1 << 19
	// maxObjects bounds the memory for objects: the native source gives 65,536 numbers to a
	// session.
	maxObjects = 1 << 17
)

// Find finds what goroutines waited for. The samples must have objects, labels and creators
// (stream.Options).
func Find(s *analyze.Samples, o Options) (*Locks, error) {
	l, err := NewSums(s, o, idle.New(s.Source, o.Source))
	if err == nil {
		err = l.read()
	}
	if err != nil {
		return nil, err
	}
	return l.Locks()
}

// NewSums returns sums for [Find], to which no samples were added. They tell idle of each.
func NewSums(s *analyze.Samples, o Options, idles *idle.Idle) (l *Sums, err error) {
	l = newLockSums(s, o)
	l.idle = idles
	l.counted, err = newWaitCount(s)
	return l, err
}

// Locks returns what goroutines waited for, after finish. It reads the samples once more if that
// were locks.
func (l *Sums) Locks() (*Locks, error) {
	if err := l.holders(); err != nil {
		return nil, err
	}
	return l.result(), nil
}

// Sums add up waits.
type Sums struct {
	*analyze.Samples
	o       Options
	sources *syntax.Sources
	points  []*siteSums           // by stack; nil: not known yet
	sites   map[siteKey]*siteSums // those of waits
	sums    map[int32]*objectSums // by object
	objects map[int32]tachyon.Object
	seen    map[objectGoroutine]struct{}
	current analyze.States[waitState]
	none    siteSums   // for stacks that wait for nothing
	idle    *idle.Idle // nil: idle waits count too
	idles   siteSums   // for stacks that are idle
	twins   map[idleSite]*siteSums
	twinOf  map[int32]*siteSums // their sites, by object
	loose   bool                // see channelSide
	ticks   []uint64            // see noteTick

	onCharge func(*charge)                    // for tests
	noteWait func(*analyze.Sample, *siteSums) // may be nil: is told each sample of a wait

	counted *waitCount // may be nil: waits are those that were seen
}

type siteKey struct {
	object       int32
	kind, reason string
	frame        tachyon.Frame
}

// A siteSums is a line at which goroutines wait for an object.
type siteSums struct {
	siteKey
	number uint32      // from 1
	sums   *objectSums // of the object
	point  waitPoint   // of one of its stacks
	waited uint64      // µs
	idle   uint64      // µs that were idle, not in waited
	waits  int
}

// An objectSums is an object, or what waits for objects without number have in common: the site.
// Such ones have negative keys.
type objectSums struct {
	kind       string
	sites      []*siteSums
	waited     uint64
	bySite     uint64
	longest    uint64
	told       bool // the longest wait was told apart from others
	waits      int
	atLeast    bool
	goroutines int
	holder     holderSums
}

type objectGoroutine struct {
	goroutine uint64
	object    int32
}

// A waitState is the wait that a goroutine is in.
type waitState struct {
	site    uint32 // number; 0: none
	counted bool   // one of its samples was selected
	samples uint8  // up to toldApart
	begin   uint64
}

func newLockSums(s *analyze.Samples, o Options) *Sums {
	return &Sums{
		Samples: s, o: o, sources: syntax.NewSources(o.Source), sites: map[siteKey]*siteSums{}, sums: map[int32]*objectSums{},
		objects: map[int32]tachyon.Object{}, seen: map[objectGoroutine]struct{}{},
		twins: map[idleSite]*siteSums{}, twinOf: map[int32]*siteSums{},
		current: analyze.NewStates(s.Source, func(w *waitState) bool { return w.site != 0 }),
	}
}

// read reads all samples.
func (l *Sums) read() error {
	for x, err := range l.All() {
		if err != nil {
			return err
		}
		l.Add(x)
	}
	return l.Finish()
}

// Finish says that all samples were added.
func (l *Sums) Finish() error {
	l.settleIdle()
	l.join()
	numbered := false
	for number := range l.sums {
		numbered = numbered || number > 0
	}
	if !numbered {
		return nil
	}
	return l.Source.EachObject(func(o *tachyon.Object) {
		if l.sums[o.Number] != nil {
			l.objects[o.Number] = *o
		}
	})
}

// Add adds a sample. It returns the key of the sample's wait.
func (l *Sums) Add(s *analyze.Sample) idle.Key {
	key := l.waitKey(s)
	if s.Interpreter == tachyon.User {
		l.addUser(s, key)
	}
	return key
}

// addUser is add for a goroutine of the program.
func (l *Sums) addUser(s *analyze.Sample, key idle.Key) {
	waiting := analyze.Waits(s.Status)
	site := &l.none
	if waiting {
		site = l.apart(l.site(s.Stack), key)
	}
	if site == &l.idles && !s.Unselected {
		l.idles.waited += s.At - s.Begin()
	}
	if l.counted != nil && !s.Unselected {
		l.counted.add(s, site.number)
	}
	if site == &l.none || site == &l.idles {
		if w := l.current.Find(s); w != nil {
			w.site = 0
		}
		if !waiting {
			l.noteTick(s.At - s.Begin())
		}
		return
	}
	w := l.current.Of(s)
	if analyze.IsLock(site.kind) {
		l.noteTick(s.At - s.Begin())
	}
	if l.noteWait != nil {
		l.noteWait(s, site)
	}
	sums := site.sums
	if w.site != site.number || s.Status&tachyon.Moved != 0 {
		*w = waitState{site: site.number, begin: s.Begin()}
	}
	if s.Unselected {
		return
	}
	if !w.counted {
		w.counted = true
		site.waits++
		sums.waits++
		key := objectGoroutine{s.Goroutine, site.object}
		if _, ok := l.seen[key]; !ok && len(l.seen) < maxLockGoroutines {
			l.seen[key] = struct{}{}
			sums.goroutines++
		}
	}
	length := s.At - s.Begin()
	site.waited += length
	sums.waited += length
	w.samples = min(w.samples+1, toldApart)
	if long := s.At - min(s.At, w.begin); long >= sums.longest {
		sums.longest, sums.told = long, w.samples >= toldApart-1
	}
}

// site returns the site of the stack of a waiting goroutine.
func (l *Sums) site(stack uint32) *siteSums {
	if site := *analyze.At(&l.points, stack, l.Stacks()); site != nil {
		return site
	}
	site := &l.none
	if p := l.waitPoint(stack); p.kind == "" || p.kind == tachyon.ObjectSemaphore && l.ofCollector(stack) {
	} else if l.idle != nil && l.idle.Place(stack) != "" {
		site = &l.idles
	} else {
		key := siteKey{object: p.number, kind: p.kind, reason: p.reason}
		if p.caller != 0 {
			key.frame = *l.Leaf(p.caller)
		}
		if site = l.sites[key]; site == nil {
			site = l.newSite(key, p)
		}
	}
	l.points[stack] = site
	return site
}

// newSite returns a new site. An object without number is one of its own at each site.
func (l *Sums) newSite(key siteKey, p waitPoint) *siteSums {
	site := &siteSums{siteKey: key, point: p, number: uint32(len(l.sites) + 1)}
	l.sites[key] = site
	if site.object == 0 || len(l.sums) > maxObjects {
		site.object = -int32(len(l.sites))
	}
	sums := l.sums[site.object]
	if sums == nil {
		sums = &objectSums{kind: key.kind}
		l.sums[site.object] = sums
	}
	if key.kind == tachyon.ObjectRWMutex {
		sums.kind = key.kind // it was known only as the Mutex in it
	}
	sums.sites = append(sums.sites, site)
	site.sums = sums
	return site
}

// plus adds the waits for another object, but not its sites and goroutines.
func (o *objectSums) plus(x *objectSums) {
	o.waited += x.waited
	o.waits += x.waits
	if x.longest > o.longest {
		o.longest, o.told = x.longest, x.told
	}
}

// join gives waits for objects without number to the object that is the only one with a number at
// the same site.
func (l *Sums) join() {
	type line struct {
		kind  string
		frame tachyon.Frame
	}
	only := map[line]int32{} // -1: several
	for key, site := range l.sites {
		if site.object > 0 && key.frame.File != "" {
			at := line{key.kind, key.frame}
			if o, ok := only[at]; ok && o != site.object {
				only[at] = -1
			} else {
				only[at] = site.object
			}
		}
	}
	for key, site := range l.sites {
		to := only[line{key.kind, key.frame}]
		if site.object > 0 || to <= 0 {
			continue
		}
		from := l.sums[site.object]
		sums := l.sums[to]
		delete(l.sums, site.object)
		site.object, site.sums = to, sums
		sums.sites = append(sums.sites, site)
		sums.plus(from)
		sums.bySite += from.waited
		sums.goroutines = max(sums.goroutines, from.goroutines)
	}
}

// waitedFor reports whether a goroutine was seen waiting for one of several objects.
func (l *Sums) waitedFor(goroutine uint64, objects []int32) bool {
	return slices.ContainsFunc(objects, func(o int32) bool {
		_, ok := l.seen[objectGoroutine{goroutine, o}]
		return ok
	})
}

// main returns the site with the most waited time, nil if there is none.
func (o *objectSums) main() (most *siteSums) {
	for _, s := range o.sites {
		if most == nil || cmp.Or(cmp.Compare(most.waited, s.waited), cmp.Compare(s.frame.Func, most.frame.Func), cmp.Compare(s.frame.Line, most.frame.Line)) < 0 {
			most = s
		}
	}
	return most
}
