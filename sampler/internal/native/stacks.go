//go:build linux && (amd64 || arm64)

package native

import (
	"hash/maphash"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/objects"
	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// From program counters to frames. Each PC is resolved once, and each stack is built once. A
// known stack costs only a hash of its PCs.

// maxStacks bounds the stacks that are kept. At that number the drain forgets all stacks
// except those of waiting goroutines.
const maxStacks = 1 << 14

// find returns the stack of a record.
func (st *stacks) find(r record) *stack {
	var h maphash.Hash
	h.SetSeed(st.seed)
	pcs := r.pcs()
	if r.flags()&flagBare != 0 {
		pcs = nil
	}
	h.Write(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(pcs))), len(pcs)*8))
	head := [...]uint64{r[0] >> 32, uint64(r.system()), 0, 0, 0, 0, 0}
	if r.flags()&(flagBare|flagForeign) != 0 {
		head[6] = r[headStartPC]
	}
	if r.status() != goruntime.GWaiting && r.flags()&flagBare == 0 {
		// The words with which complete may add a caller are part of the key. Words that are
		// not code are left out: they are data and differ from sample to sample.
		for i, word := range r[headSP0 : headFrame1+1] {
			if st.inCode(word) {
				head[2+i] = word
			}
		}
	}
	h.Write(unsafe.Slice((*byte)(unsafe.Pointer(&head)), int(unsafe.Sizeof(head))))
	key := h.Sum64()
	if s := st.byKey[key]; s != nil {
		return s
	}
	s := st.build(r)
	s.key = key
	st.byKey[key] = s
	return s
}

// numbered returns the stack s with the number of what the goroutine waits for: the line of the
// wait frame. It returns s for nil.
func (st *stacks) numbered(s *stack, x *source.Object) *stack {
	if x == nil {
		return s
	}
	key := (s.key ^ uint64(x.Number)*0x9e3779b97f4a7c15) * 0xff51afd7ed558ccd
	if n := st.byKey[key]; n != nil && n.plain == s && n.object == x {
		return n
	}
	n := *s
	n.key, n.plain, n.object = key, s, x
	n.ids = slices.Clone(s.ids)
	n.ids[0] = st.out.Frame(tachyon.Frame{Func: "[" + s.reason + "]", Line: x.Number})
	st.byKey[key] = &n
	return &n
}

// build makes a stack from a record.
func (st *stacks) build(r record) *stack {
	s := new(stack)
	if r.flags()&flagBare != 0 {
		st.buildBare(s, r)
		return s
	}
	pcs, ok := st.complete(r)
	if !ok {
		if r.flags()&flagForeign != 0 {
			st.buildBare(s, r)
		}
		return s
	}
	s.valid = true
	if r.notStarted() {
		st.buildNotStarted(s, r)
		return s
	}
	frames, at := st.shown(s, pcs)
	if r.status() != goruntime.GRunning && r.flags()&flagCPUTimer == 0 { // it does not use a core in the runtime's functions
		n := 0
		for n < len(frames) && frames[n].hidden {
			n++
		}
		if n < len(frames) {
			frames, at = frames[n:], at[n:]
		}
	}
	s.reason = st.reason(r)
	st.addReason(s, s.reason)
	if len(r.objects()) > 0 {
		for _, f := range frames {
			s.rwMutex = s.rwMutex || f.rwMutex
			if f.caller != 0 && len(s.callers) < objects.MaxFunctions {
				s.callers = append(s.callers, f.caller)
			}
		}
	}
	for _, f := range frames {
		if len(s.ids) == tachyon.MaxDepth {
			break
		}
		s.ids = append(s.ids, f.id)
	}
	if len(at) > 0 {
		s.leaf = at[0] - goruntime.PCQuantum
	}
	return s
}

// shown returns the frames of return addresses that a traceback shows and that are not the
// profiler's, and the PC of each. It notes in s what all of them say.
func (st *stacks) shown(s *stack, pcs []uint64) (frames []frame, at []uint64) {
	callee, hides := frame{}, false
	for i, pc := range pcs {
		p := st.pc(pc)
		for _, f := range p.frames {
			elide := f.wrapper && !callee.panics && i > 0
			callee = f
			if p.name == "runtime.goexit" || elide {
				continue
			}
			s.user = s.user || f.user
			s.panicking = s.panicking || f.panics
			if f.own {
				frames, at, hides = frames[:0], at[:0], true
				continue
			}
			frames = append(frames, f)
			at = append(at, pc)
		}
	}
	if hides && len(frames) == 0 {
		frames = append(frames, frame{id: st.out.Frame(tachyon.Frame{Func: own.Profiler})})
	}
	return frames, at
}

// forget drops all stacks except the used ones if there are too many.
func (st *stacks) forget(used func(yield func(*stack))) {
	if len(st.byKey) < maxStacks {
		return
	}
	clear(st.byKey)
	used(func(s *stack) { st.byKey[s.key] = s })
}

