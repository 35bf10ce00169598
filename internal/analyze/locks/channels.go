package locks

import (
	"slices"

	"github.com/gotach/profiler/internal/analyze/syntax"
	"github.com/gotach/profiler/tachyon"
)

// channelKeys find out who is on the other side of channels.
//
//   - Goroutines that have taken a place in a channel, if it is used like a lock: a function does
//     what they wait for and the opposite, as in
//
//     slots <- struct{}{}
//     defer func() { <-slots }()
//
//     The regions of a lock are those between the two. That is no such channel at which goroutines wait for both.
//
//   - Else goroutines in functions that do the opposite: such as were seen waiting for the channel,
//     or such whose text says it.
type channelKeys struct {
	dirs    map[string]bool       // where functions wait for channels
	waits   map[syntax.Key]bool   // what they wait for there, as DoesSend or DoesReceive
	places  map[syntax.Key]bool   // those of waits whose opposite is not in it
	sides   map[syntax.Key]bool   // as sends or receives: those that goroutines wait for
	sites   map[int32][]*siteSums // by the number of a channel
	asLocks bool                  // a frame has a place in a channel, so that is used like a lock
	count   map[syntax.Key]int    // how many objects have a key of places
}

// channelSides are the keys of a channel's other sides, by what goroutines wait for: "chan send"
// and so on.
type channelSides struct {
	of   map[string]*channelSide
	only bool // no other channel has its exact keys
}

type channelSide struct {
	keys    []int32
	weak    []int32 // for which there is less reason
	fields  []int32 // for which there is little: gotach waits looks at who ran when a wait ended
	loose   []int32 // for which there is still less: elements of the same type
	objects []int32 // those that are the channel or have it as a member
}

// waitsFor says which channels are looked at.
func (l *Sums) waitsFor(sums *objectSums) bool {
	return isChannel(sums.kind) && (l.o.Channels || sums.goroutines > 1)
}

// find finds the channels at which goroutines wait.
func (c *channelKeys) find(h *holdIndex) {
	*c = channelKeys{dirs: map[string]bool{}, waits: map[syntax.Key]bool{}, places: map[syntax.Key]bool{}, sides: map[syntax.Key]bool{}, sites: map[int32][]*siteSums{}, count: map[syntax.Key]int{}}
	loose := map[syntax.Key]bool{}
	for _, sums := range h.sums {
		if !h.waitsFor(sums) {
			continue
		}
		mine := map[syntax.Key]bool{}
		for _, s := range sums.sites {
			if h.loose {
				for _, k := range h.opsAt(s, (*syntax.Func).LooseKeys) {
					loose[k] = true
				}
			}
			for _, k := range h.channelOps(s) {
				c.dirs[k.Dir] = true
				c.waits[k] = true
				if !mine[k] {
					mine[k] = true
					c.count[k]++
				}
			}
			for _, n := range h.members(s.object) {
				c.sites[n] = append(c.sites[n], s)
			}
		}
	}
	for k := range c.waits {
		opposite := k
		if opposite.Op = k.Op.Opposite(); !c.waits[opposite] {
			c.places[k] = true
		}
		if h.o.Channels {
			opposite.Op = opposite.Op.Side()
			c.sides[opposite] = true
		}
	}
	for k := range loose {
		k.Op = k.Op.Opposite().Side()
		c.sides[k] = true
	}
}

// channelOps returns the keys of what goroutines wait for at a site, as the text has it.
func (l *Sums) channelOps(s *siteSums) (keys []syntax.Key) {
	return l.opsAt(s, (*syntax.Func).ChannelKeys)
}

// opsAt returns the keys of what goroutines wait for at a site, by one of the ways to make keys.
func (l *Sums) opsAt(s *siteSums, keysOf func(*syntax.Func, syntax.Op) []syntax.Key) (keys []syntax.Key) {
	line, x := int(s.frame.Line), l.sources.Func(&s.frame)
	if x == nil {
		return nil
	}
	offers := s.reason == "select" && l.sources.Offers(&s.frame) != nil
	for _, op := range x.Ops {
		switch {
		case !op.Does.IsChannel(), offers && op.Does == syntax.DoesReceive:
			continue
		case s.reason == "select" && op.Selects == line:
		case s.reason == "chan send" && op.Line == line && op.Does == syntax.DoesSend:
		case s.reason == "chan receive" && op.Line == line && op.Does == syntax.DoesReceive:
		default:
			continue
		}
		for _, k := range keysOf(x, op) {
			k.Op = op.Does
			keys = append(keys, k)
		}
	}
	return keys
}

// members returns the numbers of the channels that an object is.
func (l *Sums) members(object int32) []int32 {
	if object <= 0 {
		return nil
	}
	if members := l.objects[object].Members; len(members) > 0 {
		return members
	}
	return []int32{object}
}

