package source

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
)

// An extent is the lines of a declared function, or of one without a name outside of functions.
type extent struct {
	name     string // F, T.M or (*T).M; "": it has none
	from, to int
}

// functions returns the functions of a Go file. What is inside of them is theirs.
func functions(text []byte) (list []extent) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, "", text, parser.SkipObjectResolution)
	if tree == nil || err != nil {
		return nil
	}
	add := func(name string, n ast.Node) {
		line := func(p token.Pos) int { return set.PositionFor(p, false).Line }
		list = append(list, extent{name, line(n.Pos()), line(n.End())})
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			add(declared(n), n)
			return false
		case *ast.FuncLit:
			add("", n)
			return false
		}
		return true
	})
	return list
}

// declared returns a function's name without its package, as the runtime has it.
func declared(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return d.Name.Name
	}
	before, after := "", ""
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.ParenExpr:
			t = x.X
		case *ast.StarExpr:
			before, after, t = "(*", ")", x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return before + x.Name + after + "." + d.Name.Name
		default:
			return d.Name.Name
		}
	}
}

// holds reports whether a line of a function is here. A function may be one without a name inside
// of the declared one: app.F.func1, or app.G.F.func1 if the compiler put F into G.
func (e extent) holds(function string, line int) bool {
	if line < e.from || line > e.to {
		return false
	}
	var b strings.Builder
	depth := 0
	for _, r := range function { // without type arguments, which may have any names
		switch {
		case r == '[':
			depth++
		case r == ']':
			depth--
		case depth <= 0 && r == '-': // of F-range1 and F-fm
			b.WriteByte('.')
		case depth <= 0:
			b.WriteRune(r)
		}
	}
	function = b.String()
	_, name, ok := strings.Cut(function[strings.LastIndexByte(function, '/')+1:], ".")
	switch {
	case !ok:
		return false
	case e.name == "":
		return strings.HasPrefix(name, "glob..func") || strings.HasPrefix(name, "init.func")
	}
	return strings.Contains("."+name+".", "."+e.name+".")
}
