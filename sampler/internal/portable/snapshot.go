package portable

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"time"

	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/sampler/internal/deadlock"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// maxLabelSets bounds the number of parsed label sets that are kept by their text.
const maxLabelSets = 4096

// oldAge is for texts that are cut off. Then a goroutine counts as ended if it was in none of the
// last oldAge texts, so that the memory for ended goroutines stays bounded.
const oldAge = 64

// snapshot is the result of the last text. It also keeps state from text to text, so that a
// goroutine whose lines have not changed is not parsed again.
type snapshot struct {
	out        source.Out
	waitFrames bool
	seed       maphash.Seed

	known   map[uint64]*goroutine
	places  map[string]uint32            // frame id by function, newline, file:line
	reasons map[string]reason            // by the words in the header
	sets    map[string]map[string]string // label set by its text
	elided  uint32                       // frame ids
	nonGo   uint32
	fresh   uint32 // the leaf frame of goroutines that have not run yet
	scratch []byte

	turn       uint64        // counts texts
	before     time.Duration // of the last emit
	goroutines int           // in the last text, without the caller
	now        []*goroutine
	runnable   []*goroutine
	cpu        cpu
	sample     source.Sample // the one passed to out
}

// goroutine is the state of one goroutine.
type goroutine struct {
	id      uint64
	turn    uint64 // number of the last text that has it
	body    uint64 // hash of its lines after the header
	labels  uint64 // hash of its labels as printed; 0: none
	stack   []uint32
	reason  reason
	begun   bool // it is not at its first instruction, so it has run
	panics  bool
	running bool // in this turn
	onCPU   bool // in this turn
	relabel bool // Out does not know set yet
	sampled bool
	skip    bool // Out does not want samples of it
	set     map[string]string
}

// A reason is one wait reason or status of the runtime.
type reason struct {
	state state
	frame uint32 // the frame that says why the goroutine does not run
	stuck bool   // only another goroutine or a timer can end it
}

type state uint8

const (
	waiting state = iota
	runnable
	running
	syscall
)

// lost counts goroutines of a text that give no sample.
type lost struct {
	dropped int64 // including torn
	torn    int64
}

func (s *snapshot) init(out source.Out, waitFrames bool) {
	s.out, s.waitFrames = out, waitFrames
	s.seed = maphash.MakeSeed()
	s.known = make(map[uint64]*goroutine)
	s.places = make(map[string]uint32)
	s.reasons = make(map[string]reason)
	s.sets = make(map[string]map[string]string)
	s.elided = out.Frame(tachyon.Frame{Func: "[frames elided]"})
	s.nonGo = out.Frame(tachyon.Frame{Func: "[non-Go function]"})
	s.fresh = out.Frame(tachyon.Frame{Func: "[" + source.NotStarted + "]"})
}

// read parses one text of runtime.Stack. all says that it is complete. The first goroutine in the
// text is the caller, the source's own goroutine, and is left out.
func (s *snapshot) read(text []byte, all bool) (l lost) {
	s.turn++
	s.goroutines = 0
	s.now, s.runnable = s.now[:0], s.runnable[:0]
	_, _, text, _ = cutGoroutine(text)
	for len(text) > 0 {
		var head, stack []byte
		var whole bool
		head, stack, text, whole = cutGoroutine(text)
		if !whole && !all {
			break
		}
		s.goroutines++
		h, ok := parseHeader(head)
		g := s.known[h.id]
		if !ok {
			l.dropped++
			if g != nil {
				g.turn = s.turn
			}
			continue
		}
		fresh := g == nil
		if fresh {
			g = &goroutine{id: h.id}
		} else if g.turn == s.turn {
			l.dropped++ // the same id twice is an error
			continue
		}
		// Set this before the stack is parsed: the goroutine has not ended, even if its stack
		// cannot be parsed.
		g.turn = s.turn
		if sum := maphash.Bytes(s.seed, stack); fresh || sum != g.body || g.stack == nil {
			unseen, ok := s.parse(g, stack, fresh)
			if !ok || unseen {
				l.dropped++
				if unseen {
					l.torn++
				}
				g.stack = nil // parse the next text in any case
				continue
			}
			g.body = sum
		}
		if fresh {
			s.known[g.id] = g
		}
		s.label(g, h.labels)
		g.reason = s.reason(h.reason)
		g.running = g.reason.state == running
		if g.reason.state == runnable {
			s.runnable = append(s.runnable, g)
		}
		s.now = append(s.now, g)
	}
	switch {
	case all:
		s.forget(s.turn)
	case s.turn%oldAge == 0:
		// A goroutine may appear again after this. Out allows that.
		s.forget(s.turn - oldAge + 1)
	}
	return l
}

