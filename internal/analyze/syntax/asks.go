package syntax

import (
	"go/ast"
	"go/token"
	"slices"

	"github.com/gotach/profiler/tachyon"
)

// Asks reports whether a frame's line waits for the answer to what its function has asked for: for
// what a call has given in the same pass, so that each wait is for another one, as in f :=
// log.Apply(entry); f.Error(), in log.Apply(entry).Error(), or in done := make(chan int); <-done.
// What is given once, before a loop that waits, is a queue or the like, and so may be what a call
// without arguments gives, as in s.queue().Next().
func (s *Sources) Asks(f *tachyon.Frame) (asks bool) {
	x := s.Func(f)
	if x == nil {
		return false
	}
	given := map[string]ast.Node{} // the innermost loop around the call, by variable
	var around []ast.Node
	loop := func() ast.Node {
		for _, n := range slices.Backward(around) {
			switch n.(type) {
			case *ast.ForStmt, *ast.RangeStmt:
				return n
			}
		}
		return nil
	}
	of := func(e ast.Expr) bool {
		root, _ := split(e)
		in, ok := given[root]
		return ok && in == loop()
	}
	there := func(pos token.Pos) bool { return x.File.Line(pos) == int(f.Line) }
	receives := func(n ast.Node) bool {
		op, ok := x.File.channelOp(n)
		if _, called := op.On.(*ast.CallExpr); !ok || called || op.Does != DoesReceive || x.timeOf(op.On) != NoTime {
			return false
		}
		return of(op.On)
	}
	ast.Inspect(x.Body, func(n ast.Node) bool {
		if n == nil {
			around = around[:len(around)-1]
			return true
		}
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.AssignStmt:
			if call, ok := n.Rhs[0].(*ast.CallExpr); ok && len(n.Rhs) == 1 && Text(call.Fun) != "append" {
				for _, to := range n.Lhs {
					if id, ok := to.(*ast.Ident); ok {
						given[id.Name] = loop()
					}
				}
			}
		case *ast.SelectStmt:
			for _, c := range n.Body.List {
				switch comm := c.(*ast.CommClause).Comm.(type) {
				case *ast.ExprStmt:
					asks = asks || there(n.Pos()) && receives(comm.X)
				case *ast.AssignStmt:
					asks = asks || there(n.Pos()) && receives(comm.Rhs[0])
				}
			}
		case *ast.UnaryExpr:
			asks = asks || n.Op == token.ARROW && there(n.Pos()) && receives(n)
		case *ast.CallExpr:
			if m, ok := n.Fun.(*ast.SelectorExpr); ok && there(m.Sel.Pos()) && m.Sel.Name != "Done" { // that of a context
				call, chained := m.X.(*ast.CallExpr)
				asks = asks || chained && len(call.Args) > 0 || of(m.X)
			}
		}
		around = append(around, n)
		return true
	})
	return asks
}

// Repeats reports whether a frame's line is in a loop of its function.
func (s *Sources) Repeats(f *tachyon.Frame) (repeats bool) {
	if x := s.Func(f); x != nil {
		ast.Inspect(x.Body, func(n ast.Node) bool {
			var body *ast.BlockStmt
			switch n := n.(type) {
			case *ast.FuncLit:
				return false
			case *ast.ForStmt:
				body = n.Body
			case *ast.RangeStmt:
				body = n.Body
			}
			repeats = repeats || body != nil && x.File.Line(body.Pos()) <= int(f.Line) && int(f.Line) <= x.File.Line(body.End())
			return true
		})
	}
	return repeats
}

// Ranges reports whether a frame's line is a loop over what the function has from elsewhere, as
// over a queue that is a field or a parameter. It does not ask for what it gets.
func (s *Sources) Ranges(f *tachyon.Frame) (ranges bool) {
	if x := s.Func(f); x != nil {
		own := map[string]bool{} // its variables so far
		ast.Inspect(x.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncLit:
				return false
			case *ast.AssignStmt:
				for _, to := range n.Lhs {
					own[Text(to)] = true
				}
			case *ast.RangeStmt:
				root, _ := split(n.X)
				_, called := n.X.(*ast.CallExpr)
				ranges = ranges || x.File.Line(n.Pos()) == int(f.Line) && !called && !own[root]
			}
			return true
		})
	}
	return ranges
}
