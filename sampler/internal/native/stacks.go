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

// pcInfo describes one PC, taken as a return address.
type pcInfo struct {
	frames []frame // innermost first; none: not Go code
	name   string  // of the outermost function at the PC, which is not inlined
}

type frame struct {
	id      uint32
	hidden  bool // runtime.Stack hides it at the top of a waiting goroutine
	wrapper bool
	own     bool   // the profiler's: it and what it calls are left out
	panics  bool   // runtime.gopanic, sigpanic, panicwrap
	user    bool   // not the runtime's
	rwMutex bool   // sync.(*RWMutex).Lock
	caller  uint32 // number of the function; 0: one of the runtime or of package sync
}

// stack is a complete stack, ready for samples.
type stack struct {
	ids       []uint32
	leaf      uint64 // PC of the innermost frame, an address within its instruction; 0: unknown
	key       uint64
	panicking bool
	user      bool // has a function that is not the runtime's
	valid     bool // not torn

	// Of a waiting goroutine's stack.
	plain   *stack         // the same without object, if it has one
	object  *source.Object // what the goroutine waits for; nil: it has no number
	reason  string
	rwMutex bool // it waits in sync.(*RWMutex).Lock
	callers objects.Callers
}

// maxStacks bounds the stacks that are kept. At that number the drain forgets all stacks
// except those of waiting goroutines.
const maxStacks = 1 << 14

type stacks struct {
	out        source.Out
	l          *goruntime.Layout
	table      *goruntime.FuncTable
	waitFrames bool
	seed       maphash.Seed
	pcs        map[uint64]*pcInfo
	functions  objects.Functions
	leaves     map[uint64]goruntime.LeafState
	byKey      map[uint64]*stack
	reasons    map[string]uint32 // ids of wait frames
	started    map[uint64]begin  // by startpc, of goroutines that were seen before they ran, or whose stack could not be read
	scratch    []uint64
}

func newStacks(out source.Out, l *goruntime.Layout, table *goruntime.FuncTable, waitFrames bool) *stacks {
	return &stacks{
		out:        out,
		l:          l,
		table:      table,
		waitFrames: waitFrames,
		seed:       maphash.MakeSeed(),
		pcs:        make(map[uint64]*pcInfo),
		functions:  make(objects.Functions),
		leaves:     make(map[uint64]goruntime.LeafState),
		byKey:      make(map[uint64]*stack),
		reasons:    make(objects.Functions),
		started:    make(map[uint64]begin),
	}
}

// pc resolves a return address.
func (st *stacks) pc(pc uint64) *pcInfo {
	if p := st.pcs[pc]; p != nil {
		return p
	}
	p := new(pcInfo)
	if pc == noSymbols {
		p.name = tachyon.FuncNoSymbols
		p.frames = []frame{{id: st.out.Frame(tachyon.Frame{Func: p.name}), caller: st.functions.Number(p.name)}}
		st.pcs[pc] = p
		return p
	}
	if runtime.FuncForPC(uintptr(pc)-1) == nil {
		st.pcs[pc] = p
		return p
	}
	for _, f := range st.frames(uintptr(pc)) {
		fr := frame{
			hidden:  hidden(f.Function),
			wrapper: isWrapper(f.Function, f.File),
			panics:  f.Function == "runtime.gopanic" || f.Function == "runtime.sigpanic" || f.Function == "runtime.panicwrap",
			user:    !strings.HasPrefix(f.Function, "runtime."),
			own:     own.Hidden(f.Function),
			rwMutex: f.Function == "sync.(*RWMutex).Lock",
			caller:  st.functions.Number(f.Function),
		}
		if f.Function != "runtime.goexit" {
			fr.id = st.out.Frame(tachyon.Frame{File: f.File, Func: f.Function, Line: int32(f.Line)})
		}
		p.frames = append(p.frames, fr)
		p.name = f.Function
	}
	st.pcs[pc] = p
	return p
}

// frames returns the frames at a return address, innermost first. The tables of code that the program has
// generated can be incomplete, and then the runtime may panic.
func (st *stacks) frames(pc uintptr) (out []runtime.Frame) {
	defer func() {
		if st.table.Module(pc-1) != &st.table.Modules[0] && recover() != nil {
			out = []runtime.Frame{{Function: tachyon.FuncNoSymbols}}
		}
	}()
	frames := runtime.CallersFrames(st.table.Expand(nil, pc))
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		out = append(out, f)
	}
	return out
}

