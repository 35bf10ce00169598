package analyze

import (
	"go/ast"
	"go/token"
	"slices"
)

// A region is the lines of a function in which it holds a lock, by the function's text: from a call of
// Lock to one of Unlock, or to the end of the function if Unlock is deferred.
type region struct {
	key      lockKey
	text     string // the lock, as in the source; tells locks of one type apart
	read     bool   // RLock
	x        *sourceFunc
	first    int // line of lines[0]
	lines    []bool
	deferred bool
	escapes  bool // the function may return with the lock
	releases bool // it unlocks what it has not locked
	takes    bool // it locks
	gives    bool // it unlocks, perhaps in a deferred function
	begins   bool // it is held at the beginning: the function around this one, which is a literal, locks it
	wrapper  map[string]*region
}

// paired reports whether a channel is used like a lock: the function takes a place in it and gives it back, or the
// function around it takes it.
func (r *region) paired() bool { return r.gives && (r.takes || r.begins) }

// holds reports whether the lock is held at a line.
func (r *region) holds(line int) bool {
	return line >= r.first && line-r.first < len(r.lines) && r.lines[line-r.first]
}

// regions returns the regions of a function. Functions of the package that lock or unlock for their
// callers are in wrappers, by name. channels says of which channels there are regions.
func (x *sourceFunc) regions(wrappers map[string]*region, channels map[lockKey]bool) (list []*region) {
	type id struct {
		key    lockKey
		text   string
		read   bool
		begins bool
	}
	seen := map[id]bool{}
	add := func(i id) {
		if !seen[i] && i.key != (lockKey{}) {
			seen[i] = true
			r := &region{key: i.key, text: i.text, read: i.read, x: x, begins: i.begins, first: x.from, lines: make([]bool, x.to-x.from+1), wrapper: wrappers}
			r.find()
			list = append(list, r)
		}
	}
	addChannel := func(op lockOp, takes lockDoes, begins bool) {
		k := x.key(op.on)
		k.op = takes
		if k.root != "" && channels[k] {
			add(id{key: k, text: exprText(op.on), begins: begins})
		}
	}
	for _, op := range x.ops {
		if op.does.isChannel() {
			addChannel(op, op.does, false)
			addChannel(op, op.does.opposite(), false)
			continue
		}
		add(id{key: x.key(op.on), text: exprText(op.on), read: op.does == doesRLock || op.does == doesRUnlock})
	}
	for outer := x.outer; outer != nil && len(channels) > 0; outer = outer.outer {
		for _, op := range outer.ops {
			if op.does.isChannel() && !slices.ContainsFunc(x.ops, func(o lockOp) bool { return o.does == op.does && exprText(o.on) == exprText(op.on) }) {
				addChannel(op, op.does, true)
			}
		}
	}
	if len(wrappers) > 0 {
		ast.Inspect(x.body, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if w := wrappers[calledName(call)]; w != nil && w.x != x {
					add(id{key: w.key, read: w.read})
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

// find finds the lines.
func (r *region) find() {
	held, ends := r.list(r.x.body.List, r.begins)
	if held && !ends {
		r.left()
	}
	if r.deferred {
		r.lines[len(r.lines)-1] = true // where deferred functions run
	}
}

// left notes that the function returns with the lock.
func (r *region) left() { r.escapes = r.escapes || !r.deferred }

// node returns what a node does to the lock.
func (r *region) node(n ast.Node) (does lockDoes) {
	if call, ok := n.(*ast.CallExpr); ok {
		does = r.does(call)
	} else if op, ok := r.x.file.channelOp(n); ok && r.key.op != doesNothing {
		k := r.x.key(op.on)
		k.op = r.key.op
		switch {
		case k != r.key || exprText(op.on) != r.text:
		case op.does == r.key.op:
			does = doesLock
		default:
			does = doesUnlock
		}
	}
	r.takes = r.takes || does == doesLock
	r.gives = r.gives || does == doesUnlock
	return does
}

// does returns what a call does to the lock.
func (r *region) does(call *ast.CallExpr) lockDoes {
	if op, ok := r.x.file.op(call); ok {
		if r.x.key(op.on) != r.key || exprText(op.on) != r.text {
			return doesNothing
		}
		switch {
		case op.does == doesLock && !r.read, op.does == doesRLock && r.read:
			return doesLock
		case op.does == doesUnlock && !r.read, op.does == doesRUnlock && r.read:
			return doesUnlock
		}
		return doesNothing
	}
	if w := r.wrapper[calledName(call)]; w != nil && w.x != r.x && w.key == r.key && w.read == r.read {
		if w.escapes {
			return doesLock
		}
		return doesUnlock
	}
	return doesNothing
}

// mark notes that the lock is held from one position to another.
func (r *region) mark(from, to token.Pos, held bool) {
	if !held {
		return
	}
	for line, last := r.x.file.line(from), r.x.file.line(to); line <= last; line++ {
		if line >= r.first && line-r.first < len(r.lines) {
			r.lines[line-r.first] = true
		}
	}
}

// list walks statements. It returns whether the lock is held after them, and whether the code after
// them is not reached.
func (r *region) list(list []ast.Stmt, held bool) (after, ends bool) {
	for _, s := range list {
		if held, ends = r.stmt(s, held); ends {
			return held, true
		}
	}
	return held, false
}

func (r *region) stmt(s ast.Stmt, held bool) (after, ends bool) {
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
			r.deferred = true
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

// simple walks a statement that may lock or unlock in a node. It returns whether the lock is held after it.
func (r *region) simple(s ast.Stmt, n ast.Node, held bool) bool {
	switch r.node(n) {
	case doesLock:
		return true
	case doesUnlock:
		r.releases = r.releases || !held
		return false
	}
	r.mark(s.Pos(), s.End(), held)
	return held
}

// unlocksIn reports whether a deferred call unlocks, itself or in a function literal.
func (r *region) unlocksIn(call *ast.CallExpr) (found bool) {
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

func (r *region) ifStmt(s *ast.IfStmt, held bool) (after, ends bool) {
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
func (r *region) tries(s *ast.IfStmt) (try, not bool) {
	cond := s.Cond
	if u, ok := cond.(*ast.UnaryExpr); ok && u.Op == token.NOT {
		cond, not = u.X, true
	}
	call, ok := cond.(*ast.CallExpr)
	if !ok {
		return false, false
	}
	name := "TryLock"
	if r.read {
		name = "TryRLock"
	}
	m, ok := call.Fun.(*ast.SelectorExpr)
	return ok && m.Sel.Name == name && exprText(m.X) == r.text && r.text != "", not
}

// loop walks the body of a loop. What holds at its end holds at its beginning.
func (r *region) loop(body *ast.BlockStmt, held, forever bool) (after, ends bool) {
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
func (r *region) clauses(body *ast.BlockStmt, held bool) (after, ends bool) {
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
			if list = c.Body; c.Comm != nil && r.key.op != doesNothing {
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
