package perlnytprof

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
)

// extent is the lines of a function, first to last.
type extent struct{ first, last uint32 }

func (e extent) holds(o extent) bool { return e.first <= o.first && o.last <= e.last }

// add makes e hold line.
func (e *extent) add(line uint32) {
	if line == 0 {
		return
	}
	if e.first == 0 || line < e.first {
		e.first = line
	}
	e.last = max(e.last, line)
}

// functions are the extents of the functions of a Go source file.
type functions struct{ declared, literal []extent }

// parseFunctions finds the functions of a source file; of one with errors those
// that can be found.
func parseFunctions(src []byte) (f functions) {
	fset := token.NewFileSet()
	file, _ := parser.ParseFile(fset, "", src, parser.SkipObjectResolution)
	if file == nil {
		return f
	}
	line := func(p token.Pos) uint32 { return uint32(fset.PositionFor(p, false).Line) }
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			f.declared = append(f.declared, extent{line(n.Pos()), line(n.End())})
		case *ast.FuncLit:
			f.literal = append(f.literal, extent{line(n.Pos()), line(n.End())})
		}
		return true
	})
	return f
}

// closure matches the end of the name that the compiler gives to a function
// without a name, or to what it made of a go or defer statement or a range body.
var closure = regexp.MustCompile(`[.-](func|gowrap|deferwrap|range)\d+(\.\d+)*$`)

// around returns the extent of the innermost function of the name's kind around
// the lines that were seen of it; without one, these.
func (f functions) around(name string, seen extent) extent {
	candidates := f.declared
	if closure.MatchString(name) {
		candidates = f.literal
	}
	best := seen
	found := false
	for _, c := range candidates {
		if c.holds(seen) && (!found || best.holds(c)) {
			best, found = c, true
		}
	}
	return best
}
