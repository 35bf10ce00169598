package syntax

import (
	"go/ast"
	"go/token"
	"slices"
)

// A Region is the lines of a function in which it holds a lock, by the function's text: from a call
// of Lock to one of Unlock, or to the end of the function if Unlock is deferred.
type Region struct {
	Key      Key
	Text     string // the lock, as in the source; tells locks of one type apart
	Read     bool   // RLock
	x        *Func
	first    int // line of lines[0]
	lines    []bool
	Deferred bool
	Escapes  bool // the function may return with the lock
	Releases bool // it unlocks what it has not locked
	Takes    bool // it locks
	gives    bool // it unlocks, perhaps in a deferred function
	begins   bool // it is held at the beginning: the function around this one, which is a literal, locks it
	wrapper  map[string]*Region
	on       string // the value whose method takes a place in a channel; methods of others may only have the same name. "": any
}

// Paired reports whether a channel is used like a lock: the function takes a place in it and gives
// it back, or the function around it takes it.
func (r *Region) Paired() bool { return r.gives && (r.Takes || r.begins) }

// Holds reports whether the lock is held at a line.
func (r *Region) Holds(line int) bool {
	return line >= r.first && line-r.first < len(r.lines) && r.lines[line-r.first]
}

// Regions returns the regions of a function. Functions of the package that lock or unlock for their
// callers are in wrappers, by name. channels says of which channels there are regions.
func (x *Func) Regions(wrappers map[string]*Region, channels map[Key]bool) (list []*Region) {
	type id struct {
		key    Key
		text   string
		read   bool
		begins bool
		on     string
	}
	seen := map[id]bool{}
	add := func(i id) {
		if !seen[i] && i.key != (Key{}) {
			seen[i] = true
			r := &Region{Key: i.key, Text: i.text, Read: i.read, x: x, begins: i.begins, first: x.from, lines: make([]bool, x.To-x.from+1), wrapper: wrappers, on: i.on}
			r.find()
			list = append(list, r)
		}
	}
	addChannel := func(op Op, takes Verb, begins bool) {
		k := x.Key(op.On)
		k.Op = takes
		if k.Root != "" && channels[k] {
			add(id{key: k, text: Text(op.On), begins: begins})
		}
	}
	for _, op := range x.Ops {
		if op.Does.IsChannel() {
			addChannel(op, op.Does, false)
			addChannel(op, op.Does.Opposite(), false)
			continue
		}
		add(id{key: x.Key(op.On), text: Text(op.On), read: op.Does == doesRLock || op.Does == doesRUnlock})
	}
	for outer := x.Outer; outer != nil && len(channels) > 0; outer = outer.Outer {
		for _, op := range outer.Ops {
			if op.Does.IsChannel() && !slices.ContainsFunc(x.Ops, func(o Op) bool { return o.Does == op.Does && Text(o.On) == Text(op.On) }) {
				addChannel(op, op.Does, true)
			}
		}
	}
	if len(wrappers) > 0 {
		ast.Inspect(x.Body, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if w := wrappers[calledName(call)]; w != nil && w.x != x {
					i := id{key: w.Key, read: w.Read}
					if w.Key.Op.IsChannel() {
						i.on = calledOn(call)
					}
					add(i)
				}
			}
			_, inner := n.(*ast.FuncLit)
			return !inner
		})
	}
	return list
}

