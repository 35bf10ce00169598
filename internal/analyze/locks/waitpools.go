package locks

import (
	"go/ast"
	"slices"
	"strings"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/syntax"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/tachyon"
)

// A poolCall is a line of the program that calls a method of a library with a pool.
type poolCall struct {
	pool *pool
	file string
	line int32
}

// poolIndex knows which lines of the program hold connections.
type poolIndex struct {
	calls map[poolCall]bool
	lines map[*syntax.Func][]poolLines
}

// poolLines are the lines of a function between a call that returns what holds a connection and
// that which gives it back.
type poolLines struct {
	pool     *pool
	from, to int
	on       ast.Expr // the pool
}

// findPools finds the lines at which the program was seen calling a library with a pool.
func (h *holdIndex) findPools() {
	h.pools = poolIndex{calls: map[poolCall]bool{}, lines: map[*syntax.Func][]poolLines{}}
	list, all := h.Source.Stacks(), h.Source.Frames()
	for i := range list {
		if list[i].Caller == 0 {
			continue
		}
		f := &all[list[list[i].Caller].Frame]
		if f.File == "" || h.CodeOf(list[i].Caller) != profile.ProgramCode {
			continue
		}
		callee := profile.Package(all[list[i].Frame].Func)
		for _, p := range pools {
			if callee == p.pkg {
				h.pools.calls[poolCall{p, f.File, f.Line}] = true
			}
		}
	}
}

// poolHolds returns the keys of the pools of which a frame has a connection.
func (h *holdIndex) poolHolds(f *tachyon.Frame) (list []frameHold) {
	for _, p := range pools {
		if p.has(f.Func) {
			list = append(list, frameHold{key: h.key(syntax.Key{Root: rootPool, Path: p.name})})
		}
	}
	for _, l := range h.poolLines(f) {
		list = append(list, frameHold{key: h.key(syntax.Key{Root: rootPool, Path: l.pool.name})})
	}
	return list
}

// poolLines returns the lines that a frame of the program is in.
func (h *holdIndex) poolLines(f *tachyon.Frame) (in []poolLines) {
	if len(h.pools.calls) == 0 || profile.CodeOf(f) != profile.ProgramCode {
		return nil
	}
	x := h.sources.Func(f)
	if x == nil {
		return nil
	}
	list, ok := h.pools.lines[x]
	if !ok {
		list = poolLinesOf(x, func(p *pool, line int) bool { return h.pools.calls[poolCall{p, f.File, int32(line)}] })
		h.pools.lines[x] = list
	}
	for _, l := range list {
		if l.from < int(f.Line) && int(f.Line) <= l.to {
			in = append(in, l)
		}
	}
	return in
}

// poolLinesOf finds the lines of a function. called reports whether a line was seen calling the
// library.
func poolLinesOf(x *syntax.Func, called func(p *pool, line int) bool) (list []poolLines) {
	ast.Inspect(x.Body, func(n ast.Node) bool {
		a, ok := n.(*ast.AssignStmt)
		if !ok || len(a.Rhs) != 1 {
			_, inner := n.(*ast.FuncLit)
			return !inner
		}
		call, ok := a.Rhs[0].(*ast.CallExpr)
		held, named := a.Lhs[0].(*ast.Ident)
		if !ok || !named {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		line := x.File.Line(method.Sel.Pos())
		for _, p := range pools {
			if slices.Contains(p.takes, method.Sel.Name) && (called(p, line) || called(p, x.File.Line(call.Rparen))) {
				list = append(list, poolLines{pool: p, from: x.File.Line(a.End()), to: givesBack(x, held.Name, p), on: method.X})
			}
		}
		return true
	})
	return list
}

// givesBack returns the last line in which a variable has a connection: that of the last call that
// gives it back, or the end of the function if that is deferred or not there.
func givesBack(x *syntax.Func, name string, p *pool) int {
	last := 0
	ast.Inspect(x.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.DeferStmt, *ast.FuncLit:
			return false
		case *ast.CallExpr:
			if text := syntax.Text(n.Fun); strings.HasPrefix(text, name+".") && slices.Contains(p.gives, text[len(name):]) {
				last = max(last, x.File.Line(n.Pos()))
			}
		}
		return true
	})
	if last == 0 {
		return x.To
	}
	return last
}

