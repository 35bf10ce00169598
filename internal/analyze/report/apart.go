package report

import (
	"slices"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/idle"
	"github.com/gotach/profiler/internal/analyze/leaks"
	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// What is set apart as idle time is: it is no work of the program, and there may be so much of it
// that it hides all else.
const (
	NotApart  uint8 = iota
	Leaked          // goroutines wait where goroutines leak
	Client          // goroutines ask the program's own server, as a load generator does
	Debug           // goroutines look at the program itself: they serve its profiles
	apartKind       // the number of kinds
)

// apartNames are the kinds in words.
var apartNames = [apartKind]string{Leaked: "leaked goroutines", Client: "clients of the program's own server", Debug: "profiling endpoints"}

// clientShare is the part of its time that a function which goroutines began with asks the
// program's own server, from which on it is a client. Time asleep does not count.
const clientShare = 0.5

// An apart says what is set apart. The stack of a goroutine tells.
type apart struct {
	src     *stream.Source
	peers   map[int32]string
	frames  []frameFacts // by frame
	leaked  map[waitPlace]bool
	mine    map[string]bool   // peers that are the program's own server
	asks    map[string]bool   // packages whose connections are all to it
	far     map[string]string // see locks.FarOfPackages
	ends    *locks.FarEnds    // if some are in mine
	clients map[string]bool   // functions that goroutines began with

	stacks []uint32 // by stack: the number of its place + 1; 0: not looked at
	places stream.Table[apartPlace]
	buf    []uint32
}

// An apartPlace is what matters of a stack. Which places are set apart is known when all samples
// were read.
type apartPlace struct {
	debug bool
	waits waitPlace
	root  string // function that the goroutine began with; "" in a request
}

// A waitPlace is a line of the program's own code at which goroutines wait.
type waitPlace struct {
	state, function, file string
	line                  int32
}

// newApart finds out what is set apart. The profile has all records. growth may be nil.
func newApart(src *stream.Source, p *profile.Profile, idles *idle.Idle, growth *leaks.Leaks) (*apart, error) {
	a := &apart{src: src, leaked: map[waitPlace]bool{}}
	if growth != nil && !src.SelectsStates() {
		for i := range growth.Groups {
			if g := &growth.Groups[i]; g.Leaks() {
				a.leaked[waitPlace{g.Reason, g.Function, g.File, int32(g.Line)}] = true
			}
		}
	}
	var err error
	if a.peers, err = src.Peers(); err != nil {
		return nil, err
	}
	a.servers()
	a.far = locks.FarOfPackages(src, a.peers)
	a.findAsks(p)
	if len(a.mine) > 0 {
		if a.ends, err = locks.NewFarEnds(analyze.NewSamples("", src)); err != nil {
			return nil, err
		}
		a.findClients(p, idles)
	}
	return a, nil
}

// servers finds the names of connections to the program's own server.
func (a *apart) servers() {
	accepts := map[string]bool{}
	for _, name := range a.peers {
		if at, accepted := stream.Accepted(name); accepted {
			accepts[at[strings.LastIndexByte(at, ':')+1:]] = true // a port, or all of a path
		}
	}
	a.mine = map[string]bool{}
	for _, name := range a.peers {
		_, accepted := stream.Accepted(name)
		if accepts[name[strings.LastIndexByte(name, ':')+1:]] && !accepted && (strings.HasPrefix(name, "unix ") || isLoopback(name)) {
			a.mine[name] = true // the listener may have that name too
		}
	}
}

// isLoopback reports whether a peer is on this machine, by its name.
func isLoopback(name string) bool {
	return strings.Contains(name, " 127.") || strings.Contains(name, " [::1]")
}

// findAsks finds the packages whose connections are all to the program's own server.
func (a *apart) findAsks(p *profile.Profile) {
	own, others := map[string]bool{}, map[string]bool{} // packages
	a.asks = map[string]bool{}
	for i := range p.Records {
		if r := &p.Records[i]; len(r.Stack) > 0 {
			name := a.peer(r.Stack)
			if name == "" || strings.Contains(name, " from ") || a.accepts(r.Stack) {
				continue
			}
			of := own
			if !a.mine[name] {
				of = others
			}
			of[profile.Package(a.src.Frames()[r.Stack[len(r.Stack)-1]].Func)] = true
		}
	}
	for name := range own {
		a.asks[name] = !others[name]
	}
}

// findClients finds the functions whose goroutines ask the program's own server.
func (a *apart) findClients(p *profile.Profile, idles *idle.Idle) {
	type times struct{ asks, all time.Duration }
	of := map[string]times{}
	for i := range p.Records {
		r := &p.Records[i]
		if !r.OfGoroutine() || r.System || idles != nil && (idles.Is(idle.Key(r.Key)) || idles.Rests(idle.Key(r.Key))) || r.State == "sleep" {
			continue
		}
		root, request := a.root(r.Stack)
		if root == "" || request {
			continue
		}
		t := of[root]
		t.all += r.Wall
		if a.asksItself(r.Stack) {
			t.asks += r.Wall
		}
		of[root] = t
	}
	a.clients = map[string]bool{}
	for root, t := range of {
		a.clients[root] = t.asks > 0 && float64(t.asks) >= clientShare*float64(t.all)
	}
}

// frame returns what a frame says.
func (a *apart) frame(id uint32) *frameFacts {
	f := analyze.At(&a.frames, id, len(a.src.Frames()))
	if !f.known {
		*f = factsOfFrame(&a.src.Frames()[id])
	}
	return f
}

// peer returns the name of the connection that a goroutine waits for, "" if it waits for none.
func (a *apart) peer(stack []uint32) string {
	return a.peers[stream.ObjectOf(&a.src.Frames()[stack[0]])]
}

// accepts reports whether a goroutine waits for connections.
func (a *apart) accepts(stack []uint32) bool {
	for _, id := range stack {
		if strings.HasSuffix(a.src.Frames()[id].Func, "Listener).Accept") {
			return true
		}
	}
	return false
}

// root returns the outermost function of the program's own code, and whether a stack is that of a
// request.
func (a *apart) root(stack []uint32) (root string, request bool) {
	for _, id := range stack {
		f := a.frame(id)
		request = request || f.request
		if f.program {
			root = a.src.Frames()[id].Func
		}
	}
	return root, request
}

// asksItself reports whether a goroutine waits for the program's own server.
func (a *apart) asksItself(stack []uint32) bool {
	if len(stack) == 0 || len(a.mine) == 0 {
		return false
	}
	if name := a.peer(stack); name != "" {
		return a.mine[name] && !a.accepts(stack)
	}
	why, itself := analyze.Reason(&a.src.Frames()[stack[0]]), true
	for i, id := range stack[1:] {
		f := a.frame(id)
		if f.wait.In(why, a.src.Frames()[stack[i]].Func, itself) != "" {
			if name := a.ends.OfHTTP(stream.ObjectOf(&a.src.Frames()[stack[0]])); name != "" {
				return a.mine[name]
			}
			return a.asks[profile.Package(a.src.Frames()[id].Func)]
		}
		itself = itself && f.sync
		if f.program {
			break
		}
	}
	return false
}

// place returns what matters of a stack.
func (a *apart) place(stack []uint32) (out apartPlace) {
	if len(stack) == 0 {
		return out
	}
	own, request := profile.WaitFrame, false
	for _, id := range stack {
		f := a.frame(id)
		if f.debug {
			return apartPlace{debug: true}
		}
		x := &a.src.Frames()[id]
		if f.code > own {
			own = f.code
			out.waits = waitPlace{function: x.Func, file: x.File, line: x.Line}
		}
		request = request || f.request
		if f.program {
			out.root = x.Func
		}
	}
	state, waits := profile.WaitReason(a.src.Frames()[stack[0]])
	if out.waits.state = state; !waits {
		out.waits = waitPlace{}
	}
	if request {
		out.root = ""
	}
	return out
}

// of says why the time at a place is set apart.
func (a *apart) of(x apartPlace) uint8 {
	switch {
	case x.debug:
		return Debug
	case x.waits.state != "" && a.leaked[x.waits]:
		return Leaked
	case a.clients[x.root]:
		return Client
	}
	return NotApart
}

// placeOf returns the number of the place of a stack of the source.
func (a *apart) placeOf(stack uint32) uint32 {
	x := analyze.At(&a.stacks, stack, len(a.src.Stacks()))
	if *x == 0 {
		a.buf = a.buf[:0]
		for at := stack; at != 0; at = a.src.Stacks()[at].Caller {
			a.buf = append(a.buf, a.src.Stacks()[at].Frame)
		}
		*x = a.places.Of(a.place(a.buf)) + 1
	}
	return *x - 1
}

// ofSample is of, given a sample.
func (a *apart) ofSample(s *stream.Sample) uint8 {
	if a == nil || s.NotSeen || s.Interpreter != tachyon.User {
		return NotApart
	}
	return a.of(a.places.List[a.placeOf(s.Stack)])
}

// ofRecord is of, given a record of a profile of the source.
func (a *apart) ofRecord(r *profile.Record) uint8 {
	if a == nil || r.System || !r.OfGoroutine() {
		return NotApart
	}
	return a.of(a.place(r.Stack))
}

// setApart leaves out of a profile what is set apart, unless keep is set, and says how much it is.
// What is idle, or waits at one place in the whole session, is that first. It returns the records,
// by kind.
func (a *apart) setApart(p *profile.Profile, idles *idle.Idle, keep bool) (out [apartKind][]profile.Record) {
	if a == nil {
		return out
	}
	sums := [apartKind]profile.Apart{}
	p.HasApart = keep
	p.Records = slices.DeleteFunc(p.Records, func(r profile.Record) bool {
		if idles != nil && (idles.Is(idle.Key(r.Key)) || idles.Rests(idle.Key(r.Key))) {
			return false
		}
		kind := a.ofRecord(&r)
		if kind == NotApart {
			return false
		}
		x := &sums[kind]
		x.What = apartNames[kind]
		x.Wall += r.Wall
		x.CPU += r.CPU
		x.Series = profile.Plus(x.Series, r.Series)
		out[kind] = append(out[kind], r)
		return !keep
	})
	for _, x := range sums {
		if x.Wall > 0 {
			p.Apart = append(p.Apart, x)
		}
	}
	return out
}

// frameFacts are what the frame of a record says.
type frameFacts struct {
	known, program, sync, request, debug, transport bool

	code profile.Code
	wait *locks.KnownWait // nil: none
}

func factsOfFrame(f *tachyon.Frame) frameFacts {
	code := profile.CodeOf(f)
	out := frameFacts{known: true, sync: locks.IsSync(f), code: code, program: code == profile.ProgramCode, debug: analyze.DebugHandler.MatchString(f.Func),
		transport: analyze.Elsewhere[f.Func], wait: locks.Known(f.Func)}
	kind, ok := analyze.RequestKind(f.Func)
	out.request = ok && kind != analyze.KindTest
	return out
}