// bare returns the stack of a record whose PCs are of no use.
func (st *stacks) bare(r record) *stack {
	r[0] |= flagBare << 48
	return st.find(r)
}

// Goroutines that have not run yet. Such a goroutine has no frames, only the function that it
// begins with. For go f(x) that is a function that the compiler made, f's caller: the stack shows
// f instead.

// notStarted reports whether a record's goroutine has not run yet: then the runtime has set its PC
// to the first instruction of its function.
func (r record) notStarted() bool {
	return r.status() == goruntime.GRunnable && r[headStartPC] != 0 && r.pcs()[0] == r[headStartPC]
}

// buildNotStarted makes the stack of a goroutine that has not run yet.
func (st *stacks) buildNotStarted(s *stack, r record) {
	b := st.begin(r)
	st.addReason(s, source.NotStarted)
	s.ids = append(s.ids, b.id)
	s.user, s.leaf = b.user, b.pc
}

// begin finds the function that the go statement of a record's goroutine calls. If the goroutine
// begins with a wrapper, and the function that this calls cannot be told, as with an interface's
// method, begin returns the go statement itself.
func (st *stacks) begin(r record) begin {
	entry, gopc := uintptr(r[headStartPC]), r[headGoPC]
	for range 4 { // a wrapper may call a wrapper
		frames := st.at(entry)
		if len(frames) == 0 {
			break
		}
		f := frames[len(frames)-1]
		if !isWrapper(f.Function, f.File) {
			return st.beginAt(f, entry)
		}
		callee, inlined := st.callee(entry)
		if inlined != nil {
			return st.beginAt(*inlined, callee)
		}
		if callee == 0 {
			break
		}
		entry = callee
	}
	if p := st.pc(gopc); len(p.frames) > 0 {
		return begin{frame: p.frames[0], pc: gopc - goruntime.PCQuantum}
	}
	return begin{frame: frame{id: st.out.Frame(tachyon.Frame{Func: "[unknown function]"})}, pc: uint64(entry)}
}

func (st *stacks) beginAt(f runtime.Frame, pc uintptr) begin {
	if own.Hidden(f.Function) {
		return begin{frame: frame{id: st.out.Frame(tachyon.Frame{Func: own.Profiler})}}
	}
	id := st.out.Frame(tachyon.Frame{File: f.File, Func: f.Function, Line: int32(f.Line)})
	return begin{frame: frame{id: id, user: !strings.HasPrefix(f.Function, "runtime.")}, pc: uint64(pc)}
}

// at returns the frames at the instruction at pc, the innermost first. There are several if it
// belongs to an inlined call.
func (st *stacks) at(pc uintptr) []runtime.Frame {
	if runtime.FuncForPC(pc) == nil {
		return nil
	}
	return st.frames(pc + 1) // as a return address
}

// maxWrapper bounds the length in bytes of the code of a wrapper.
const maxWrapper = 1 << 12

// callee returns the entry of the function that a wrapper calls, 0 if it cannot be told. If the
// call is inlined, callee returns its frame and an address in its code. The wrapper's arguments are
// computed before the goroutine begins, so the first call is the right one, except for calls of the
// runtime that the compiler adds.
func (st *stacks) callee(wrapper uintptr) (pc uintptr, inlined *runtime.Frame) {
	for pc := wrapper; pc < wrapper+maxWrapper; pc += goruntime.PCQuantum {
		if _, entry, _ := st.table.Find(pc); entry != wrapper {
			break
		}
		if frames := st.at(pc); len(frames) > 1 {
			return pc, &frames[len(frames)-2]
		}
		to := goruntime.CallAt(pc)
		if f, entry, _ := st.table.Find(to); f == 0 || entry != to {
			continue
		}
		if f := runtime.FuncForPC(to); f != nil && !goruntime.Hidden(f.Name()) {
			return to, nil
		}
	}
	return 0, nil
}

// buildBare makes the stack of a goroutine whose stack is not known: what it does now, and the
// function that it began with.
func (st *stacks) buildBare(s *stack, r record) {
	s.valid = true
	s.reason = st.reason(r)
	st.addReason(s, s.reason)
	what := tachyon.FuncNotRead
	if r.flags()&flagBare == 0 {
		for _, f := range st.pc(r.pcs()[0] + goruntime.PCQuantum).frames {
			s.ids = append(s.ids, f.id)
		}
		what = tachyon.FuncNoSymbols
	}
	s.ids = append(s.ids, st.out.Frame(tachyon.Frame{Func: what}))
	if r[headStartPC] == 0 {
		return
	}
	if b := st.begin(r); b.pc != r[headGoPC]-goruntime.PCQuantum { // else it is the go statement, which is on another stack
		s.ids, s.user = append(s.ids, b.id), b.user
	}
}
