package runs

import (
	"github.com/gotach/profiler/internal/frames"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// stacks translates the stacks of a source to those of a session.
type stacks struct {
	src      *stream.Source
	o        *Options
	frames   frames.Table
	list     []Stack
	children map[uint64]uint32 // by caller and frame
	plain    []uint32          // by stack of the source, without a frame for the state: number; 0: not known yet
	states   stream.Table[string]
	known    map[placeKey]place
	latest   placeKey // the key that was found last
	found    place
}

// A placeKey is what a sample says about stack and state.
type placeKey struct {
	stack  uint32
	status tachyon.Status
}

// A place is a stack of the session in a state.
type place struct{ stack, state uint32 }

func newStacks(src *stream.Source, o *Options) *stacks {
	return &stacks{src: src, o: o, list: []Stack{{}}, children: map[uint64]uint32{}, known: map[placeKey]place{}}
}

// of returns the place of a sample.
func (t *stacks) of(s *stream.Sample) place {
	key := placeKey{s.Stack, s.Status &^ tachyon.Moved}
	if key == t.latest && len(t.states.List) > 0 {
		return t.found
	}
	p, ok := t.known[key]
	if !ok {
		p = t.make(key)
		t.known[key] = p
	}
	t.latest, t.found = key, p
	return p
}

func (t *stacks) make(key placeKey) place {
	state := t.src.State(key.status, key.stack)
	n := t.states.Of(state)
	stack := t.stack(key.stack)
	if t.o.StateFrames && state != stream.Running && state != stream.Waiting && state != stream.NotSeen {
		leaf := t.frames.List()[t.list[stack].Frame]
		if _, ok := stream.WaitReason(leaf); !ok {
			stack = t.push(stack, tachyon.Frame{Func: "[" + state + "]"})
		}
	}
	return place{stack, n}
}

// stack returns the stack of the session for one of the source.
func (t *stacks) stack(stack uint32) uint32 {
	if stack == 0 {
		return t.push(0, tachyon.Frame{Func: "[no stack]"})
	}
	if n := len(t.src.Stacks()) - len(t.plain); n > 0 {
		t.plain = append(t.plain, make([]uint32, n)...)
	}
	var path []uint32 // innermost first
	at := stack
	for ; at != 0 && t.plain[at] == 0; at = t.src.Stacks()[at].Caller {
		path = append(path, at)
	}
	on := uint32(0)
	if at != 0 {
		on = t.plain[at]
	}
	for i := len(path) - 1; i >= 0; i-- {
		f := t.src.Frames()[t.src.Stacks()[path[i]].Frame]
		if !t.o.Lines || reader.IsObject(&f) {
			f.Line = 0
		}
		on = t.push(on, f)
		t.plain[path[i]] = on
	}
	return on
}

// push returns the stack with a frame on top of another one.
func (t *stacks) push(caller uint32, f tachyon.Frame) uint32 {
	frame := t.frames.Intern(f)
	key := uint64(caller)<<32 | uint64(frame)
	n, ok := t.children[key]
	if !ok {
		n = uint32(len(t.list))
		t.children[key] = n
		t.list = append(t.list, Stack{caller, frame, t.list[caller].Depth + 1})
	}
	return n
}

// entry returns the function that a goroutine began with, as far as a stack of the source tells:
// the outermost frame that is neither the runtime's nor pprof.Do's.
func (t *stacks) entry(stack uint32) string {
	name := ""
	for ; stack != 0; stack = t.src.Stacks()[stack].Caller {
		switch f := t.src.Frames()[t.src.Stacks()[stack].Frame].Func; f {
		case "runtime.goexit", "runtime.main", "runtime/pprof.Do":
			if name == "" {
				name = f
			}
		default:
			name = f
		}
	}
	return name
}
