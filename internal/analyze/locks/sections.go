package locks

import (
	"slices"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/syntax"
	"github.com/gotach/profiler/tachyon"
)

// A section is the time of a goroutine in a critical section: in one call of a function, while it
// holds a lock. For chains of waits, calls that have a connection of a pool, or that may send to or
// receive from a channel, are sections too.
type section struct {
	goroutine  int32 // index into window.goroutines
	key        int32 // -1: the goroutine was given the lock, but has not run since
	object     int32 // 0: unknown
	how        how
	read       bool
	begin, end uint64 // µs
	handovers  uint32 // how often waits for the object ended meanwhile, so that these are several holds
}

// how is how well something is known.
type how uint8

const (
	unknown  how = iota
	inferred     // from where goroutines were
	seen         // the goroutine was seen waiting for the object just before
)

// A stretch is a time in which all samples of a goroutine had one stack and state.
type stretch struct {
	begin, end uint64 // µs
	first      uint64 // the time of its first sample
	goroutine  int32
	stack      uint32
	status     tachyon.Status
	waits      int32 // object that the goroutine waits for, 0: none
	target     bool  // see sectionFinder.interest
	again      bool  // the goroutine has run since the stretch before, which has the same stack
	unselected bool  // the samples are not selected
	sections   []int32
}

// stackHolds is what a stack says about locks.
type stackHolds struct {
	known  bool
	site   *siteSums // where the goroutine waits for a lock; nil: it does not, if its status says that it waits
	inLock uint32    // the stack that called Lock, if the goroutine is in Lock
	holds  []stackHold
}

// A stackHold is a lock that a frame of a stack holds.
type stackHold struct {
	frameHold
	function string
	below    uint32 // the stack that called the function
}

// A lockUser is the state of a goroutine.
type lockUser struct {
	number int32 // in the window, plus 1
	last   int32 // its latest stretch in the window, plus 1
	open   []openSection
	waited *siteSums // the lock for which it waited until just now
	stack  uint32    // of that wait
	in     uint32    // the stack that called Lock then
	file   int       // number of the file + 1 that number is of
	epoch  int       // of the window that last and the indices in open are of
}

type openSection struct {
	stackHold
	object int32
	how    how
	index  int32 // in the window, plus 1
	seen   bool  // in the present sample
}

// A window is a part of the time with all that goroutines had to do with locks.
type window struct {
	goroutines []uint64
	stretches  analyze.PartList[stretch]
	sections   []section
}

// maxStretches is the number of stretches of a window. They take some 100 bytes each with their
// sections.
const maxStretches = 1 << 20

// carriedSections says where the sections of the window before are in the present one, plus 1; 0:
// nowhere.
type carriedSections []int32

// A sectionFinder finds sections while samples stream by.
type sectionFinder struct {
	*holdIndex
	stacks  []stackHolds
	users   analyze.States[lockUser]
	window  window
	most    int // stretches of a window
	epoch   int
	carried carriedSections

	// interest may be nil. It says which samples are of interest although they have nothing to do
	// with locks: the targets, and those of other goroutines.
	interest func(*analyze.Sample) (target, other bool)
	watch    watcher // may be nil

	channelWaits bool // waits for channels are followed too
}

func newSectionFinder(h *holdIndex) *sectionFinder {
	return &sectionFinder{holdIndex: h, most: maxStretches, users: analyze.NewStates(h.Source, func(u *lockUser) bool { return len(u.open) > 0 || u.waited != nil })}
}

// holdsOf returns what a stack says about locks.
func (f *sectionFinder) holdsOf(stack uint32) *stackHolds {
	x := analyze.At(&f.stacks, stack, f.Sums.Stacks())
	if x.known {
		return x
	}
	x.known = true
	if site := f.site(stack); site != &f.none && site != &f.idles && f.objects[site.object] != nil {
		x.site = site
	}
	inner := (*tachyon.Frame)(nil) // what the frame calls
	sync := false                  // all frames so far are methods of locks, or of the runtime
	locks := false
	for at := stack; at != 0; at = f.Caller(at) {
		frame := f.Leaf(at)
		if at == stack {
			sync = frame.File == "" || IsSync(frame)
		} else if sync && !IsSync(frame) {
			if sync = false; locks {
				x.inLock = at
			}
		}
		locks = locks || sync && isLockMethod(frame)
		for _, h := range f.frame(f.Source.Stacks()[at].Frame) {
			if h.calls && (inner == nil || IsSync(inner)) || inner != nil && givesUp(&h, inner) {
				continue
			}
			x.holds = append(x.holds, stackHold{h, frame.Func, f.Caller(at)})
		}
		inner = frame
	}
	return x
}

// isLockMethod reports whether a frame is Lock or RLock.
func isLockMethod(f *tachyon.Frame) bool {
	return f.Func == "sync.(*Mutex).Lock" || f.Func == "sync.(*RWMutex).Lock" || f.Func == "sync.(*RWMutex).RLock"
}

// givesUp reports whether a frame does not hold a lock because of what it calls: it takes the lock
// or gives it back just now, or waits for a Cond.
func givesUp(h *frameHold, callee *tachyon.Frame) bool {
	switch {
	case callee.Func == "sync.(*Cond).Wait":
		return true
	case isLockMethod(callee):
		return h.locks
	case IsSync(callee) && isUnlock(callee):
		return h.unlocks || h.defers
	}
	return false
}

