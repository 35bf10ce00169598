//go:build linux && (amd64 || arm64)

package attach

import (
	"slices"
	"strconv"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/objects"
	"github.com/gotach/profiler/tachyon"
)

// maxStacks bounds the memory for stacks that were seen.
const maxStacks = 1 << 16

// placeOf returns file and line.
func placeOf(f Frame) string { return f.File + ":" + strconv.Itoa(int(f.Line)) }

// A stack is one that goroutines have.
type stack struct {
	pcs      []uint64           // addresses of its calls
	ids      []uint32           // of its frames
	first    string             // the function of the first one
	callers  objects.Callers    // of waits
	rwMutex  bool               // it waits in sync.(*RWMutex).Lock
	numbered map[int32][]uint32 // the same with the number of an object
}

// ranAt returns the stack that a goroutine had when it was found to use CPU time last.
func (r *recorder) ranAt(k *known) []uint32 {
	if k.ran != nil {
		return k.ran
	}
	return r.running(k.start).ids
}

// running returns the stack of a goroutine that runs: only its outermost function is known.
func (r *recorder) running(start uint64) *stack {
	return r.stackAt(tachyon.FuncNotRead, []uint64{start}, func() []Frame {
		frames := []Frame{{Func: tachyon.FuncNotRead}}
		if p := r.program.funcs.at(start); len(p.frames) > 0 {
			frames = append(frames, p.frames[len(p.frames)-1])
		}
		return frames
	})
}

// stackOf returns the stack of a goroutine that does not run, and its status.
func (r *recorder) stackOf(w *walk) (s *stack, status tachyon.Status) {
	h := &w.head
	state := r.state(h)
	switch {
	case w.pcs == nil, h.running(), r.threads == nil && h.onSystemStack(r.program.layout):
		if status = tachyon.HasGIL | r.onCPU(r.list[w.index]); w.pcs == nil || !h.running() {
			return r.running(h.start), status
		}
	case h.status == goruntime.GSyscall:
		status = tachyon.Unknown
	case h.status == goruntime.GRunnable, h.status == goruntime.GPreempted:
		status = tachyon.GILRequested
		if h.pc == h.start {
			return r.stackAt(tachyon.FuncNotStarted, w.pcs, func() []Frame { return []Frame{{Func: tachyon.FuncNotStarted}, r.begins(h)} }), status
		}
	}
	s = r.stackAt(state, w.pcs, func() []Frame {
		frames := r.program.funcs.frames(w.pcs)
		shown := func(f Frame) bool { return !goruntime.Hidden(f.Func) }
		frames = frames[max(slices.IndexFunc(frames, shown), 0):]
		if status&tachyon.HasGIL != 0 {
			return frames
		}
		return slices.Insert(frames, 0, Frame{Func: "[" + state + "]"})
	})
	return s, status
}

// stackAt returns the stack of a kind that has calls at addresses, and keeps these.
func (r *recorder) stackAt(kind string, pcs []uint64, frames func() []Frame) *stack {
	r.key = append(r.key[:0], kind...)
	for _, pc := range pcs {
		r.key = le.AppendUint64(r.key, pc)
	}
	if s := r.stacks[string(r.key)]; s != nil {
		return s
	}
	if len(r.stacks) >= maxStacks {
		clear(r.stacks)
	}
	list := frames()
	s := &stack{pcs: pcs, ids: make([]uint32, 0, min(len(list), tachyon.MaxDepth)), numbered: map[int32][]uint32{}}
	for i, f := range list[:min(len(list), tachyon.MaxDepth)] {
		s.ids = append(s.ids, r.w.Intern(tachyon.Frame{File: f.File, Func: f.Func, Line: f.Line}))
		if i == 0 {
			s.first = f.Func
			continue
		}
		s.rwMutex = s.rwMutex || f.Func == "sync.(*RWMutex).Lock"
		if n := r.functions.Number(f.Func); n != 0 && len(s.callers) < objects.MaxFunctions {
			s.callers = append(s.callers, n)
		}
	}
	r.stacks[string(r.key)] = s
	return s
}
