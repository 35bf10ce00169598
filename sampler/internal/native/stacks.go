//go:build linux && (amd64 || arm64)

package native

import (
	"hash/maphash"
	"slices"
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