// opposite returns the sites that were seen on the other side of a site's channels.
func (c *channelKeys) opposite(h *holdIndex, s *siteSums) (list []*siteSums) {
	for _, n := range h.members(s.object) {
		for _, other := range c.sites[n] {
			if other.frame.File != "" && other.frame.Func != s.frame.Func && h.opposed(s, other) && !slices.Contains(list, other) {
				list = append(list, other)
			}
		}
	}
	return list
}

// opposed reports whether goroutines at one site do the opposite of those at another one. What
// those in a select do is in the text; without it a select is a receive.
func (h *holdIndex) opposed(a, b *siteSums) bool {
	if h.signals(a, b) || h.signals(b, a) {
		return false
	}
	does := func(s *siteSums) (sends, receives bool) {
		switch s.reason {
		case "chan send":
			return true, false
		case "chan receive":
			return false, true
		}
		for _, k := range h.channelOps(s) {
			sends, receives = sends || k.Op == syntax.DoesSend, receives || k.Op == syntax.DoesReceive
		}
		return sends, receives || !sends
	}
	aSends, aReceives := does(a)
	bSends, bReceives := does(b)
	return aSends && bReceives || aReceives && bSends
}

// signals reports whether one site is a select that waits to send a value, and the other one a
// receive whose value is not used: that is for the signal that the select receives too, such as the
// end of the program.
func (h *holdIndex) signals(sends, receives *siteSums) bool {
	if sends.reason != "select" || receives.reason != "chan receive" || h.sources.Offers(&sends.frame) == nil {
		return false
	}
	x := h.sources.Func(&receives.frame)
	return x != nil && slices.ContainsFunc(x.Ops, func(op syntax.Op) bool {
		return op.Line == int(receives.frame.Line) && op.Does == syntax.DoesReceive && op.Signal
	})
}

// users returns the functions that were seen on the other sides of channels.
func (c *channelKeys) users(h *holdIndex) map[string]bool {
	out := map[string]bool{}
	if !h.o.Channels {
		return out
	}
	for _, sums := range h.sums {
		if !h.waitsFor(sums) {
			continue
		}
		for _, s := range sums.sites {
			for _, other := range c.opposite(h, s) {
				out[other.frame.Func] = true
			}
		}
	}
	return out
}

// side returns what a function is on the other side of.
func (c *channelKeys) side(h *holdIndex, x *syntax.Func) (list []frameHold) {
	for _, op := range x.Ops {
		if !op.Does.IsChannel() {
			continue
		}
		keys := x.ChannelKeys(op)
		if h.loose {
			keys = append(keys, x.LooseKeys(op)...)
		}
		for _, k := range keys {
			if k.Op = op.Does.Side(); c.sides[k] {
				if n := h.key(k); !slices.ContainsFunc(list, func(f frameHold) bool { return f.key == n }) {
					list = append(list, frameHold{key: n})
				}
			}
		}
	}
	return list
}

// keysOf returns the keys of a channel, nil if it is known that nobody is on its other side.
func (c *channelKeys) keysOf(h *holdIndex, object int32, sums *objectSums) *objectKeys {
	if !h.waitsFor(sums) {
		return nil
	}
	o := &objectKeys{sides: &channelSides{of: map[string]*channelSide{}, only: true}}
	found := false
	for _, s := range sums.sites {
		side := o.sides.of[s.reason]
		if side == nil {
			side = &channelSide{}
			o.sides.of[s.reason] = side
		}
		for _, k := range h.channelOps(s) {
			if n, ok := h.number[k]; ok && c.places[k] {
				o.exact = append(o.exact, n)
				o.sides.only = o.sides.only && c.count[k] == 1
			}
			k.Op = k.Op.Opposite().Side()
			if n, ok := h.number[k]; ok && k.Root == syntax.RootElement {
				side.weak = append(side.weak, n)
			} else if ok {
				side.keys = append(side.keys, n)
			}
		}
		if h.loose {
			for _, k := range h.opsAt(s, (*syntax.Func).LooseKeys) {
				k.Op = k.Op.Opposite().Side()
				if n, ok := h.number[k]; ok && k.Root == syntax.RootField {
					side.fields = append(side.fields, n)
				} else if ok {
					side.loose = append(side.loose, n)
				}
			}
		}
		if h.o.Channels {
			for _, other := range c.opposite(h, s) {
				if n, ok := h.number[syntax.Key{Root: rootUser, Path: other.frame.Func}]; ok {
					side.keys = append(side.keys, n)
					side.objects = append(side.objects, other.object)
				}
			}
		}
		for _, list := range []*[]int32{&o.exact, &side.weak, &side.fields, &side.loose, &side.keys, &side.objects} {
			slices.Sort(*list)
			*list = slices.Compact(*list)
		}
		found = found || len(o.exact)+len(side.weak)+len(side.fields)+len(side.loose)+len(side.keys) > 0
	}
	if !found {
		return nil
	}
	return o
}

func isChannel(kind string) bool {
	return kind == tachyon.ObjectChannel || kind == tachyon.ObjectSelect
}
