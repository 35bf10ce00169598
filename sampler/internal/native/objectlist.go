//go:build linux && (amd64 || arm64)

package native

import (
	"slices"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/objects"
)

// The drain's part of what goroutines wait for. Package objects gives the objects numbers, and the
// number is the line of the wait frame.

// withObject notes what a record's goroutine waits for. s is the stack of the record. withObject
// returns the stack with the number of the object, connection or file, or s if there is none.
func (d *drain) withObject(g *goroutine, r record, s *stack) *stack {
	g.waits = g.waits[:0]
	switch {
	case len(r.objects()) == 0 || !d.stacks.waitFrames:
		return s
	case d.s.waits.Poll>>(r.reason()&63)&1 != 0:
		return d.withDescriptor(r, s)
	}
	k := d.l.WaitKind(r.reason())
	w := objects.Waiter{Index: r[headIndex], ID: g.id, G: uintptr(r[headG])}
	if !r.inTurn() {
		w.Index = uint64(d.roster.index[r[headG]])
	}
	for _, addr := range r.objects() {
		if addr >= 4096 { // otherwise the goroutine is being woken
			g.waits = append(g.waits, addr-k.Offset)
		}
	}
	return d.stacks.numbered(s, d.objects.Wait(w, objects.Kind(k.Kind, s.rwMutex), g.waits, s.callers))
}

// newObjects returns an empty list.
func (d *drain) newObjects() *objects.List {
	return objects.New(objects.Host{
		Static:     d.image.Static,
		StillWaits: d.stillWaits,
		Renumber:   func(w objects.Waiter) { d.renumber(&d.gs[w.Index]) },
		Capacity:   func(w objects.Waiter, channel uint64) int64 { return capacity(d.l, w.G, channel) },
	})
}

// stillWaits reports whether a goroutine waits for the object at an address, as far as is known.
func (d *drain) stillWaits(w objects.Waiter, addr uint64) bool {
	if w.Index >= uint64(len(d.gs)) {
		return false
	}
	g := &d.gs[w.Index]
	return g.id == w.ID && !g.ran && g.parked != nil && slices.Contains(g.waits, addr)
}

// renumber gives a waiting goroutine's stack the numbers that its objects have now.
func (d *drain) renumber(g *goroutine) {
	s := g.parked
	if s.plain != nil {
		s = s.plain
	}
	g.parked = d.stacks.numbered(s, d.objects.Numbered(g.waits))
}

// capacity returns the capacity of a channel for which a goroutine waits, -1 if it no longer waits.
func capacity(l *goruntime.Layout, g uintptr, channel uint64) int64 {
	first := mem.ReadWord(g + l.GWaiting)
	sudog := uintptr(first)
	for range objects.MaxObjects {
		if sudog == 0 {
			break
		}
		if mem.ReadWord(sudog+l.SudogC) == channel {
			n := mem.ReadWord(uintptr(channel) + l.HchanSize)
			if mem.ReadWord(g+l.GWaiting) == first && mem.ReadWord(sudog+l.SudogC) == channel && n < 1<<48 {
				return int64(n)
			}
			break
		}
		sudog = uintptr(mem.ReadWord(sudog + l.SudogWaitLink))
	}
	return -1
}

// withDescriptor returns the stack of a record's goroutine, which is in [IO wait], with the number
// of what it waits for. It returns s if that is not known.
func (d *drain) withDescriptor(r record, s *stack) *stack {
	list := r.objects()
	if len(list) != pollWords {
		if len(list) == 1 {
			d.learn(list[0], r[headG])
		}
		return s
	}
	ends, p, seq := d.ends, list[0], list[2]
	c, ok := ends.known[p]
	if !ok || c.seq != seq || d.objects.Now-c.saw > surelySame || !c.lost && c.end.kind == "" {
		c = descriptor{seq: seq}
		c.end, ok = ends.ask(uintptr(p)+d.l.PollFDSeq, seq, int(list[1]))
		c.lost = !ok
		if len(ends.known) >= maxDescriptors {
			clear(ends.known)
		}
	}
	c.saw = d.objects.Now
	ends.known[p] = c
	if x := d.objects.Named(c.end.kind, c.end.name); x != nil {
		return d.stacks.numbered(s, x)
	}
	return s
}

// learn notes that a page has pollDescs if a word from a stack is the address of one there. gp is
// the goroutine that had it.
func (d *drain) learn(p, gp uint64) {
	if p%pollAlign != 0 {
		return
	}
	var words [pollAlign / 8]uint64
	if mem.Read(uintptr(p), words[:]) == nil && (words[d.l.PollRG/8] == gp || words[d.l.PollWG/8] == gp) {
		d.s.addPoll(p)
	}
}
