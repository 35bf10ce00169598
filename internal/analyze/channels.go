package analyze

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"

	"github.com/gotach/profiler/tachyon"
)

// channelKeys find out who is on the other side of channels.
//
//   - Goroutines that have taken a place in a channel, if it is used like a lock: a function does what they wait for
//     and the opposite, as in
//
//     slots <- struct{}{}
//     defer func() { <-slots }()
//
//     The regions of a lock are those between the two. That is no such channel at which goroutines wait for both.
//
//   - Else goroutines in functions that do the opposite: such as were seen waiting for the channel, or such whose text
//     says it.
type channelKeys struct {
	dirs   map[string]bool       // where functions wait for channels
	waits  map[lockKey]bool      // what they wait for there, as doesSend or doesReceive
	places map[lockKey]bool      // those of waits whose opposite is not in it
	sides  map[lockKey]bool      // as sends or receives: those that goroutines wait for
	sites  map[int32][]*siteSums // by the number of a channel
	taken  bool                  // a frame has a place in a channel
	count  map[lockKey]int       // how many objects have a key of places
}

// channelSides are the keys of a channel's other sides, by what goroutines wait for: "chan send" and so on.
type channelSides struct {
	of   map[string]*channelSide
	only bool // no other channel has its exact keys
}

type channelSide struct {
	keys    []int32
	weak    []int32 // for which there is less reason
	objects []int32 // those that are the channel or have it as a member
}

// waitsFor says which channels are looked at.
func (l *lockSums) waitsFor(sums *objectSums) bool {
	return isChannel(sums.kind) && (l.o.Channels || sums.goroutines > 1)
}

// find finds the channels at which goroutines wait.
func (c *channelKeys) find(h *holdIndex) {
	*c = channelKeys{dirs: map[string]bool{}, waits: map[lockKey]bool{}, places: map[lockKey]bool{}, sides: map[lockKey]bool{}, sites: map[int32][]*siteSums{}, count: map[lockKey]int{}}
	for _, sums := range h.sums {
		if !h.waitsFor(sums) {
			continue
		}
		mine := map[lockKey]bool{}
		for _, s := range sums.sites {
			for _, k := range h.channelOps(s) {
				c.dirs[k.dir] = true
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
		if opposite.op = k.op.opposite(); !c.waits[opposite] {
			c.places[k] = true
		}
		if h.o.Channels {
			opposite.op = opposite.op.side()
			c.sides[opposite] = true
		}
	}
}

// channelOps returns the keys of what goroutines wait for at a site, as the text has it.
func (l *lockSums) channelOps(s *siteSums) (keys []lockKey) {
	file := l.sources.file(&s.frame)
	if file == nil {
		return nil
	}
	line := int(s.frame.Line)
	x := file.at(line)
	if x == nil {
		return nil
	}
	for _, op := range x.ops {
		switch {
		case !op.does.isChannel():
			continue
		case s.reason == "select" && op.selects == line:
		case s.reason == "chan send" && op.line == line && op.does == doesSend:
		case s.reason == "chan receive" && op.line == line && op.does == doesReceive:
		default:
			continue
		}
		for _, k := range x.channelKeys(op) {
			k.op = op.does
			keys = append(keys, k)
		}
	}
	return keys
}

// channelKeys returns the key of an operation's channel. If that is a variable of the function, such as a parameter, the
// second one is that of all such variables with its name and type.
func (x *sourceFunc) channelKeys(op lockOp) (keys []lockKey) {
	k := x.key(op.on)
	if k == (lockKey{}) {
		return nil
	}
	keys = append(keys, k)
	if strings.HasPrefix(k.root, "func ") {
		if elem := x.element(k.path); elem != "" {
			keys = append(keys, lockKey{dir: k.dir, root: rootElement, path: elem + " " + k.path})
		}
	}
	return keys
}

// rootElement is the root of keys of variables that are channels: path is the type of the elements and the name.
const rootElement = "chan"

// element returns the type of the elements of a variable that is a channel, "" if the text does not say it.
func (x *sourceFunc) element(name string) string {
	for ; x != nil; x = x.outer {
		var typ ast.Expr
		if x.typ.Params != nil {
			for _, f := range x.typ.Params.List {
				if slices.ContainsFunc(f.Names, func(n *ast.Ident) bool { return n.Name == name }) {
					typ = f.Type
				}
			}
		}
		ast.Inspect(x.body, func(n ast.Node) bool {
			if a, ok := n.(*ast.AssignStmt); ok && a.Tok == token.DEFINE && len(a.Lhs) == len(a.Rhs) {
				for i, to := range a.Lhs {
					id, named := to.(*ast.Ident)
					if made, ok := a.Rhs[i].(*ast.CallExpr); ok && named && id.Name == name && exprText(made.Fun) == "make" && len(made.Args) > 0 {
						typ = made.Args[0]
					}
				}
			}
			_, inner := n.(*ast.FuncLit)
			return !inner && typ == nil
		})
		if ch, ok := typ.(*ast.ChanType); ok {
			return typeText(ch.Value)
		} else if typ != nil {
			return ""
		}
	}
	return ""
}

// typeText returns a type as text, "" if it is not a simple one.
func typeText(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		if t := typeText(e.X); t != "" {
			return "*" + t
		}
		return ""
	case *ast.ArrayType:
		if t := typeText(e.Elt); t != "" && e.Len == nil {
			return "[]" + t
		}
		return ""
	case *ast.StructType:
		if e.Fields.NumFields() == 0 {
			return "struct{}"
		}
		return ""
	}
	return exprText(e)
}

// members returns the numbers of the channels that an object is.
func (l *lockSums) members(object int32) []int32 {
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
			if other.frame.File != "" && other.frame.Func != s.frame.Func && (s.reason != other.reason || s.reason == "select") && !slices.Contains(list, other) {
				list = append(list, other)
			}
		}
	}
	return list
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
func (c *channelKeys) side(h *holdIndex, x *sourceFunc) (list []frameHold) {
	for _, op := range x.ops {
		if !op.does.isChannel() {
			continue
		}
		for _, k := range x.channelKeys(op) {
			if k.op = op.does.side(); c.sides[k] {
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
			k.op = k.op.opposite().side()
			if n, ok := h.number[k]; ok && k.root == rootElement {
				side.weak = append(side.weak, n)
			} else if ok {
				side.keys = append(side.keys, n)
			}
		}
		if h.o.Channels {
			for _, other := range c.opposite(h, s) {
				if n, ok := h.number[lockKey{root: rootUser, path: other.frame.Func}]; ok {
					side.keys = append(side.keys, n)
					side.objects = append(side.objects, other.object)
				}
			}
		}
		for _, list := range []*[]int32{&o.exact, &side.weak, &side.keys, &side.objects} {
			slices.Sort(*list)
			*list = slices.Compact(*list)
		}
		found = found || len(o.exact)+len(side.weak)+len(side.keys) > 0
	}
	if !found {
		return nil
	}
	return o
}

func isChannel(kind string) bool {
	return kind == tachyon.ObjectChannel || kind == tachyon.ObjectSelect
}