// parse reads the lines after a goroutine's header into g.
func (s *snapshot) parse(g *goroutine, text []byte, fresh bool) (unseen, ok bool) {
	about := source.Goroutine{ID: g.id}
	// The first element is reserved for the wait frame.
	g.stack = append(g.stack[:0], 0)
	g.panics, g.begun = false, false
	b := body{text: text}
	wrapped := false // the outermost function is a wrapper
	var outermost, creator uint32
	for {
		l, more := b.next()
		if !more {
			break
		}
		switch l.kind {
		case elidedLine:
			g.begun = true
			g.stack = append(g.stack, s.elided)
		case cLine:
			g.begun = true
			g.stack = append(g.stack, s.nonGo)
		case creatorLine:
			if !g.begun && wrapped {
				creator = s.frame(&l)
			}
			if fresh {
				about.Parent = l.parent
				about.CreatedBy = string(l.fn)
				about.CreatedAt = string(l.place)
			}
		default:
			if len(l.fn) == len(gopanic) && bytes.Equal(l.fn, gopanic) {
				g.panics = true
			}
			id := s.frame(&l)
			if id == hiddenFrame { // the frames before it are what it calls
				g.stack = g.stack[:1]
			} else {
				g.stack = append(g.stack, id)
			}
			if !bytes.Equal(l.fn, goexit) { // it is printed after a wrapper
				g.begun = g.begun || l.inside
				wrapped, outermost = isGoWrapper(l.fn), id
			}
		}
	}
	if b.bad {
		return false, false
	}
	if !g.begun && outermost != 0 {
		// Only the function that the go statement calls, without functions inlined at its first
		// instruction. The text does not say what a wrapper calls: then the go statement itself.
		g.stack = append(g.stack[:1], cmp.Or(creator, outermost))
	}
	if outermost == hiddenFrame {
		g.stack = append(g.stack[:1], s.out.Frame(tachyon.Frame{Func: own.Profiler}))
	}
	if fresh && !b.unseen {
		g.skip = !s.out.Goroutine(about)
	}
	return b.unseen, true
}

// isGoWrapper reports whether a function is one that the compiler made for a go statement with
// arguments, such as main.f.gowrap1.
func isGoWrapper(name []byte) bool {
	last := bytes.TrimRight(name[bytes.LastIndexByte(name, '.')+1:], "0123456789")
	return string(last) == "gowrap"
}

// hiddenFrame is the id of frames that own.Hidden leaves out.
const hiddenFrame = ^uint32(0)

// frame returns the id of a frame. It copies the strings only of a new frame.
func (s *snapshot) frame(l *line) uint32 {
	s.scratch = append(append(append(s.scratch[:0], l.fn...), '\n'), l.place...)
	if id, ok := s.places[string(s.scratch)]; ok {
		return id
	}
	key := string(s.scratch)
	fn, file := key[:len(l.fn)], key[len(l.fn)+1:][:len(l.file)]
	id := uint32(hiddenFrame)
	if !own.Hidden(fn) {
		id = s.out.Frame(tachyon.Frame{Func: fn, File: file, Line: l.line})
	}
	s.places[key] = id
	return id
}

// reason returns the meaning of the words in a header's brackets.
func (s *snapshot) reason(words []byte) reason {
	if r, ok := s.reasons[string(words)]; ok {
		return r
	}
	w := string(words)
	r := reason{state: waiting, stuck: deadlock.Stuck(w)}
	switch w {
	case "running":
		r.state = running
	case "runnable", "preempted", "copystack", "idle":
		r.state = runnable
	case "syscall":
		r.state = syscall
	}
	if r.state == runnable {
		w = source.Runnable
	}
	r.frame = s.out.Frame(tachyon.Frame{Func: "[" + w + "]"})
	s.reasons[string(words)] = r
	return r
}

// label records a change of g's labels.
func (s *snapshot) label(g *goroutine, text []byte) {
	var sum uint64
	if text != nil {
		sum = maphash.Bytes(s.seed, text) | 1
	}
	if sum == g.labels {
		return
	}
	g.labels = sum
	g.relabel = true
	if text == nil {
		g.set = nil
		return
	}
	set, ok := s.sets[string(text)]
	if !ok {
		if set, ok = parseLabels(text); !ok {
			set = nil
		}
		if len(s.sets) >= maxLabelSets {
			clear(s.sets)
		}
		s.sets[string(text)] = set
	}
	g.set = set
}

// forget removes the goroutines that were last seen before the given turn, and reports their end.
func (s *snapshot) forget(turn uint64) {
	if len(s.known) == len(s.now) {
		return
	}
	for id, g := range s.known {
		if g.turn < turn {
			delete(s.known, id)
			s.out.Gone(id)
		}
	}
}

// emit passes the samples of the last text to Out. n(k) returns a random number below k.
func (s *snapshot) emit(at time.Duration, procs int, n func(k int) int) {
	// Goroutines that the text calls running have a P already.
	free := procs
	for _, g := range s.now {
		if g.running {
			free--
			g.onCPU = s.cpu.pay(at - s.before)
		}
	}
	for i := 0; i < len(s.runnable) && i < free; i++ {
		j := i + n(len(s.runnable)-i)
		s.runnable[i], s.runnable[j] = s.runnable[j], s.runnable[i]
		s.runnable[i].running, s.runnable[i].onCPU = true, s.cpu.pay(at-s.before)
	}

	for _, g := range s.now {
		if g.skip {
			continue
		}
		if g.relabel {
			g.relabel = false
			from := at
			if !g.sampled {
				from = s.before // the first sample stands for the time since then
			}
			s.out.Labels(g.id, from, g.set)
		}
		g.sampled = true
		s.sample = source.Sample{Goroutine: g.id, Status: g.status(), Time: at, Gap: at - s.before, Stack: g.stack[1:]}
		if s.waitFrames && !g.running {
			g.stack[0] = g.reason.frame
			if g.reason.state == runnable && !g.begun {
				g.stack[0] = s.fresh
			}
			s.sample.Stack = g.stack
		}
		s.out.Sample(&s.sample)
	}
	s.before = at
}

func (g *goroutine) status() (st tachyon.Status) {
	switch {
	case g.running && g.onCPU:
		st = tachyon.HasGIL | tachyon.OnCPU
	case g.running:
		st = tachyon.HasGIL
	case g.reason.state == runnable:
		st = tachyon.GILRequested
	case g.reason.state == syscall:
		st = tachyon.Unknown
	}
	if g.panics {
		st |= tachyon.HasException
	}
	if g.id == 1 {
		st |= tachyon.MainThread
	}
	return st
}
