package analyze

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// LockOptions say how to find out about locks. The zero value is the usual choice.
type LockOptions struct {
	// Source reads a source file of the profiled program, by its name in the profile. It is for names
	// and for the lines between Lock and Unlock. It returns nil if there is none. Nil: no file is read.
	Source func(name string) *source.File
	// Channels asks for the other sides of all channels. Otherwise only such are looked at that are used like locks.
	Channels bool
}

// Locks are the locks, channels and the like that goroutines waited for.
type Locks struct {
	Duration time.Duration `json:"duration_ns"`
	Tick     time.Duration `json:"tick_ns"`   // between two samples of a goroutine that runs or waits for a lock, the median
	Waited   time.Duration `json:"waited_ns"` // for locks, of all goroutines together
	// Idle is left out: time in which libraries waited for the next thing to do, at channels and the like.
	Idle  time.Duration `json:"idle_ns"`
	Locks []Lock        `json:"locks"` // locks first, then by waited time

	seen map[objectGoroutine]struct{} // see lockSums
}

// A Lock is an object that goroutines waited for: a Mutex or RWMutex, or a channel, WaitGroup or Cond.
type Lock struct {
	Object     int32         `json:"object"` // its number in the profile; 0: unknown, so it may be several objects
	Kind       string        `json:"kind"`   // as tachyon.Object.Kind
	Name       string        `json:"name"`   // such as main.mu or c.mu
	Address    string        `json:"address,omitempty"`
	Capacity   int64         `json:"capacity,omitempty"` // of a channel
	Waited     time.Duration `json:"waited_ns"`
	BySite     time.Duration `json:"by_site_ns,omitempty"` // part of Waited of which only the site is known, at which goroutines waited for no other object
	Goroutines int           `json:"goroutines"`           // that waited; at least so many if there are more than maxLockGoroutines
	Waits      int           `json:"waits"`                // waits that were seen, at least
	Longest    time.Duration `json:"longest_ns"`
	Sites      []LockSite    `json:"sites"`             // the most waited time first
	Holder     *LockHolder   `json:"holder,omitempty"`  // of a Mutex or RWMutex; the other side of a channel
	Objects    int           `json:"objects,omitempty"` // how many objects it is the sum of, see Locks.Group; 0: one

	key int32 // of lockSums.sums
}

// A LockSite is a line at which goroutines waited.
type LockSite struct {
	Func   string        `json:"func"`
	File   string        `json:"file"`
	Line   int           `json:"line"`
	Reason string        `json:"reason"` // such as sync.Mutex.Lock
	Waited time.Duration `json:"waited_ns"`
	Waits  int           `json:"waits"`
}

const (
	// maxLockGoroutines bounds the memory for counting the goroutines of objects.
	maxLockGoroutines = 1 << 19
	// maxObjects bounds the memory for objects: the native source gives 65,536 numbers to a session.
	maxObjects = 1 << 17
)

// FindLocks finds what goroutines waited for. The samples must have objects (stream.Options).
func FindLocks(s *Samples, o LockOptions) (*Locks, error) {
	l := newLockSums(s, o)
	l.idle = NewIdle(s.src)
	if err := l.read(); err != nil {
		return nil, err
	}
	if err := l.holders(); err != nil {
		return nil, err
	}
	return l.result(), nil
}

// lockSums add up waits.
type lockSums struct {
	*Samples
	o       LockOptions
	sources *sources
	points  []*siteSums           // by stack; nil: not known yet
	sites   map[siteKey]*siteSums // those of waits
	sums    map[int32]*objectSums // by object
	objects map[int32]tachyon.Object
	seen    map[objectGoroutine]struct{}
	current states[waitState]
	none    siteSums // for stacks that wait for nothing
	idle    *Idle    // nil: idle waits count too
	idles   siteSums // for stacks that are idle
	ticks   []uint64 // see noteTick

	onCharge func(*charge)            // for tests
	noteWait func(*sample, *siteSums) // may be nil: is told each sample of a wait
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
	waits  int
}

// An objectSums is an object, or what waits for objects without number have in common: the site. Such
// ones have negative keys.
type objectSums struct {
	kind       string
	sites      []*siteSums
	waited     uint64
	bySite     uint64
	longest    uint64
	waits      int
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
	begin   uint64
}

func newLockSums(s *Samples, o LockOptions) *lockSums {
	return &lockSums{
		Samples: s, o: o, sources: newSources(o.Source), sites: map[siteKey]*siteSums{}, sums: map[int32]*objectSums{},
		objects: map[int32]tachyon.Object{}, seen: map[objectGoroutine]struct{}{},
		current: states[waitState]{src: s.src, keep: func(w *waitState) bool { return w.site != 0 }},
	}
}

// read reads all samples.
func (l *lockSums) read() error {
	for x, err := range l.all() {
		if err != nil {
			return err
		}
		l.add(x)
	}
	return l.finish()
}

// finish says that all samples were added.
func (l *lockSums) finish() error {
	l.join()
	numbered := false
	for number := range l.sums {
		numbered = numbered || number > 0
	}
	if !numbered {
		return nil
	}
	return l.src.EachObject(func(o *tachyon.Object) {
		if l.sums[o.Number] != nil {
			l.objects[o.Number] = *o
		}
	})
}