// poolOn returns the key of the pool that a stack uses, as the text of the innermost line of the
// program has it, which is returned too. It is zero if the text does not say it, or if it is a
// parameter or the like, which may be another pool in each call.
func (w *waitChains) poolOn(stack uint32, p *pool) (key syntax.Key, in *tachyon.Frame) {
	inside := false
	for at := stack; at != 0; at = w.Caller(at) {
		f := w.Leaf(at)
		if w.CodeOf(at) != profile.ProgramCode {
			inside = inside || profile.Package(f.Func) == p.pkg
			continue
		}
		if lines := w.holdIndex.poolLines(f); !inside && len(lines) > 0 {
			return w.poolKey(f, lines[0].on), f
		}
		if inside {
			return w.poolKey(f, nil), f
		}
	}
	return syntax.Key{}, nil
}

// hasOne returns the line of a stack that waits for a connection of a pool by which it has one of
// the same pool already, noLine if it has none. Of a pool that has several parts, such as one for
// each host, that is not known.
func (w *waitChains) hasOne(stack uint32, p *pool) *tachyon.Frame {
	if p == nil || p.one == "" {
		return noLine
	}
	of := analyze.At(&w.hasOf, stack, w.Sums.Stacks())
	if *of != nil {
		return *of
	}
	*of = noLine
	mine, _ := w.poolOn(stack, p)
	for at := w.Caller(stack); at != 0; at = w.Caller(at) {
		for _, l := range w.holdIndex.poolLines(w.Leaf(at)) {
			if *of == noLine && l.pool == p && (w.single(p) || mine != (syntax.Key{}) && w.poolKey(w.Leaf(at), l.on) == mine) {
				*of = w.Leaf(at)
			}
		}
	}
	return *of
}

// poolKey returns the key of an expression in a frame's function, or of what the frame's line calls
// a method of.
func (w *waitChains) poolKey(f *tachyon.Frame, on ast.Expr) syntax.Key {
	x := w.sources.Func(f)
	if x == nil {
		return syntax.Key{}
	}
	if on == nil {
		ast.Inspect(x.Body, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && on == nil {
				if method, ok := call.Fun.(*ast.SelectorExpr); ok && x.File.Line(method.Sel.Pos()) == int(f.Line) {
					if _, chained := method.X.(*ast.CallExpr); !chained {
						on = method.X
					}
				}
			}
			return on == nil
		})
	}
	if on == nil {
		return syntax.Key{}
	}
	if k := x.Key(on); !strings.HasPrefix(k.Root, "func ") || strings.HasPrefix(f.Func, "main.main.func") { // there is one main.main
		return k
	}
	return syntax.Key{}
}

// single reports whether the program has one pool of a kind.
func (w *waitChains) single(p *pool) bool { return p.one != "" && len(w.poolsSeen[p]) == 1+p.own }

// notePools notes the goroutines that pools have one of.
func (w *waitChains) notePools(s *analyze.Sample) {
	p := *analyze.At(&w.poolOf, s.Stack, w.Sums.Stacks())
	if p == nil {
		p = poolOfGroup // none
		for at := s.Stack; at != 0; at = w.Caller(at) {
			for _, of := range pools {
				if of.one != "" && w.Leaf(at).Func == of.one {
					p = of
				}
			}
		}
		w.poolOf[s.Stack] = p
	}
	if p.one == "" || len(w.poolsSeen[p]) > 1+p.own {
		return
	}
	if w.poolsSeen[p] == nil {
		w.poolsSeen[p] = map[uint64]bool{}
	}
	w.poolsSeen[p][s.Goroutine] = true
}

