package locks

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/syntax"
	"github.com/gotach/profiler/tachyon"
)

// A holdIndex knows which frames hold which locks. A lock is known by its keys there: what the
// source text calls it, or the function that locks it where the text is not here.
type holdIndex struct {
	*Sums
	keys     []syntax.Key // by number
	number   map[syntax.Key]int32
	dirs     map[string]bool // where functions lock
	regions  map[*syntax.Func][]*syntax.Region
	wrappers map[string]map[string]*syntax.Region // by dir and name
	first    map[string]int                       // without text: by function, the first line that was seen locking
	owner    map[string]bool                      // without text: types whose methods were seen locking
	frames   [][]frameHold                        // by frame; nil: not known yet
	users    map[string]bool                      // functions of which it is of interest who is in them
	objects  map[int32]*objectKeys
	same     map[string]*objectKeys // by exact keys

	channels channelKeys
	pools    poolIndex
}

// A frameHold is a lock that a frame holds.
type frameHold struct {
	key     int32
	read    bool
	text    string
	defers  bool
	unlocks bool // the line unlocks it too
	locks   bool // the line locks it too
	calls   bool // only if the frame calls another function than one of package sync
	x       *syntax.Func
}

// objectKeys are the keys of an object, and those that may be its.
type objectKeys struct {
	exact, weak []int32
	sides       *channelSides // nil unless it is a channel
}

// all yields the keys, the exact ones first.
func (k *objectKeys) all(yield func(int32) bool) {
	for _, list := range [][]int32{k.exact, k.weak} {
		for _, key := range list {
			if !yield(key) {
				return
			}
		}
	}
}

// root kinds of keys of locks whose text is not here.
const (
	rootFunc = "locks in" // path is a function that was seen locking
	rootType = "methods"  // path is a type with such a function as method
	rootUser = "in"       // no lock: path is one of holdIndex.users
)

var noHolds = []frameHold{}

// newHoldIndex returns the index for the waits of l.
func newHoldIndex(l *Sums) *holdIndex {
	h := &holdIndex{
		Sums: l, number: map[syntax.Key]int32{}, dirs: map[string]bool{}, regions: map[*syntax.Func][]*syntax.Region{},
		wrappers: map[string]map[string]*syntax.Region{}, first: map[string]int{}, owner: map[string]bool{}, objects: map[int32]*objectKeys{},
		same: map[string]*objectKeys{},
	}
	h.channels.find(h)
	for _, sums := range l.sums {
		if !analyze.IsLock(sums.kind) {
			continue
		}
		for _, s := range sums.sites {
			if x, _ := h.takes(&s.frame); x != nil {
				h.dirs[x.File.Dir] = true
				continue
			}
			f, line := s.frame.Func, int(s.frame.Line)
			if at, ok := h.first[f]; !ok || line < at {
				h.first[f] = line
			}
			if t := receiver(f); t != "" {
				h.owner[t] = true
			}
		}
	}
	h.findWrappers()
	h.users = h.channels.users(h)
	if h.loose {
		h.findPools()
	}
	// All keys are known only after all functions were read.
	for id := range l.Source.Frames() {
		h.frame(uint32(id))
	}
	for o, sums := range l.sums {
		if analyze.IsLock(sums.kind) {
			h.objects[o] = h.keysOf(sums)
		} else if keys := h.channels.keysOf(h, o, sums); keys != nil {
			h.objects[o] = keys
		}
	}
	return h
}

// takes returns the function that a frame is in and what it locks at the frame's line, nil if the
// text does not say it.
func (h *holdIndex) takes(f *tachyon.Frame) (*syntax.Func, *syntax.Op) {
	x := h.sources.Func(f)
	if x == nil {
		return nil, nil
	}
	for i := range x.Ops {
		if x.Ops[i].Line == int(f.Line) && x.Ops[i].Does.Takes() && x.Key(x.Ops[i].On) != (syntax.Key{}) {
			return x, &x.Ops[i]
		}
	}
	return nil, nil
}

// receiver returns the type of which a function is a method, with its package; "" if it is none.
func receiver(function string) string {
	i := strings.LastIndex(function, "(*")
	if i < 0 {
		return ""
	}
	j := strings.IndexByte(function[i:], ')')
	if j < 0 {
		return ""
	}
	return function[:i+j+1]
}

// findWrappers finds functions that lock or unlock for their callers.
func (h *holdIndex) findWrappers() {
	done := map[*syntax.File]bool{}
	for _, f := range h.Source.Frames() {
		file := h.near(&f)
		if file == nil || done[file] {
			continue
		}
		done[file] = true
		for _, x := range file.Funcs {
			if x.Outer != nil || x.Decl == nil || len(x.Ops) == 0 {
				continue
			}
			for _, r := range x.Regions(nil, h.channels.places) {
				takes := r.Takes
				if r.Key.Op == syntax.DoesNothing {
					takes = slices.ContainsFunc(x.Ops, func(op syntax.Op) bool { return op.Does.Takes() && x.Key(op.On) == r.Key })
				} else if h.wrappers[file.Dir][x.Decl.Name.Name] != nil {
					continue
				}
				if (r.Escapes && takes || r.Releases && !takes) && !strings.HasPrefix(r.Key.Root, "func ") {
					if h.wrappers[file.Dir] == nil {
						h.wrappers[file.Dir] = map[string]*syntax.Region{}
					}
					h.wrappers[file.Dir][x.Decl.Name.Name] = r
				}
			}
		}
	}
}

