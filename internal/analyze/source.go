package analyze

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"

	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// sources reads the source files of the profiled program, if they are here.
type sources struct {
	read  func(name string) *source.File // nil: there are none
	left  int                            // bytes that may still be read
	files map[string]*sourceFile         // by the name in the profile; nil: there is none
}

func newSources(read func(name string) *source.File) *sources {
	return &sources{read: read, left: source.MaxText, files: map[string]*sourceFile{}}
}

// A sourceFile is a parsed file.
type sourceFile struct {
	text  *source.File
	dir   string
	fset  *token.FileSet
	funcs []*sourceFunc // outer ones before inner ones
}

// A sourceFunc is a function or a function literal.
type sourceFunc struct {
	file     *sourceFile
	decl     *ast.FuncDecl // the function, or the one around the literal; nil: a literal outside of functions
	typ      *ast.FuncType
	body     *ast.BlockStmt
	from, to int // lines
	outer    *sourceFunc
	ops      []lockOp // calls that lock and unlock, sends and receives, without those of inner functions
	locals   map[string]string
}

// file returns the source file of a frame, nil if it cannot be read.
func (s *sources) file(of *tachyon.Frame) *sourceFile {
	f, ok := s.files[of.File]
	if !ok {
		f = s.parse(of.File)
		s.files[of.File] = f
	}
	if f == nil || !f.text.Shows(of.Func, int(of.Line)) {
		return nil
	}
	return f
}

func (s *sources) parse(name string) *sourceFile {
	if !strings.HasSuffix(name, ".go") || s.left <= 0 || s.read == nil {
		return nil
	}
	text := s.read(name)
	if text == nil || len(text.Text) > s.left {
		return nil
	}
	s.left -= len(text.Text)
	f := &sourceFile{text: text, dir: path.Dir(strings.ReplaceAll(name, `\`, "/")), fset: token.NewFileSet()}
	tree, err := parser.ParseFile(f.fset, "", text.Text, parser.SkipObjectResolution)
	if tree == nil || err != nil {
		return nil
	}
	for _, d := range tree.Decls {
		decl, _ := d.(*ast.FuncDecl)
		f.add(d, decl)
	}
	return f
}

// add adds the functions in a declaration.
func (f *sourceFile) add(d ast.Decl, decl *ast.FuncDecl) {
	var around []*sourceFunc
	cases := map[ast.Stmt]int{} // of selects: the line of the select
	var visit func(ast.Node) bool
	visit = func(n ast.Node) bool {
		x := &sourceFunc{file: f, decl: decl}
		if op, ok := f.channelOp(n); ok && len(around) > 0 {
			for s, line := range cases {
				if s.Pos() <= n.Pos() && n.End() <= s.End() {
					op.selects = line
				}
			}
			in := around[len(around)-1]
			in.ops = append(in.ops, op)
		}
		switch n := n.(type) {
		case *ast.SelectStmt:
			clear(cases)
			for _, c := range n.Body.List {
				if c := c.(*ast.CommClause); c.Comm != nil {
					cases[c.Comm] = f.line(n.Pos())
				}
			}
			return true
		case *ast.FuncDecl:
			x.typ, x.body = n.Type, n.Body
		case *ast.FuncLit:
			x.typ, x.body = n.Type, n.Body
		case *ast.CallExpr:
			if op, ok := f.op(n); ok && len(around) > 0 {
				in := around[len(around)-1]
				in.ops = append(in.ops, op)
			}
			return true
		default:
			return true
		}
		if x.body == nil {
			return false
		}
		x.from, x.to = f.line(n.Pos()), f.line(n.End())
		if len(around) > 0 {
			x.outer = around[len(around)-1]
		}
		f.funcs = append(f.funcs, x)
		around = append(around, x)
		for _, s := range x.body.List {
			ast.Inspect(s, visit)
		}
		around = around[:len(around)-1]
		return false
	}
	ast.Inspect(d, visit)
}

// line returns the line of a position in the file itself, without regard to //line comments: frames below
// such a comment name another file.
func (f *sourceFile) line(p token.Pos) int { return f.fset.PositionFor(p, false).Line }

// at returns the innermost function that a line is in, nil if there is none.
func (f *sourceFile) at(line int) *sourceFunc {
	for _, x := range slices.Backward(f.funcs) {
		if x.from <= line && line <= x.to {
			return x
		}
	}
	return nil
}

// exprText returns an expression as text, "" if it is not as simple as c.mu, c.shards[i].mu or f().mu.
func exprText(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.ParenExpr:
		return exprText(e.X)
	case *ast.StarExpr:
		return exprText(e.X)
	case *ast.UnaryExpr:
		if e.Op == token.AND {
			return exprText(e.X)
		}
	case *ast.SelectorExpr:
		if x := exprText(e.X); x != "" {
			return x + "." + e.Sel.Name
		}
	case *ast.IndexExpr:
		if x := exprText(e.X); x != "" {
			return x + "[" + exprText(e.Index) + "]"
		}
	case *ast.CallExpr:
		if x := exprText(e.Fun); x != "" && len(e.Args) == 0 {
			return x + "()"
		}
	}
	return ""
}