// holdersOf returns the goroutines that have a connection of the pool for which one waits, empty if
// they are unknown. They surely have one of this pool if there is no other pool, or if it has the
// same name in the text. If that is a parameter, it has to be in the same function, and the one
// that ran when the wait ended.
func (w *waitChains) holdersOf(s *sweep, x *stretch, k *KnownWait, at uint64, depth int) []link {
	p := k.pool
	if p == nil || x.goroutine < 0 {
		return nil
	}
	if p.starts != "" {
		return w.groupHolders(s, x, k, at, depth)
	}
	if p.dials != "" {
		for _, i := range w.alive(s.w.goroutines[x.goroutine], at) {
			if s.now[i] != 0 && w.createdBy[s.w.goroutines[i]] == p.dials {
				return []link{{goroutine: i, role: roleChild, how: inferred, share: 1}}
			}
		}
	}
	number, ok := w.number[syntax.Key{Root: rootPool, Path: p.name}]
	if !ok {
		return nil
	}
	sure, maybe, nested := w.poolUsers(s, x, k, number)
	if p == poolOfFlight {
		if len(sure) > 1 {
			return nil // which of them makes the equal call is not known
		}
		return w.share(sure, RoleHolds, depth)
	}
	of, _ := w.poolOn(x.stack, p)
	if w.single(p) {
		of = syntax.Key{} // whatever its name is
	}
	count := len(sure)
	if w.hasOne(x.stack, p) != noLine {
		count++
	}
	w.noteInUse(k, of, count)
	w.inUse[k].mixed = w.inUse[k].mixed || nested
	if len(sure) == 0 {
		sure = w.whoRan(s, x.goroutine, w.site(x.stack), maybe, []int32{number}, false)
	}
	list := w.share(sure, RoleHolds, depth)
	for i := range list {
		_, list[i].in = w.poolOn(s.w.stretches.At(s.now[list[i].goroutine]-1).stack, p)
	}
	return list
}

// poolUsers returns the goroutines that have a connection of the pool for which x waits, and those
// that may have one of it. nested says that others may have one, but wait for one of another pool.
// number is that of the pool's key.
func (w *waitChains) poolUsers(s *sweep, x *stretch, k *KnownWait, number int32) (sure, maybe []int32, nested bool) {
	p := k.pool
	mine, in := w.poolOn(x.stack, p)
	for _, n := range s.inside[number] {
		g := s.w.sections[n].goroutine
		if g == x.goroutine || s.now[g] == 0 || slices.Contains(sure, g) || slices.Contains(maybe, g) {
			continue
		}
		other := s.w.stretches.At(s.now[g] - 1)
		its, of := w.poolOn(other.stack, p)
		if analyze.Waits(other.status) && (w.known(other.stack) == k || w.places.Place(other.stack) != "") {
			if w.known(other.stack) != k {
				continue
			}
			if w.hasOne(other.stack, p) == noLine { // it may have one, and waits for one of another pool
				nested = true
				continue
			}
		}
		switch {
		case w.single(p), mine != (syntax.Key{}) && its == mine:
			sure = append(sure, g)
		case mine == (syntax.Key{}) && its == mine && in != nil && of != nil && in.Func == of.Func && len(maybe) < maxMaybe:
			maybe = append(maybe, g)
		}
	}
	return sure, maybe, nested
}

// groupHolders returns the goroutines of a group with a limit, such as an errgroup: the children
// that it has started.
func (w *waitChains) groupHolders(s *sweep, x *stretch, k *KnownWait, at uint64, depth int) []link {
	var list []int32
	for _, i := range w.alive(s.w.goroutines[x.goroutine], at) {
		if s.now[i] != 0 && strings.HasPrefix(w.createdBy[s.w.goroutines[i]], k.pool.starts) {
			list = append(list, i)
		}
	}
	w.noteInUse(k, syntax.Key{}, len(list))
	return w.share(list, RoleHolds, depth)
}

// noteInUse notes how many goroutines have places of a pool while somebody waits for one.
func (w *waitChains) noteInUse(k *KnownWait, of syntax.Key, count int) {
	u := w.inUse[k]
	if u == nil {
		u = &inUse{of: of, times: map[int]int{}}
		w.inUse[k] = u
	}
	u.mixed = u.mixed || u.of != of
	u.times[count]++
}
