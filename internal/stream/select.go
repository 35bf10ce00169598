package stream

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/tachyon"
)

// A Selection says which samples count. What is set must be true of a sample; the zero value
// selects all.
type Selection struct {
	Labels     []Label  // the sample has all of these
	States     []string // its state, as Source.State has it, is one of these or of their kind, see HasState
	Goroutines []uint64 // it is of one of these
	Peers      []string // it waits in [IO wait] for one of these, as IsPeer has it
	Since      Moment   // time before is left out
	Until      Moment   // time after is left out
	// Pick may be nil. It returns a function that says whether a sample is selected. The function
	// is called with all samples of the selected time that stand for time, in their order. Each
	// reading has a new one.
	Pick func(*Source) func(*Sample) (bool, error)
	What string // what Pick selects, for messages
	// Found, if not nil, is set when a sample is selected.
	Found *atomic.Bool
}

// A Label is a pprof label of a goroutine, or a fact about its process; see Source.Label.
type Label struct{ Key, Value string }

// ParseLabel returns the label that has the form KEY=VALUE.
func ParseLabel(text string) (Label, error) {
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return Label{}, fmt.Errorf("%q does not have the form KEY=VALUE", text)
	}
	return Label{key, value}, nil
}

// Empty reports whether a selection selects all samples.
func (s *Selection) Empty() bool {
	return s == nil || !s.chooses() && !s.Timed()
}

// chooses reports whether a selection selects by more than time.
func (s *Selection) chooses() bool {
	return len(s.Labels) > 0 || len(s.States) > 0 || len(s.Goroutines) > 0 || len(s.Peers) > 0 || s.Pick != nil
}

// Timed reports whether a selection depends on time.
func (s *Selection) Timed() bool { return s.Since.text != "" || s.Until.text != "" }

// String describes a selection.
func (s *Selection) String() string {
	var list []string
	if s.What != "" {
		list = append(list, s.What)
	}
	for _, l := range s.Labels {
		list = append(list, "label "+l.Key+"="+l.Value)
	}
	for _, state := range s.States {
		list = append(list, "state "+state)
	}
	for _, id := range s.Goroutines {
		list = append(list, fmt.Sprint("goroutine ", id))
	}
	for _, peer := range s.Peers {
		list = append(list, "peer "+peer)
	}
	if s.Since.text != "" {
		list = append(list, "since "+s.Since.text)
	}
	if s.Until.text != "" {
		list = append(list, "until "+s.Until.text)
	}
	return strings.Join(list, ", ")
}

// Has reports whether a goroutine with these labels, in this state and with this id is selected.
func (s *Selection) Has(labels map[string]string, state string, goroutine uint64) bool {
	return s.hasLabels(labels) && s.hasState(state) && (len(s.Goroutines) == 0 || slices.Contains(s.Goroutines, goroutine))
}

func (s *Selection) hasLabels(labels map[string]string) bool {
	for _, l := range s.Labels {
		if value, ok := labels[l.Key]; !ok || value != l.Value {
			return false
		}
	}
	return true
}

// hasAll reports whether a goroutine of the present file with these labels, which may be nil, has
// all that are selected.
func (c *chooser) hasAll(labels *Labels) bool {
	k := &c.known
	if !k.valid || k.labels != labels || k.file != c.src.present {
		k.valid, k.labels, k.file, k.has = true, labels, c.src.present, true
		for _, l := range c.Labels {
			value, ok := c.src.Label(labels, l.Key)
			k.has = k.has && ok && value == l.Value
		}
	}
	return k.has
}

func (s *Selection) hasState(state string) bool {
	return len(s.States) == 0 || HasState(s.States, state)
}

// HasState reports whether a state is one of those that words name: states, or the kinds of
// [Kinds]. Case does not matter.
func HasState(words []string, state string) bool {
	return slices.ContainsFunc(words, func(name string) bool {
		return strings.EqualFold(strings.Trim(name, "[]"), state) || IsKind(name, state)
	})
}

// A chooser applies a selection to samples.
type chooser struct {
	*Selection
	src      *Source
	from, to uint64 // µs since the start
	states   map[inState]bool
	session  bool // gotach recorded all files, so that Process is no goroutine
	pick     func(*Sample) (bool, error)
	err      error // of pick
	known    hasLabels
	peers    map[int32]bool    // numbers of the objects that Peers selects
	plain    map[uint32]uint32 // by stack: the one without the number, if Options.Objects was not set; nil: it was
}

// A hasLabels says whether the latest labels are selected.
type hasLabels struct {
	valid  bool
	labels *Labels
	file   int
	has    bool
}

type inState struct {
	stack  uint32
	status tachyon.Status
}