// add adds a sample.
func (f *sectionFinder) add(s *analyze.Sample) {
	x := f.holdsOf(s.Stack)
	waiting := x.site != nil && analyze.Waits(s.Status)
	target, other := false, false
	if f.interest != nil {
		target, other = f.interest(s)
	}
	if !waiting && len(x.holds) == 0 && x.inLock == 0 && !target && !other {
		u := f.users.Find(s)
		if u == nil {
			return
		}
		if len(u.open) == 0 {
			u.waited, u.last = nil, 0
			return
		}
	}
	u := f.users.Of(s)
	f.update(s, u)
	object := int32(0)
	if waiting && (analyze.IsLock(x.site.kind) || f.channelWaits && x.site.idle <= x.site.waited) {
		object = x.site.object
	}
	changed := f.follow(u, x, waiting)
	f.stretch(s, u, object, target, changed)
	switch {
	case waiting:
		u.waited, u.stack, u.in = x.site, s.Stack, x.inLock
	case u.waited != nil && isChannel(u.waited.kind) && f.outOfRuntime(s.Stack) == f.outOfRuntime(u.stack):
		// It may go on, but has not yet.
	case u.waited != nil && x.inLock != 0 && x.inLock == u.in:
		// It was given the lock, or tries to get it.
	default:
		u.waited = nil
	}
}

// outOfRuntime returns a stack without waits and the runtime's functions.
func (f *sectionFinder) outOfRuntime(stack uint32) uint32 {
	for stack != 0 && IsSync(f.Leaf(stack)) {
		stack = f.Caller(stack)
	}
	return stack
}

// update makes the state of a goroutine one of the present file and window.
func (f *sectionFinder) update(s *analyze.Sample, u *lockUser) {
	if u.file != s.File+1 {
		u.file, u.number = s.File+1, 0
	}
	if u.epoch == f.epoch {
		return
	}
	for i := range u.open {
		o := &u.open[i]
		if o.index > 0 && u.epoch+1 == f.epoch && int(o.index) <= len(f.carried) {
			o.index = f.carried[o.index-1]
		} else {
			o.index = 0
		}
	}
	u.epoch, u.last = f.epoch, 0
}

// follow opens and closes the sections of a goroutine. It reports whether there are others now.
func (f *sectionFinder) follow(u *lockUser, x *stackHolds, waiting bool) (changed bool) {
	for i := range u.open {
		u.open[i].seen = false
	}
	for _, h := range x.holds {
		i := slices.IndexFunc(u.open, func(o openSection) bool {
			return o.key == h.key && o.below == h.below && o.read == h.read && o.text == h.text && o.function == h.function
		})
		if i >= 0 {
			u.open[i].seen = true
			continue
		}
		o := openSection{stackHold: h, seen: true}
		if u.waited != nil && f.enters(u, &h) {
			o.object, o.how = u.waited.object, seen
			if o.object < 0 || h.x == nil {
				o.how = inferred // there may be several locks, or it may have given the lock back
			}
		}
		u.open = append(u.open, o)
		changed = true
	}
	if !waiting && u.waited != nil && x.inLock != 0 && x.inLock == u.in {
		h := stackHold{frameHold: frameHold{key: -1}, below: x.inLock}
		i := slices.IndexFunc(u.open, func(o openSection) bool { return o.key == -1 && o.below == h.below })
		if i < 0 {
			i = len(u.open)
			u.open = append(u.open, openSection{stackHold: h, object: u.waited.object, how: inferred})
			changed = true
		}
		u.open[i].seen = true
	}
	n := len(u.open)
	u.open = slices.DeleteFunc(u.open, func(o openSection) bool { return !o.seen })
	return changed || len(u.open) != n
}

// enters reports whether a goroutine that waited for a lock holds it now: it is in the same call of
// the function, or of a caller of it.
func (f *sectionFinder) enters(u *lockUser, h *stackHold) bool {
	keys := f.objects[u.waited.object]
	if keys == nil || h.x != nil && u.waited.point.read != h.read || !slices.Contains(keys.exact, h.key) && !slices.Contains(keys.weak, h.key) {
		return false
	}
	for at := u.stack; at != 0; at = f.Caller(at) {
		frame := f.Leaf(at)
		if f.Caller(at) != h.below || frame.Func != h.function {
			continue
		}
		if x, op := f.takes(frame); x == h.x && op != nil && h.text != "" {
			return syntax.Text(op.On) == h.text
		}
		return true
	}
	return false
}

// stretch adds the time of a sample to the window.
func (f *sectionFinder) stretch(s *analyze.Sample, u *lockUser, object int32, target, changed bool) {
	w := &f.window
	if u.number == 0 {
		w.goroutines = append(w.goroutines, s.Goroutine)
		u.number = int32(len(w.goroutines))
	}
	begin := s.Begin()
	for i := range u.open {
		o := &u.open[i]
		if o.index == 0 {
			w.sections = append(w.sections, section{
				goroutine: u.number - 1, key: o.key, object: o.object, how: o.how, read: o.read, begin: begin,
			})
			o.index = int32(len(w.sections))
		}
		w.sections[o.index-1].end = s.At
	}
	status := s.Status &^ tachyon.Moved
	again := (object != 0 || f.watch != nil) && s.Status&tachyon.Moved != 0
	if u.last > 0 && !changed && !again {
		if last := w.stretches.At(u.last - 1); last.stack == s.Stack && last.status == status && last.waits == object && last.target == target && last.unselected == s.Unselected && last.end == begin {
			last.end = s.At
			return
		}
	}
	x := stretch{begin: begin, end: s.At, first: s.At, goroutine: u.number - 1, stack: s.Stack, status: status, waits: object, target: target, again: again, unselected: s.Unselected}
	if u.last > 0 && !changed {
		x.sections = w.stretches.At(u.last - 1).sections
	} else if len(u.open) > 0 {
		x.sections = make([]int32, len(u.open))
		for i := range u.open {
			x.sections[i] = u.open[i].index - 1
		}
	}
	w.stretches.Add(x)
	u.last = w.stretches.Len
}
