//go:build linux && (amd64 || arm64)

package attach

import (
	"slices"
	"strconv"
	"strings"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/tachyon"
)

// maxStacks bounds the memory for stacks that were seen.
const maxStacks = 1 << 16

// at returns file and line.
func (f *Frame) at() string { return f.File + ":" + strconv.Itoa(int(f.Line)) }

// running returns the stack of a goroutine that runs: only its outermost function is known.
func (r *recorder) running(start uint64) []uint32 {
	r.key = le.AppendUint64(append(r.key[:0], "running"...), start)
	return r.stack(func() []Frame {
		frames := []Frame{{Func: tachyon.FuncNotRead}}
		p := r.program.funcs.at(start)
		if p.ok && len(p.frames) > 0 {
			frames = append(frames, p.frames[len(p.frames)-1])
		}
		return frames
	})
}

// stackOf returns the stack of a goroutine that does not run, and its status.
func (r *recorder) stackOf(w *walk) (ids []uint32, status tachyon.Status) {
	h := &w.head
	state := r.state(h)
	switch h.plain() {
	case goruntime.GRunnable, goruntime.GPreempted:
		status = tachyon.GILRequested
		if h.pc == h.start {
			r.key = le.AppendUint64(append(r.key[:0], tachyon.FuncNotStarted...), h.start)
			return r.stack(func() []Frame { return []Frame{{Func: tachyon.FuncNotStarted}, r.begins(h)} }), status
		}
	case goruntime.GSyscall:
		status = tachyon.Unknown
	}
	r.key = append(r.key[:0], state...)
	for _, pc := range w.pcs {
		r.key = le.AppendUint64(r.key, pc)
	}
	ids = r.stack(func() []Frame {
		frames := r.program.funcs.frames(w.pcs)
		n := 0
		for n < len(frames) && hidden(frames[n].Func) {
			n++
		}
		if n < len(frames) {
			frames = frames[n:]
		}
		return slices.Insert(frames, 0, Frame{Func: "[" + state + "]"})
	})
	return ids, status
}

// stack returns the ids of a stack's frames. The key is r.key.
func (r *recorder) stack(frames func() []Frame) []uint32 {
	if ids, ok := r.stacks[string(r.key)]; ok {
		return ids
	}
	if len(r.stacks) >= maxStacks {
		clear(r.stacks)
	}
	list := frames()
	ids := make([]uint32, 0, min(len(list), tachyon.MaxDepth))
	for _, f := range list[:min(len(list), tachyon.MaxDepth)] {
		ids = append(ids, r.w.Intern(tachyon.Frame{File: f.File, Func: f.Func, Line: f.Line}))
	}
	r.stacks[string(r.key)] = ids
	return ids
}

// hidden reports whether runtime.Stack leaves a function out: one of the runtime's that is not exported.
func hidden(name string) bool {
	name, ok := strings.CutPrefix(name, "runtime.")
	name = name[strings.LastIndexByte(name, '.')+1:]
	return ok && (name == "" || name[0] < 'A' || name[0] > 'Z')
}
