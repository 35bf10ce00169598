package locks

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/tachyon"
)

// A Holder says who held a lock while goroutines waited for it, and what the holder did. Times are
// those of the waiting goroutines. They are added up from what was seen and what was inferred;
// together with what is unknown they are Lock.Waited.
type Holder struct {
	// Role is RoleHolds, of locks and of channels that goroutines use like one; or RoleOtherSide,
	// of other channels: those that could send or receive.
	Role string `json:"role"`
	// Seen is time in which the holder was seen waiting for the lock before it had it. Inferred is
	// time in which it was the only goroutine where the lock is held.
	Seen     time.Duration `json:"seen_ns"`
	Inferred time.Duration `json:"inferred_ns"`
	Unknown  time.Duration `json:"unknown_ns"`
	// Short is the part of Seen and Inferred in which the lock was held for less than two ticks at
	// a time. Such holds are too short to tell one from the next. TooShort says that most holds
	// are.
	Short    time.Duration            `json:"short_ns"`
	TooShort bool                     `json:"too_short"`
	States   map[string]time.Duration `json:"states"` // what the holder did
	Lines    []HolderLine             `json:"lines"`  // where it was, the most time first
	Stacks   []HolderStack            `json:"stacks"` // of the holder, the most time first
}

// What somebody has to do with those that wait.
const (
	RoleHolds     = "holds"
	RoleOtherSide = "other side"
)

// A HolderLine is the innermost line of the program's own code in which a holder was, and what it
// did.
type HolderLine struct {
	Time  time.Duration `json:"ns"`
	State string        `json:"state"`
	HolderFrame
}

// A HolderStack is a stack of a holder.
type HolderStack struct {
	Time   time.Duration `json:"ns"`
	State  string        `json:"state"`
	Frames []HolderFrame `json:"frames"` // innermost first
}

// A HolderFrame is a frame.
type HolderFrame struct {
	Func string `json:"func"`
	File string `json:"file"`
	Line int    `json:"line"`
}

func holderFrame(f *tachyon.Frame) HolderFrame { return HolderFrame{f.Func, f.File, int(f.Line)} }

const (
	// mostHolderStacks is the number of stacks of a lock's holders in a result.
	mostHolderStacks = 20
	// maxHolderSums bounds the memory for the sums of stacks.
	maxHolderSums = 1 << 19
)

// holderSums add up who held an object.
type holderSums struct {
	seen, inferred uint64 // µs
	short          uint64
	stacks         map[holderStack]uint64
	looked         bool // of a channel: somebody could be on its other side
	places         bool // of a channel: it is used like a lock
}

type holderStack struct {
	stack uint32 // 0: one of those for which there was no room
	state string
}

// holders finds the holders of locks. It reads the samples once more.
func (l *Sums) holders() error {
	contended, channels := false, false
	for _, sums := range l.sums {
		contended, channels = contended || analyze.IsLock(sums.kind), channels || l.waitsFor(sums)
	}
	if !contended && !channels {
		return nil
	}
	index := newHoldIndex(l)
	for o, keys := range index.objects {
		if sums := l.sums[o]; isChannel(sums.kind) {
			h := &sums.holder
			h.places = index.channels.asLocks && len(keys.exact) > 0
			h.looked = h.places || l.o.Channels
		}
	}
	if !contended && !index.channels.asLocks && !l.o.Channels {
		return nil
	}
	f := newSectionFinder(index)
	f.channelWaits = true
	count := 0
	charge := func(c *charge) {
		if l.onCharge != nil {
			l.onCharge(c)
		}
		if c.how == unknown {
			return
		}
		h := &l.sums[c.object].holder
		time := c.time
		if c.how == seen {
			h.seen += time
		} else {
			h.inferred += time
		}
		if c.short {
			h.short += time
		}
		if h.stacks == nil {
			h.stacks = map[holderStack]uint64{}
		}
		key := holderStack{c.stack, c.state}
		if _, ok := h.stacks[key]; !ok {
			if count++; count > maxHolderSums {
				key.stack = 0
			}
		}
		h.stacks[key] += time
	}
	return f.readAll(charge)
}

