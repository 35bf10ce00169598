package syntax

import (
	"go/ast"
	"go/token"

	"github.com/gotach/profiler/tachyon"
)

// Offers returns the channel to which the select on a frame's line waits to send, nil if there is none or the text is not here. Such a select
// has a case that sends, and none whose value is used: what it receives beside are signals, such as that the program ends. One that may
// have nothing to send, because its channel is sometimes nil, is none.
func (s *Sources) Offers(f *tachyon.Frame) ast.Expr {
	file := s.File(f)
	if file == nil {
		return nil
	}
	x := file.Of(f)
	if x == nil {
		return nil
	}
	var to ast.Expr
	ast.Inspect(x.Body, func(n ast.Node) bool {
		if n, ok := n.(*ast.SelectStmt); ok && to == nil && file.Line(n.Pos()) == int(f.Line) {
			if to = sentTo(n); to != nil && x.sometimesNil(to) {
				to = nil
			}
		}
		_, inner := n.(*ast.FuncLit)
		return !inner && to == nil
	})
	return to
}

// sentTo returns the channel of the first case that sends, nil if there is none or if a case receives a value.
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

// sometimesNil reports whether an expression is a variable that the function, or one around it, declares without a value or sets to nil.
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

// ForTime reports whether the receive or select on a frame's line waits for a time to come, and whether that is a delay, which begins there,
// rather than a tick. Beside it a select may only wait for the end of all: of a context, or for a signal after which the function returns. One
// that returns when the time comes waits for something else, and not for longer than that.
func (s *Sources) ForTime(f *tachyon.Frame) (waits, delay bool) {
	file := s.File(f)
	if file == nil {
		return false, false
	}
	x := file.Of(f)
	if x == nil {
		return false, false
	}
	known := false
	ast.Inspect(x.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.SelectStmt:
			if file.Line(n.Pos()) == int(f.Line) && !known {
				known = true
				waits, delay = x.timeIn(n)
			}
		case *ast.UnaryExpr, *ast.RangeStmt:
			if op, ok := file.channelOp(n); ok && op.Line == int(f.Line) && !known {
				known = true
				waits, delay = x.isTime(op.On)
			}
		}
		return !known
	})
	return waits, delay
}

// timeIn is ForTime of a select.
func (x *Func) timeIn(n *ast.SelectStmt) (waits, delay bool) {
	for _, s := range n.Body.List {
		c := s.(*ast.CommClause)
		var from ast.Expr
		switch comm := c.Comm.(type) {
		case *ast.ExprStmt:
			from = comm.X
		case *ast.AssignStmt:
			from = comm.Rhs[0]
		default: // it sends, or does not wait
			return false, false
		}
		if op, ok := x.File.channelOp(from); ok {
			if is, late := x.isTime(op.On); is && !leaves(c.Body) {
				waits, delay = true, delay || late
				continue
			}
			_, value := c.Comm.(*ast.AssignStmt)
			if call, ok := op.On.(*ast.CallExpr); !value && (leaves(c.Body) || ok && calledName(call) == "Done") {
				continue
			}
		}
		return false, false
	}
	return waits, delay
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

// isTime reports whether a channel is that of a timer or ticker, and whether it is of one that begins there.
func (x *Func) isTime(e ast.Expr) (is, delay bool) {
	switch e := e.(type) {
	case *ast.CallExpr:
		name := Text(e.Fun)
		return name == "time.After" || name == "time.Tick", name == "time.After"
	case *ast.SelectorExpr:
		if e.Sel.Name != "C" {
			return false, false
		}
		id, ok := e.X.(*ast.Ident)
		if !ok {
			return true, false
		}
		for ; x != nil; x = x.Outer {
			ast.Inspect(x.Body, func(n ast.Node) bool {
				if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == 1 && Text(a.Lhs[0]) == id.Name {
					if call, ok := a.Rhs[0].(*ast.CallExpr); ok {
						delay = delay || Text(call.Fun) == "time.NewTimer"
					}
				}
				return !delay
			})
		}
		return true, delay
	}
	return false, false
}