// hidden reports whether runtime.Stack leaves a function out (runtime.showfuncinfo): the
// runtime's functions except exported ones.
func hidden(name string) bool {
	name, ok := strings.CutPrefix(name, "runtime.")
	if !ok {
		return false
	}
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		receiver := strings.TrimSuffix(strings.TrimPrefix(name[:i], "(*"), ")")
		if receiver == "" || receiver[0] < 'A' || receiver[0] > 'Z' {
			return true
		}
		name = name[i+1:]
	}
	return name == "" || name[0] < 'A' || name[0] > 'Z'
}

// isWrapper reports whether the compiler generated the function only to call another one
// (FuncIDWrapper). Tracebacks leave such functions out.
func isWrapper(name, file string) bool {
	if file == "<autogenerated>" {
		return !strings.HasPrefix(name, "type:")
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	last = strings.TrimRight(last, "0123456789")
	return last == "gowrap" || last == "deferwrap"
}

// record is a recStack in the ring.
type record []uint64

func (r record) status() uint32 { return uint32(r[0]>>32) & 0xff }
func (r record) reason() int    { return int(r[0]>>40) & 0xff }
func (r record) flags() uint64  { return r[0] >> 48 }
func (r record) pcs() []uint64  { return r[headWords : headWords+r[headCounts]&0xffff] }
func (r record) system() int    { return int(r[headCounts]>>16) & 0xffff }
func (r record) labels() []uint64 {
	at := headWords + r[headCounts]&0xffff
	return r[at : at+r[headCounts]>>32&0xffff]
}
func (r record) objects() []uint64 { return r[uint64(len(r))-r[headCounts]>>48&0xff:] }
func (r record) seq() uint8        { return uint8(r[headCounts] >> 56) }

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

// numbered returns the stack s with the number of what the goroutine waits for: the line of the wait
// frame. It returns s for nil.
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

// inCode reports whether a word can be a return address in Go code. That includes the end of
// a module's code, after a last instruction that is a call.
func (st *stacks) inCode(word uint64) bool {
	if st.table.Module(uintptr(word)) != nil || st.table.Module(uintptr(word)-1) != nil {
		return true
	}
	return word >= 4096 && runtime.FuncForPC(uintptr(word)) != nil // code of a module loaded just now
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
	running := r.status() == goruntime.GRunning
	var frames []frame
	at := make([]uint64, 0, len(pcs)) // the PC of each frame
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
	if !running && r.flags()&flagCPUTimer == 0 { // it does not use a core in the runtime's functions
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

// addReason begins a stack with the frame that says why the goroutine does not run, unless the
// reason is "".
func (st *stacks) addReason(s *stack, reason string) {
	if reason == "" || !st.waitFrames {
		return
	}
	id, ok := st.reasons[reason]
	if !ok {
		id = st.out.Frame(tachyon.Frame{Func: "[" + reason + "]"})
		st.reasons[reason] = id
	}
	s.ids = append(s.ids, id)
}

// reason says why a record's goroutine does not run, "" if it runs.
func (st *stacks) reason(r record) string {
	switch r.status() {
	case goruntime.GSyscall:
		return "syscall"
	case goruntime.GRunnable, goruntime.GPreempted:
		return source.Runnable
	case goruntime.GWaiting, goruntime.GLeaked:
		text := "waiting"
		if n := r.reason(); n > 0 && n < len(st.l.Reasons) {
			text = st.l.Reasons[n]
			if r.flags()&flagBubble != 0 && st.l.Durable>>n&1 != 0 && !strings.HasSuffix(text, "(durable)") {
				text += " (durable)"
			}
		}
		return text
	}
	return ""
}

// forget drops all stacks except the used ones if there are too many.
func (st *stacks) forget(used func(yield func(*stack))) {
	if len(st.byKey) < maxStacks {
		return
	}
	clear(st.byKey)
	used(func(s *stack) { st.byKey[s.key] = s })
}

// leaf returns the state of the function at pc.
func (st *stacks) leaf(pc uint64) goruntime.LeafState {
	s, ok := st.leaves[pc]
	if !ok {
		if delta, ok := st.table.SPDelta(uintptr(pc)); ok {
			s = goruntime.ReadLeaf(uintptr(pc), delta)
		}
		st.leaves[pc] = s
	}
	return s
}