// add adds a sample.
func (l *lockSums) add(s *sample) {
	if s.Interpreter != tachyon.User {
		return
	}
	waiting := waits(s.Status)
	site := &l.none
	if waiting {
		site = l.site(s.Stack)
	}
	if site == &l.idles && !s.Unselected {
		l.idles.waited += s.time - s.begin()
	}
	if site == &l.none || site == &l.idles {
		if w := l.current.find(s); w != nil {
			w.site = 0
		}
		if !waiting {
			l.noteTick(s.time - s.begin())
		}
		return
	}
	w := l.current.of(s)
	if isLock(site.kind) {
		l.noteTick(s.time - s.begin())
	}
	if l.noteWait != nil {
		l.noteWait(s, site)
	}
	sums := site.sums
	if w.site != site.number || s.Status&tachyon.Moved != 0 {
		*w = waitState{site: site.number, begin: s.begin()}
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
	length := s.time - s.begin()
	site.waited += length
	sums.waited += length
	sums.longest = max(sums.longest, s.time-min(s.time, w.begin))
}

// site returns the site of the stack of a waiting goroutine.
func (l *lockSums) site(stack uint32) *siteSums {
	if int(stack) >= len(l.points) {
		l.points = append(l.points, make([]*siteSums, l.stacks()-len(l.points))...)
	}
	if site := l.points[stack]; site != nil {
		return site
	}
	site := &l.none
	if p := l.waitPoint(stack); p.kind == "" {
	} else if l.idle != nil && l.idle.stack(stack).place != nil {
		site = &l.idles
	} else {
		key := siteKey{object: p.number, kind: p.kind, reason: p.reason}
		if p.caller != 0 {
			key.frame = *l.leaf(p.caller)
		}
		if site = l.sites[key]; site == nil {
			site = l.newSite(key, p)
		}
	}
	l.points[stack] = site
	return site
}

// newSite returns a new site. An object without number is one of its own at each site.
func (l *lockSums) newSite(key siteKey, p waitPoint) *siteSums {
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

// join gives waits for objects without number to the object that is the only one with a number at the
// same site.
func (l *lockSums) join() {
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
		sums.waited += from.waited
		sums.bySite += from.waited
		sums.waits += from.waits
		sums.longest = max(sums.longest, from.longest)
		sums.goroutines = max(sums.goroutines, from.goroutines)
	}
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

// result returns what was found.
func (l *lockSums) result() *Locks {
	out := &Locks{Duration: micros(l.end), Tick: micros(l.tick()), Idle: reader.Micros(l.idles.waited), Locks: []Lock{}, seen: l.seen}
	for key, sums := range l.sums {
		if sums.waited == 0 {
			continue
		}
		o := l.objects[key]
		x := Lock{
			key: key, Object: max(0, key), Kind: sums.kind, Name: l.name(key, sums), Capacity: o.Capacity,
			Waited: reader.Micros(sums.waited), BySite: reader.Micros(sums.bySite),
			Goroutines: sums.goroutines, Waits: sums.waits, Longest: reader.Micros(sums.longest),
		}
		if o.Addr != 0 {
			x.Address = fmt.Sprintf("%#x", o.Addr)
		}
		x.Sites = sums.list()
		if isLock(x.Kind) || sums.holder.looked {
			x.Holder = l.holder(sums)
		}
		if isLock(x.Kind) {
			out.Waited += x.Waited
		}
		out.Locks = append(out.Locks, x)
	}
	sortLocks(out.Locks)
	return out
}

// sortLocks sorts objects: locks first, then by waited time.
func sortLocks(list []Lock) {
	slices.SortFunc(list, func(a, b Lock) int {
		if isLock(a.Kind) != isLock(b.Kind) {
			if isLock(a.Kind) {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.Waited, a.Waited), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Object, b.Object))
	})
}

// list returns the sites of an object.
func (o *objectSums) list() []LockSite {
	type line struct {
		reason string
		frame  tachyon.Frame
	}
	sums := map[line]*LockSite{}
	for _, s := range o.sites {
		at := line{s.reason, s.frame}
		x := sums[at]
		if x == nil {
			x = &LockSite{Func: s.frame.Func, File: s.frame.File, Line: int(s.frame.Line), Reason: s.reason}
			sums[at] = x
		}
		x.Waited += reader.Micros(s.waited)
		x.Waits += s.waits
	}
	list := make([]LockSite, 0, len(sums))
	for _, x := range sums {
		list = append(list, *x)
	}
	sortSites(list)
	return list
}

// sortSites sorts sites, the most waited time first.
func sortSites(list []LockSite) {
	slices.SortFunc(list, func(a, b LockSite) int {
		return cmp.Or(cmp.Compare(b.Waited, a.Waited), cmp.Compare(a.Func, b.Func), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Reason, b.Reason))
	})
}

// IsLock reports whether it is a Mutex or RWMutex, which somebody holds.
func (x *Lock) IsLock() bool { return isLock(x.Kind) }

// LikeLock reports whether it is one, or a channel that is used like one.
func (x *Lock) LikeLock() bool {
	return isLock(x.Kind) || x.Holder != nil && x.Holder.Role == RoleHolds
}
