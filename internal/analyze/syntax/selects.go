package syntax

import (
	"go/ast"
	"go/token"

	"github.com/gotach/profiler/tachyon"
)

// Offers returns the channel to which the select on a frame's line waits to send, nil if there is
// none or the text is not here. Such a select has a case that sends, and none whose value is used:
// what it receives beside are signals, such as that the program ends. One that may have nothing to
// send, because its channel is sometimes nil, is none.
func (s *Sources) Offers(f *tachyon.Frame) ast.Expr {
	x := s.Func(f)
	if x == nil {
		return nil
	}
	var to ast.Expr
	ast.Inspect(x.Body, func(n ast.Node) bool {
		if n, ok := n.(*ast.SelectStmt); ok && to == nil && x.File.Line(n.Pos()) == int(f.Line) {
			if to = sentTo(n); to != nil && x.sometimesNil(to) {
				to = nil
			}
		}
		_, inner := n.(*ast.FuncLit)
		return !inner && to == nil
	})
	return to
}

// sentTo returns the channel of the first case that sends, nil if there is none or if a case
// receives a value.
func sentTo(n *ast.SelectStmt) (to ast.Expr) {
	for _, c := range n.Body.List {
		switch c := c.(*ast.CommClause).Comm.(type) {
		case *ast.SendStmt:
			if to == nil {
				to = c.Chan
			}
		case *ast.AssignStmt:
			return nil
		}
	}
	return to
}

// sometimesNil reports whether an expression is a variable that the function, or one around it,
// declares without a value or sets to nil.
func (x *Func) sometimesNil(e ast.Expr) (found bool) {
	id, ok := e.(*ast.Ident)
	if !ok {
		return false
	}
	is := func(e ast.Expr, name string) bool {
		x, ok := e.(*ast.Ident)
		return ok && x.Name == name
	}
	for ; x != nil; x = x.Outer {
		ast.Inspect(x.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for _, name := range n.Names {
					found = found || name.Name == id.Name && len(n.Values) == 0
				}
			case *ast.AssignStmt:
				for i, to := range n.Lhs {
					found = found || n.Tok == token.ASSIGN && is(to, id.Name) && len(n.Rhs) == len(n.Lhs) && is(n.Rhs[i], "nil")
				}
			}
			return !found
		})
	}
	return found
}

// A Time is what a line waits for that waits for a channel of package time.
type Time uint8

const (
	NoTime  Time = iota
	Tick         // the next tick of a ticker
	OneTick      // the same, of one that the function has not made: others may wait for it too
	Delay        // the end of a time that begins there
)

// ForTime returns for which time the receive or select on a frame's line waits. Beside it a select
// may only wait for the end of all: of a context, or for a signal after which the function returns.
// One that returns when the time comes, and waits for such a signal, waits for that.
func (s *Sources) ForTime(f *tachyon.Frame) (t Time) {
	x := s.Func(f)
	if x == nil {
		return NoTime
	}
	known := false
	ast.Inspect(x.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.SelectStmt:
			if x.File.Line(n.Pos()) == int(f.Line) && !known {
				known, t = true, x.timeIn(n)
			}
		case *ast.UnaryExpr, *ast.RangeStmt:
			if op, ok := x.File.channelOp(n); ok && op.Line == int(f.Line) && !known {
				known, t = true, x.timeOf(op.On)
			}
		}
		return !known
	})
	return t
}

// timeIn is ForTime of a select.
func (x *Func) timeIn(n *ast.SelectStmt) (t Time) {
	ends, signals := false, false // a case of a time leaves the function; another one is a signal
	for _, s := range n.Body.List {
		c := s.(*ast.CommClause)
		var from ast.Expr
		value := false
		switch comm := c.Comm.(type) {
		case *ast.ExprStmt:
			from = comm.X
		case *ast.AssignStmt:
			from, value = comm.Rhs[0], true
		default: // it sends, or does not wait
			return NoTime
		}
		op, ok := x.File.channelOp(from)
		if !ok {
			return NoTime
		}
		if of := x.timeOf(op.On); of != NoTime {
			t, ends = max(t, of), ends || leaves(c.Body)
			continue
		}
		if call, ok := op.On.(*ast.CallExpr); ok && calledName(call) == "Done" {
			continue
		}
		if signals = true; value || !leaves(c.Body) {
			return NoTime
		}
	}
	if ends && signals {
		return NoTime
	}
	return t
}

// leaves reports whether statements end with a return, or go to a label.
func leaves(list []ast.Stmt) bool {
	if len(list) == 0 {
		return false
	}
	switch s := list[len(list)-1].(type) {
	case *ast.ReturnStmt:
		return true
	case *ast.BranchStmt:
		return s.Label != nil
	}
	return false
}

// timeOf returns the time of which a channel is.
func (x *Func) timeOf(e ast.Expr) Time {
	switch e := e.(type) {
	case *ast.CallExpr:
		switch Text(e.Fun) {
		case "time.After":
			return Delay
		case "time.Tick":
			return Tick
		}
		if name := calledName(e); len(e.Args) == 0 && (name == "C" || name == "Chan") { // of a timer behind an interface
			return OneTick
		}
	case *ast.SelectorExpr:
		if e.Sel.Name != "C" {
			return NoTime
		}
		t := OneTick
		if id, ok := e.X.(*ast.Ident); ok {
			for ; x != nil; x = x.Outer {
				ast.Inspect(x.Body, func(n ast.Node) bool {
					if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == len(a.Rhs) {
						for i, to := range a.Lhs {
							if call, ok := a.Rhs[i].(*ast.CallExpr); ok && Text(to) == id.Name {
								switch Text(call.Fun) {
								case "time.NewTimer":
									t = Delay
								case "time.NewTicker":
									t = Tick
								}
							}
						}
					}
					return true
				})
			}
		}
		return t
	}
	return NoTime
}
