package idle

import (
	"strings"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/syntax"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// idleStack is what is known about a stack.
type idleStack struct {
	kind   idleKind
	deep   bool
	choice bool       // it waits in a select
	shared bool       // the object that is waited for is one for which several goroutines waited
	site   uint32     // the stack without the object
	entry  uint32     // number of the function that the goroutine began with
	runs   uint32     // that of the function that this calls, if it is a literal; 0: none
	in     uint32     // that of the function that waits, and of its callers
	place  *idlePlace // that is known; nil: none
}

type idleKind uint8

const (
	idleUnknown idleKind = iota // not looked at yet
	idleNever
	idlePlain  // a known place, unless the goroutine has labels
	idleAlways // a known place, with labels too
	idleHome   // may be a home
	idleRest   // is no home, but a goroutine may spend a whole session there
)

// Place returns what goroutines with a stack wait for, if it waits at a known place, such as
// "the next request". Otherwise it is "".
func (f *Idle) Place(stack uint32) string {
	if p := f.stack(stack).place; p != nil {
		return p.what
	}
	return ""
}

// Always reports whether a stack waits at a place that is idle with labels too.
func (f *Idle) Always(stack uint32) bool { return f.stack(stack).kind == idleAlways }

// Site returns the first stack that is equal apart from the object that the goroutine waits for.
func (f *Idle) Site(stack uint32) uint32 { return f.stack(stack).site }

// stack returns what is known about a stack. It is valid until the next call.
func (f *Idle) stack(stack uint32) *idleStack {
	x := analyze.At(&f.stacks, stack, len(f.src.Stacks()))
	if x.kind == idleUnknown {
		*x = f.look(stack)
	}
	return x
}

// leaf returns the innermost frame of a stack. Stack 0 has an empty one.
func (f *Idle) leaf(stack uint32) *tachyon.Frame {
	if stack == 0 {
		return &tachyon.Frame{}
	}
	return &f.src.Frames()[f.src.Stacks()[stack].Frame]
}

// look finds out about a stack.
func (f *Idle) look(stack uint32) idleStack {
	x := idleStack{kind: idleNever, site: stack}
	if stack == 0 {
		return x
	}
	list := f.src.Stacks()
	why := analyze.Reason(f.leaf(stack))
	x.site, x.shared = f.site(stack), why != "" && f.leaf(stack).Line > 0
	x.choice = why == "select"
	t := f.trace(stack, why)
	entry, rest, known := t.entry, t.rest, t.known
	if entry != nil {
		x.entry = f.entry(entry.name)
	}
	if entry != nil && entry.literal && t.runs != nil && !t.runs.primitive {
		x.runs = f.entry(t.runs.name)
	}
	var line *tachyon.Frame // in rest
	if rest != nil {
		x.in = f.caller(rest.name, list[t.restAt].Caller)
		line = &f.src.Frames()[list[t.restAt].Frame]
	}
	home := homeReasons[why] && rest != nil && t.restAt == t.entryAt
	deep := homeReasons[why] && rest != nil && entry != nil && list[t.restAt].Caller == t.entryAt && entry.literal
	switch {
	case why == "":
	case idleReasons[why], known != nil && known.always:
		x.kind = idleAlways
	case t.request && why == "IO wait" && !t.writes && !t.body && f.accepted(f.leaf(stack)):
		x.kind = idleAlways // the handler has taken the connection over, and waits for what its client says next
	case t.request:
		known = nil
	case (home || deep) && entry.name != "main.main" && f.texts.ForTime(line) == syntax.Tick:
		x.kind = idleAlways // a loop in the background, which may have the labels of a request that began it
	case known != nil, why == idleForever:
		x.kind = idlePlain
	case t.writes, x.choice && rest != nil && f.texts.Offers(line) != nil: // somebody is slow to read or to receive
	case home:
		x.kind = idleHome
	case deep:
		x.kind, x.deep = idleHome, !f.texts.Ranges(line)
	case (restReasons[why] || why == profile.Syscall && t.program) && rest != nil:
		x.kind = idleRest
	}
	x.place = known
	return x
}

// An idleTrace is what the frames of a stack are.
type idleTrace struct {
	entry   *idleFrame // the function with which the goroutine began
	entryAt uint32     // the stack with it on top
	runs    *idleFrame // the function that this calls
	rest    *idleFrame // the function in which the goroutine waits
	restAt  uint32     // the stack with it on top
	known   *idlePlace
	request bool
	writes  bool
	body    bool // it reads the body of a request
	program bool // it waits for the end of another program
}

// trace goes through the frames of a stack of a goroutine that waits for a reason, "" if it does
// not wait.
func (f *Idle) trace(stack uint32, why string) (t idleTrace) {
	list := f.src.Stacks()
	if why != "" {
		stack = list[stack].Caller
	}
	callee := ""
	for at := stack; at != 0; at = list[at].Caller {
		fr := f.frame(list[at].Frame)
		if t.rest == nil && !fr.primitive {
			t.rest, t.restAt = fr, at
		}
		for _, p := range fr.places {
			if !t.request && (t.known == nil || !t.known.always) && p.matches(why, callee, t.restAt == at) {
				t.known = p
			}
		}
		t.request = t.request || fr.request
		t.writes = t.writes || fr.name == "internal/poll.(*pollDesc).waitWrite"
		t.body = t.body || fr.name == "net/http.(*body).readLocked"
		t.program = t.program || fr.name == "os.(*Process).Wait"
		if !fr.wrapper {
			t.runs = t.entry
			t.entry, t.entryAt = fr, at
		}
		callee = fr.name
	}
	return t
}

// accepted reports whether goroutines with an innermost frame wait for a connection that the
// program has accepted.
func (f *Idle) accepted(leaf *tachyon.Frame) bool {
	if f.peers == nil {
		f.peers, _ = f.src.Peers() // none if they cannot be read
	}
	_, accepted := stream.Accepted(f.peers[stream.ObjectOf(leaf)])
	return accepted
}

// site returns the first stack that is equal apart from the object that the goroutine waits for.
func (f *Idle) site(stack uint32) uint32 {
	leaf := f.leaf(stack)
	if analyze.Reason(leaf) == "" {
		return stack
	}
	at := stackSite{leaf.Func, f.src.Stacks()[stack].Caller}
	n, ok := f.sites[at]
	if !ok {
		n = stack
		f.sites[at] = n
	}
	return n
}

// A callerOf is a function and the stack that calls it.
type callerOf struct {
	function string
	caller   uint32
}

// caller returns the number of a function with its callers.
func (f *Idle) caller(function string, stack uint32) uint32 {
	return f.callers.Of(callerOf{function, stack}) + 1
}

// entry returns the number of a function with which goroutines begin.
func (f *Idle) entry(name string) uint32 { return f.entries.Of(name) + 1 }

// idleFrame is what is known about a frame.
type idleFrame struct {
	name      string
	places    []*idlePlace
	known     bool // it was looked at
	primitive bool // part of a wait, not a function that decides to wait
	request   bool // a call of it is a request
	wrapper   bool // calls the function with which a goroutine begins
	literal   bool
}

// frame returns what is known about a frame. It is valid until the next new frame.
func (f *Idle) frame(n uint32) *idleFrame {
	x := analyze.At(&f.frames, n, len(f.src.Frames()))
	if x.known {
		return x
	}
	name := profile.FuncName(f.src.Frames()[n].Func)
	*x = idleFrame{
		name: name, known: true, places: idlePlaces[anyLiteral(name)],
		wrapper: Wrappers[name] || strings.Contains(name[strings.LastIndexByte(name, '/')+1:], ".gowrap"),
		literal: analyze.Closure.MatchString(name),
	}
	x.primitive = primitive(profile.Package(name), name)
	_, x.request = analyze.RequestKind(name)
	return x
}

// anyLiteral returns a function's name. Literals in a function have one name, because their numbers
// depend on the library's version.
func anyLiteral(name string) string {
	if at := analyze.Closure.FindStringIndex(name); at != nil {
		return name[:at[0]] + ".func"
	}
	return name
}
