package analyze

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/tachyon"
)

// expression returns the text of the lock, channel or group that a line of source waits for, such as
// "c.mu". It is "" if the text is not here or does not say it.
func (s *sources) expression(f *tachyon.Frame, kind, reason string) string {
	file := s.file(f)
	if file == nil {
		return ""
	}
	x := file.at(int(f.Line))
	if x == nil {
		return ""
	}
	if isLock(kind) {
		for _, op := range x.ops {
			if op.line == int(f.Line) && op.does.takes() {
				return exprText(op.on)
			}
		}
		return ""
	}
	text := ""
	ast.Inspect(x.body, func(n ast.Node) bool {
		if n == nil || text != "" || file.line(n.Pos()) > int(f.Line) || file.line(n.End()) < int(f.Line) {
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
		if e != nil && file.line(at) == int(f.Line) {
			text = exprText(e)
		}
		return true
	})
	return text
}

// name names an object after the variable in which it is, else after the source text of its most
// frequent site, else after the function of that site.
func (l *lockSums) name(key int32, sums *objectSums) string {
	o := l.objects[key]
	site := sums.main()
	text := ""
	if site != nil {
		text = l.sources.expression(&site.frame, sums.kind, site.reason)
	}
	if o.Symbol != "" {
		last := o.Symbol[strings.LastIndexByte(o.Symbol, '.')+1:]
		switch {
		case o.Offset == 0:
			return profile.FuncName(o.Symbol)
		case strings.HasPrefix(text, last+".") || strings.HasPrefix(text, last+"["):
			return profile.FuncName(strings.TrimSuffix(o.Symbol, last)) + text
		}
		return fmt.Sprintf("%s+%d", profile.FuncName(o.Symbol), o.Offset)
	}
	switch {
	case len(o.Members) > 0:
		var list []string
		for _, m := range o.Members {
			name := fmt.Sprintf("channel %d", m)
			if member := l.sums[m]; member != nil && len(list) < 4 {
				name = l.name(m, member)
			}
			list = append(list, name)
		}
		if len(list) > 4 {
			list = append(list[:4], "…")
		}
		return "select of " + strings.Join(list, ", ")
	case text != "":
		return text
	case site != nil:
		return kindName(sums.kind) + " in " + shortFunc(site.frame.Func)
	}
	return kindName(sums.kind)
}

// shortFunc returns a function's name with the last element of its import path only.
func shortFunc(function string) string {
	head := function
	if i := strings.IndexAny(head, "[("); i >= 0 {
		head = head[:i]
	}
	return profile.FuncName(function[strings.LastIndexByte(head, '/')+1:])
}

// kindName is a word for a kind of objects.
func kindName(kind string) string {
	if kind == tachyon.ObjectChannel {
		return "channel"
	}
	return strings.TrimPrefix(kind, "sync.")
}
