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