// calledName returns the last name of a called function.
func calledName(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// calledOn returns that of which a method is called, "" of a function.
func calledOn(call *ast.CallExpr) string {
	if f, ok := call.Fun.(*ast.SelectorExpr); ok {
		return Text(f.X)
	}
	return ""
}

// find finds the lines.
func (r *Region) find() {
	held, ends := r.list(r.x.Body.List, r.begins)
	if held && !ends {
		r.left()
	}
	if r.Deferred {
		r.lines[len(r.lines)-1] = true // where deferred functions run
	}
}

// left notes that the function returns with the lock.
func (r *Region) left() { r.Escapes = r.Escapes || !r.Deferred }

// node returns what a node does to the lock.
func (r *Region) node(n ast.Node) (does Verb) {
	if call, ok := n.(*ast.CallExpr); ok {
		does = r.does(call)
	} else if op, ok := r.x.File.channelOp(n); ok && r.Key.Op != DoesNothing {
		k := r.x.Key(op.On)
		k.Op = r.Key.Op
		switch {
		case k != r.Key || Text(op.On) != r.Text:
		case op.Does == r.Key.Op:
			does = doesLock
		default:
			does = doesUnlock
		}
	}
	r.Takes = r.Takes || does == doesLock
	r.gives = r.gives || does == doesUnlock
	return does
}

// does returns what a call does to the lock.
func (r *Region) does(call *ast.CallExpr) Verb {
	if op, ok := r.x.File.op(call); ok {
		if r.x.Key(op.On) != r.Key || Text(op.On) != r.Text {
			return DoesNothing
		}
		switch {
		case op.Does == doesLock && !r.Read, op.Does == doesRLock && r.Read:
			return doesLock
		case op.Does == doesUnlock && !r.Read, op.Does == doesRUnlock && r.Read:
			return doesUnlock
		}
		return DoesNothing
	}
	if w := r.wrapper[calledName(call)]; w != nil && w.x != r.x && w.Key == r.Key && w.Read == r.Read && (r.on == "" || r.on == calledOn(call)) {
		if w.Escapes {
			return doesLock
		}
		return doesUnlock
	}
	return DoesNothing
}

// mark notes that the lock is held from one position to another.
func (r *Region) mark(from, to token.Pos, held bool) {
	if !held {
		return
	}
	for line, last := r.x.File.Line(from), r.x.File.Line(to); line <= last; line++ {
		if line >= r.first && line-r.first < len(r.lines) {
			r.lines[line-r.first] = true
		}
	}
}

// list walks statements. It returns whether the lock is held after them, and whether the code after
// them is not reached.
func (r *Region) list(list []ast.Stmt, held bool) (after, ends bool) {
	for _, s := range list {
		if held, ends = r.stmt(s, held); ends {
			return held, true
		}
	}
	return held, false
}

func (r *Region) stmt(s ast.Stmt, held bool) (after, ends bool) {
	switch s := s.(type) {
	case *ast.ExprStmt:
		return r.simple(s, s.X, held), false
	case *ast.SendStmt:
		return r.simple(s, s, held), false
	case *ast.AssignStmt:
		if len(s.Rhs) == 1 {
			return r.simple(s, s.Rhs[0], held), false
		}
		r.mark(s.Pos(), s.End(), held)
	case *ast.DeferStmt:
		if r.unlocksIn(s.Call) {
			r.Deferred = true
			break
		}
		r.mark(s.Pos(), s.End(), held)
	case *ast.ReturnStmt:
		r.mark(s.Pos(), s.End(), held)
		if held {
			r.left()
		}
		return held, true
	case *ast.BranchStmt:
		r.mark(s.Pos(), s.End(), held)
		return held, true
	case *ast.BlockStmt:
		return r.list(s.List, held)
	case *ast.LabeledStmt:
		return r.stmt(s.Stmt, held)
	case *ast.IfStmt:
		return r.ifStmt(s, held)
	case *ast.ForStmt:
		r.mark(s.Pos(), s.Body.Pos(), held)
		return r.loop(s.Body, held, s.Cond == nil)
	case *ast.RangeStmt:
		r.mark(s.Pos(), s.Body.Pos(), held)
		return r.loop(s.Body, held, false)
	case *ast.SwitchStmt:
		r.mark(s.Pos(), s.Body.Pos(), held)
		return r.clauses(s.Body, held)
	case *ast.TypeSwitchStmt:
		r.mark(s.Pos(), s.Body.Pos(), held)
		return r.clauses(s.Body, held)
	case *ast.SelectStmt:
		r.mark(s.Pos(), s.Body.Pos(), held)
		return r.clauses(s.Body, held)
	default:
		r.mark(s.Pos(), s.End(), held)
	}
	return held, false
}

// simple walks a statement that may lock or unlock in a node. It returns whether the lock is held
// after it.
func (r *Region) simple(s ast.Stmt, n ast.Node, held bool) bool {
	switch r.node(n) {
	case doesLock:
		return true
	case doesUnlock:
		r.Releases = r.Releases || !held
		return false
	}
	r.mark(s.Pos(), s.End(), held)
	return held
}

// unlocksIn reports whether a deferred call unlocks, itself or in a function literal.
func (r *Region) unlocksIn(call *ast.CallExpr) (found bool) {
	if r.node(call) == doesUnlock {
		return true
	}
	if _, literal := call.Fun.(*ast.FuncLit); !literal {
		return false
	}
	ast.Inspect(call.Fun, func(n ast.Node) bool {
		found = found || n != nil && r.node(n) == doesUnlock
		return !found
	})
	return found
}

func (r *Region) ifStmt(s *ast.IfStmt, held bool) (after, ends bool) {
	r.mark(s.Pos(), s.Body.Pos(), held)
	inside, outside := held, held
	switch try, not := r.tries(s); {
	case try && not:
		outside = true // if !mu.TryLock() { return }
	case try:
		inside = true
	}
	inside, insideEnds := r.list(s.Body.List, inside)
	outsideEnds := false
	if s.Else != nil {
		outside, outsideEnds = r.stmt(s.Else, outside)
	}
	return inside && !insideEnds || outside && !outsideEnds, insideEnds && outsideEnds
}

// tries reports whether a condition is a call of TryLock, or its opposite.
func (r *Region) tries(s *ast.IfStmt) (try, not bool) {
	cond := s.Cond
	if u, ok := cond.(*ast.UnaryExpr); ok && u.Op == token.NOT {
		cond, not = u.X, true
	}
	call, ok := cond.(*ast.CallExpr)
	if !ok {
		return false, false
	}
	name := "TryLock"
	if r.Read {
		name = "TryRLock"
	}
	m, ok := call.Fun.(*ast.SelectorExpr)
	return ok && m.Sel.Name == name && Text(m.X) == r.Text && r.Text != "", not
}

// loop walks the body of a loop. What holds at its end holds at its beginning.
func (r *Region) loop(body *ast.BlockStmt, held, forever bool) (after, ends bool) {
	end, ends := r.list(body.List, held)
	if end && !ends && !held {
		end, ends = r.list(body.List, true)
	}
	if forever && !breaks(body) {
		return held, true
	}
	return held || end && !ends, false
}

// breaks reports whether a loop without condition can end.
func breaks(body *ast.BlockStmt) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		if b, ok := n.(*ast.BranchStmt); ok && (b.Tok == token.BREAK || b.Tok == token.GOTO) {
			found = true // perhaps of an inner statement
		}
		return !found
	})
	return found
}

// clauses walks the clauses of a switch or select.
func (r *Region) clauses(body *ast.BlockStmt, held bool) (after, ends bool) {
	fallsPast := true
	all := true
	for _, c := range body.List {
		list, held := []ast.Stmt(nil), held
		switch c := c.(type) {
		case *ast.CaseClause:
			r.mark(c.Pos(), c.Colon, held)
			fallsPast = fallsPast && c.List != nil
			list = c.Body
		case *ast.CommClause:
			r.mark(c.Pos(), c.Colon, held)
			fallsPast = false
			if list = c.Body; c.Comm != nil && r.Key.Op != DoesNothing {
				held, _ = r.stmt(c.Comm, held)
			}
		}
		end, ends := r.list(list, held)
		if n := len(list); ends && n > 0 {
			if b, ok := list[n-1].(*ast.BranchStmt); ok && b.Tok == token.BREAK && b.Label == nil {
				ends = false
			}
		}
		after = after || end && !ends
		all = all && ends
	}
	if fallsPast {
		return after || held, false
	}
	return after, all && len(body.List) > 0
}