// readAll reads all samples.
func (f *sectionFinder) readAll(charge func(*charge)) error {
	file := 0
	for x, err := range f.All() {
		if err != nil {
			return err
		}
		if x.Interpreter != tachyon.User {
			continue
		}
		switch {
		case x.File != file:
			f.sweep(math.MaxUint64, charge)
			file = x.File
		case int(f.window.stretches.Len) >= f.most:
			f.sweep(f.window.middle(), charge)
		}
		f.add(x)
	}
	f.sweep(math.MaxUint64, charge)
	return nil
}

// holder returns what is known of an object's holders.
func (l *Sums) holder(sums *objectSums) *Holder {
	h := &sums.holder
	out := &Holder{
		Role: RoleHolds,
		Seen: reader.Micros(h.seen), Inferred: reader.Micros(h.inferred),
		Unknown: reader.Micros(sums.waited - min(sums.waited, h.seen+h.inferred)),
		Short:   reader.Micros(h.short), TooShort: 2*h.short > h.seen+h.inferred,
		States: map[string]time.Duration{}, Stacks: []HolderStack{},
	}
	if isChannel(sums.kind) && !h.places {
		out.Role = RoleOtherSide
	}
	var list []holderStack
	for key, time := range h.stacks {
		out.States[key.state] += reader.Micros(time)
		if key.stack != 0 {
			list = append(list, key)
		}
	}
	slices.SortFunc(list, func(a, b holderStack) int {
		return cmp.Or(cmp.Compare(h.stacks[b], h.stacks[a]), cmp.Compare(a.stack, b.stack), cmp.Compare(a.state, b.state))
	})
	out.Lines = l.holderLines(list, h)
	for _, key := range list[:min(len(list), mostHolderStacks)] {
		s := HolderStack{Time: reader.Micros(h.stacks[key]), State: key.state, Frames: []HolderFrame{}}
		for at := key.stack; at != 0; at = l.Caller(at) {
			s.Frames = append(s.Frames, holderFrame(l.Leaf(at)))
		}
		out.Stacks = append(out.Stacks, s)
	}
	return out
}

// holderLines adds up stacks by their lines of the program's own code.
func (l *Sums) holderLines(list []holderStack, h *holderSums) []HolderLine {
	sums := map[HolderLine]uint64{}
	for _, key := range list {
		x := HolderLine{State: key.state}
		if f := l.ProgramFrame(key.stack); f != nil {
			x.HolderFrame = holderFrame(f)
		}
		sums[x] += h.stacks[key]
	}
	lines := make([]HolderLine, 0, len(sums))
	for x, time := range sums {
		x.Time = reader.Micros(time)
		lines = append(lines, x)
	}
	sortLines(lines)
	return lines[:min(len(lines), mostHolderStacks)]
}

// sortLines sorts lines, the most time first.
func sortLines(lines []HolderLine) {
	slices.SortFunc(lines, func(a, b HolderLine) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.State, b.State), cmp.Compare(a.Func, b.Func), cmp.Compare(a.Line, b.Line))
	})
}

// tick returns the time between two samples of a goroutine that runs or waits for a lock, in µs:
// the median.
func (l *Sums) tick() uint64 {
	half := uint64(0)
	for _, n := range l.ticks {
		half += n
	}
	half = (half + 1) / 2
	for i, n := range l.ticks {
		if half <= n {
			return max(1, uint64(i)*l.Interval()/ticksOf)
		}
		half -= n
	}
	return l.Interval()
}

const (
	ticksOf   = 8    // parts of an interval that are told apart
	mostTicks = 8000 // longest time between two samples, in such parts
)

// noteTick notes the time between two samples, in µs.
func (l *Sums) noteTick(between uint64) {
	if l.ticks == nil {
		l.ticks = make([]uint64, mostTicks+1)
	}
	l.ticks[min(mostTicks, (between*ticksOf+l.Interval()/2)/l.Interval())]++
}