// near returns the source file of a frame if it is in a folder in which functions lock, or wait for
// channels.
func (h *holdIndex) near(f *tachyon.Frame) *syntax.File {
	if dir := path.Dir(strings.ReplaceAll(f.File, `\`, "/")); !h.dirs[dir] && !h.channels.dirs[dir] {
		return nil
	}
	return h.sources.File(f)
}

// key returns the number of a key.
func (h *holdIndex) key(k syntax.Key) int32 {
	n, ok := h.number[k]
	if !ok {
		n = int32(len(h.keys))
		h.number[k] = n
		h.keys = append(h.keys, k)
	}
	return n
}

// frame returns the locks that a frame holds.
func (h *holdIndex) frame(id uint32) []frameHold {
	if list := *analyze.At(&h.frames, id, len(h.Source.Frames())); list != nil {
		return list
	}
	list := h.holds(&h.Source.Frames()[id])
	if list == nil {
		list = noHolds
	}
	h.frames[id] = list
	return list
}

func (h *holdIndex) holds(f *tachyon.Frame) (list []frameHold) {
	if f.File == "" {
		return nil
	}
	line := int(f.Line)
	if h.loose {
		list = h.poolHolds(f)
	}
	if h.users[f.Func] {
		list = append(list, frameHold{key: h.key(syntax.Key{Root: rootUser, Path: f.Func})})
	}
	if file := h.near(f); file != nil {
		x := file.Of(f)
		if x == nil {
			return list
		}
		regions, ok := h.regions[x]
		if !ok {
			regions = x.Regions(h.wrappers[file.Dir], h.channels.places)
			h.regions[x] = regions
		}
		list = append(list, h.channels.side(h, x)...)
		for _, r := range regions {
			if r.Key.Op == syntax.DoesNothing && !h.dirs[file.Dir] || r.Key.Op != syntax.DoesNothing && !r.Paired() {
				continue
			}
			k := h.key(r.Key)
			if !r.Holds(line) {
				continue
			}
			h.channels.asLocks = h.channels.asLocks || r.Key.Op != syntax.DoesNothing
			hold := frameHold{key: k, read: r.Read, text: r.Text, defers: r.Deferred, x: x}
			for _, op := range x.Ops {
				if op.Line == line && syntax.Text(op.On) == r.Text {
					hold.locks = hold.locks || op.Does.Takes()
					hold.unlocks = hold.unlocks || !op.Does.Takes()
				}
			}
			list = append(list, hold)
		}
		return list
	}
	if first, ok := h.first[f.Func]; ok {
		if line >= first {
			list = append(list, frameHold{key: h.key(syntax.Key{Root: rootFunc, Path: f.Func}), defers: true, locks: line == first, calls: line == first})
		}
	} else if t := receiver(f.Func); t != "" && h.owner[t] && strings.Count(f.Func[len(t):], ".") == 1 {
		list = append(list, frameHold{key: h.key(syntax.Key{Root: rootType, Path: t}), defers: true})
	}
	return list
}

// keysOf returns the keys of an object.
func (h *holdIndex) keysOf(sums *objectSums) *objectKeys {
	o := &objectKeys{}
	for _, s := range sums.sites {
		var k syntax.Key
		if x, op := h.takes(&s.frame); x != nil {
			k = x.Key(op.On)
		} else {
			k = syntax.Key{Root: rootFunc, Path: s.frame.Func}
			if t := receiver(s.frame.Func); t != "" {
				o.weak = append(o.weak, h.key(syntax.Key{Root: rootType, Path: t}))
			}
		}
		if n := h.key(k); !slices.Contains(o.exact, n) {
			o.exact = append(o.exact, n)
		}
	}
	slices.Sort(o.exact)
	memo := fmt.Sprint(o.exact)
	if same := h.same[memo]; same != nil {
		return same
	}
	h.same[memo] = o
	for n, k := range h.keys {
		if !slices.Contains(o.exact, int32(n)) && slices.ContainsFunc(o.exact, func(e int32) bool { return mayBeSame(h.keys[e], k) }) {
			o.weak = append(o.weak, int32(n))
		}
	}
	slices.Sort(o.weak)
	o.weak = slices.Compact(o.weak)
	return o
}

// mayBeSame reports whether two keys may be those of one lock, although the text does not say so:
// the field has the same name, and the type of which it is a field is not known of both.
func mayBeSame(a, b syntax.Key) bool {
	if a.Dir == "" || a.Dir != b.Dir || a.Field() != b.Field() {
		return false
	}
	known := func(k syntax.Key) bool { return !strings.Contains(k.Path, ".") }
	return !known(a) || !known(b)
}