// choose prepares the selection of a source. If a moment is relative to an end that the files do
// not say, it reads all samples.
func (s *Source) choose() error {
	sel := s.o.Select
	if sel.Empty() {
		return nil
	}
	s.o.Labels = s.o.Labels || len(sel.Labels) > 0 || sel.Pick != nil
	c := &chooser{Selection: sel, src: s, to: math.MaxUint64, states: map[inState]bool{}, session: s.metadata.Session != nil}
	length, start := uint64(0), s.Header().Start
	if sel.Since.fromEnd() || sel.Until.fromEnd() {
		var err error
		if length, err = s.length(); err != nil {
			return err
		}
	}
	if len(sel.Peers) > 0 {
		if !s.o.Objects {
			s.o.Objects, c.plain = true, map[uint32]uint32{}
		}
		names, err := s.Peers()
		if err != nil {
			return err
		}
		c.peers = map[int32]bool{}
		for number, name := range names {
			if slices.ContainsFunc(sel.Peers, func(want string) bool { return IsPeer(name, want) }) {
				c.peers[number] = true
			}
		}
	}
	if sel.Since.text != "" {
		c.from = sel.Since.since(start, length)
	}
	if sel.Until.text != "" {
		c.to = sel.Until.since(start, length)
	}
	if c.to <= c.from {
		return noTimeError(fmt.Sprintf("there is no time between %s and %s", sel.Since.orStart(), sel.Until.text))
	}
	s.chooser = c
	s.metadata = s.join()
	return nil
}

// yields reports whether a sample is one that the source yields. Of its time it leaves what is
// selected.
func (c *chooser) yields(s *Sample) bool {
	if !c.inTime(s) {
		return false
	}
	s.Unselected = !c.has(s)
	if c.plain != nil && s.Stack != 0 {
		s.Stack = c.withoutNumber(s.Stack)
	}
	if !s.Unselected && c.Found != nil && !c.Found.Load() {
		c.Found.Store(true)
	}
	return !s.Unselected || c.src.o.Unselected
}

// inTime reports whether a sample has time that is selected. It leaves only that.
func (c *chooser) inTime(s *Sample) bool {
	if c.Timed() {
		start := c.src.parts[0].Header.Start
		at := uint64(max(0, int64(s.Time-start)))
		begin := max(c.from, at-min(at, uint64(s.Wall.Microseconds())))
		if at = min(at, c.to); at <= begin {
			return false
		}
		s.Time, s.Wall = start+at, reader.Micros(at-begin)
	}
	return true
}

// has reports whether a sample of the selected time is selected.
func (c *chooser) has(s *Sample) bool {
	if c.pick != nil && c.err == nil {
		yes, err := c.pick(s)
		if c.err = err; !yes {
			return false
		}
	}
	if len(c.Goroutines) > 0 && (c.session && s.Interpreter == tachyon.Process || !slices.Contains(c.Goroutines, s.Goroutine)) {
		return false
	}
	if len(c.Labels) > 0 && !c.hasAll(s.Labels) {
		return false
	}
	if len(c.Peers) > 0 && (s.Stack == 0 || !c.peers[ObjectOf(&c.src.Frames()[c.src.Stacks()[s.Stack].Frame])]) {
		return false
	}
	if len(c.States) == 0 {
		return true
	}
	key := inState{s.Stack, s.Status}
	yes, ok := c.states[key]
	if !ok {
		yes = c.hasState(c.src.State(s.Status, s.Stack))
		c.states[key] = yes
	}
	return yes
}

// withoutNumber returns a stack whose innermost frame has no number of an object.
func (c *chooser) withoutNumber(stack uint32) uint32 {
	to, ok := c.plain[stack]
	if !ok {
		to = stack
		at := c.src.Stacks()[stack]
		if f := c.src.Frames()[at.Frame]; reader.IsObject(&f) {
			f.Line = 0
			to = c.src.push(at.Caller, c.src.frames.Intern(f))
		}
		c.plain[stack] = to
	}
	return to
}

// cut makes what is known about the whole right for the selected time.
func (c *chooser) cut(m *tachyon.Metadata) *tachyon.Metadata {
	if !c.Timed() || m.Session == nil {
		return m
	}
	out, session := *m, *m.Session
	from, to := reader.Micros(c.from), reader.Micros(c.to)
	session.Start = session.Start.Add(from)
	if session.Duration > 0 {
		session.Duration = max(0, min(to, session.Duration)-from)
	}
	session.NotSeen = 0 // nobody knows when
	session.Throttled, session.ThrottledPeriods, session.ThrottledOf = c.throttled()
	out.Session = &session
	return &out
}

// throttled returns what the CPU quota took in the files that have selected time, and of which time
// that is: 0 if all of it is selected.
func (c *chooser) throttled() (d time.Duration, periods int64, of time.Duration) {
	whole := true
	for _, p := range c.src.parts {
		begin := p.Header.Start + p.Shift - min(p.Header.Start+p.Shift, c.src.parts[0].Header.Start)
		length := partLength(p)
		end := begin + uint64(length.Microseconds())
		if begin >= c.to || end <= c.from {
			continue
		}
		s := p.Metadata.Session
		d, periods, of = d+s.Throttled, periods+s.ThrottledPeriods, of+max(length, s.ThrottledOf)
		whole = whole && begin >= c.from && end <= c.to && s.ThrottledOf == 0
	}
	if whole {
		of = 0
	}
	return d, periods, of
}
