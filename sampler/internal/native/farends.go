//go:build linux && (amd64 || arm64)

package native

import (
	"github.com/gotach/profiler/internal/mem"
)

// The drain's part of which file or connection a goroutine in [IO wait] waits for (pollwaits.go has the handler's). What a
// descriptor is, the kernel is asked once for each of its uses. The answer counts only if the pollDesc had the same use before and
// after the question: Go gives up the pollDesc before it closes the descriptor.
//
// Descriptors with one name are one object, such as all connections to a database: a program may make a new one for each request. The
// first names get a number at once. Later ones need a place, as other objects do (package objects).

// waitsFor notes what a record's goroutine waits for. s is the stack of the record. waitsFor returns
// the stack with the number of the object, connection or file, or s if there is none.
func (d *drain) waitsFor(g *goroutine, r record, s *stack) *stack {
	g.waits = g.waits[:0]
	switch {
	case len(r.objects()) == 0 || !d.stacks.waitFrames:
		return s
	case d.s.waits.Poll>>(r.reason()&63)&1 != 0:
		return d.pollsFor(r, s)
	}
	return d.objectOf(g, r, s)
}

// pollsFor returns the stack of a record's goroutine, which is in [IO wait], with the number of what it waits for. It returns s if
// that is not known.
func (d *drain) pollsFor(r record, s *stack) *stack {
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
		if c.end, ok = ends.ask(uintptr(p)+d.l.PollFDSeq, seq, int(list[1])); !ok {
			c.lost, c.end = true, farEnd{}
		}
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

// learn notes that a page has pollDescs if a word from a stack is the address of one there. gp is the goroutine that had it.
func (d *drain) learn(p, gp uint64) {
	if p%pollAlign != 0 {
		return
	}
	var words [pollAlign / 8]uint64
	if mem.Read(uintptr(p), words[:]) == nil && (words[d.l.PollRG/8] == gp || words[d.l.PollWG/8] == gp) {
		d.s.addPoll(p)
	}
}
