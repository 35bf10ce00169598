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
	return r.running(k.start)
}

// running returns the stack of a goroutine that runs: only its outermost function is known.
func (r *recorder) running(start uint64) []uint32 {
	r.key = le.AppendUint64(append(r.key[:0], "running"...), start)
	return r.stackAt(func() []Frame {
		frames := []Frame{{Func: tachyon.FuncNotRead}}
		if p := r.program.funcs.at(start); len(p.frames) > 0 {
			frames = append(frames, p.frames[len(p.frames)-1])
		}
		return frames
	}).ids
}

// stackOf returns the stack of a goroutine that does not run, and its status.
func (r *recorder) stackOf(w *walk) (s *stack, status tachyon.Status) {
	h := &w.head
	state := r.state(h)
	switch h.plain() {
	case goruntime.GRunnable, goruntime.GPreempted:
		status = tachyon.GILRequested
		if h.pc == h.start {
			r.key = le.AppendUint64(append(r.key[:0], tachyon.FuncNotStarted...), h.start)
			return r.stackAt(func() []Frame { return []Frame{{Func: tachyon.FuncNotStarted}, r.begins(h)} }), status
		}
	case goruntime.GSyscall:
		status = tachyon.Unknown
	case goruntime.GRunning, goruntime.GCopying:
		status = tachyon.HasGIL | r.onCPU(r.list[w.index])
	}
	r.key = append(r.key[:0], state...)
	for _, pc := range w.pcs {
		r.key = le.AppendUint64(r.key, pc)
	}
	s = r.stackAt(func() []Frame {
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

// stackAt returns a stack. The key is r.key.
func (r *recorder) stackAt(frames func() []Frame) *stack {
	if s := r.stacks[string(r.key)]; s != nil {
		return s
	}
	if len(r.stacks) >= maxStacks {
		clear(r.stacks)
	}
	list := frames()
	s := &stack{ids: make([]uint32, 0, min(len(list), tachyon.MaxDepth)), numbered: map[int32][]uint32{}}
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
