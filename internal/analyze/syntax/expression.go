package syntax

import (
	"go/ast"
	"go/token"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/tachyon"
)

// Expression returns the text of the lock, channel or group that a line of source waits for, such
// as "c.mu"; of a select that waits to send, the channel to which. It is "" if the text is not here
// or does not say it.
func (s *Sources) Expression(f *tachyon.Frame, kind, reason string) string {
	file := s.File(f)
	if file == nil {
		return ""
	}
	x := file.At(int(f.Line))
	if x == nil {
		return ""
	}
	if analyze.IsLock(kind) {
		for _, op := range x.Ops {
			if op.Line == int(f.Line) && op.Does.Takes() {
				return Text(op.On)
			}
		}
		return ""
	}
	if reason == "select" {
		return Text(s.Offers(f))
	}
	text := ""
	ast.Inspect(x.Body, func(n ast.Node) bool {
		if n == nil || text != "" || file.Line(n.Pos()) > int(f.Line) || file.Line(n.End()) < int(f.Line) {
			return false
		}
		var e ast.Expr
		at := n.Pos()
		switch n := n.(type) {
		case *ast.SendStmt:
			if reason == "chan send" {
				e = n.Chan
			}
		case *ast.UnaryExpr:
			if n.Op == token.ARROW && reason == "chan receive" {
				e = n.X
			}
		case *ast.RangeStmt:
			if reason == "chan receive" {
				e = n.X
			}
		case *ast.CallExpr:
			if m, ok := n.Fun.(*ast.SelectorExpr); ok && m.Sel.Name == "Wait" && kind != tachyon.ObjectChannel {
				e, at = m.X, m.Sel.Pos()
			}
		}
		if e != nil && file.Line(at) == int(f.Line) {
			text = Text(e)
		}
		return true
	})
	return text
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
	return Text(e)
}

// Text returns an expression as text, "" if it is not as simple as c.mu, c.shards[i].mu or f().mu.
func Text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.ParenExpr:
		return Text(e.X)
	case *ast.StarExpr:
		return Text(e.X)
	case *ast.TypeAssertExpr:
		return Text(e.X)
	case *ast.UnaryExpr:
		if e.Op == token.AND {
			return Text(e.X)
		}
	case *ast.SelectorExpr:
		if x := Text(e.X); x != "" {
			return x + "." + e.Sel.Name
		}
	case *ast.IndexExpr:
		if x := Text(e.X); x != "" {
			return x + "[" + Text(e.Index) + "]"
		}
	case *ast.CallExpr:
		if x := Text(e.Fun); x != "" && len(e.Args) == 0 {
			return x + "()"
		}
	}
	return ""
}
