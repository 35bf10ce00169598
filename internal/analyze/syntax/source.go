// Package syntax reads the source text of the profiled program, for what it says of locks and
// channels. Packages locks and requests ask it.
//
// # Files
//
//   - asks.go: which lines wait for an answer
//   - selects.go: which selects wait to send, and which lines wait for a time
//   - regions.go: the lines in which a function holds a lock, or a place in a channel
//   - channelkeys.go: which channels may be the same
//   - expression.go: the text of what a line waits for
//   - source.go: files and functions
//   - ops.go: what a call does to a lock, and which variable that is
package syntax

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

// Sources reads the source files of the profiled program, if they are here.
type Sources struct {
	read  func(name string) *source.File // nil: there are none
	left  int                            // bytes that may still be read
	chans map[string]map[string]string   // by folder: see File.chans
	files map[string]*File               // by the name in the profile; nil: there is none
}

func NewSources(read func(name string) *source.File) *Sources {
	return &Sources{read: read, left: source.MaxText, files: map[string]*File{}, chans: map[string]map[string]string{}}
}

// A File is a parsed file.
type File struct {
	text     *source.File
	Dir      string
	fset     *token.FileSet
	Funcs    []*Func           // outer ones before inner ones
	Channels map[string]string // of the folder's files: the types of elements of channels, by "type.field" or "var.name"
}

// A Func is a function or a function literal.
type Func struct {
	File     *File
	Decl     *ast.FuncDecl // the function, or the one around the literal; nil: a literal outside of functions
	Type     *ast.FuncType
	Body     *ast.BlockStmt
	from, To int // lines
	Outer    *Func
	Ops      []Op // calls that lock and unlock, sends and receives, without those of inner functions
	locals   map[string]string
}

// File returns the source file of a frame, nil if it cannot be read.
func (s *Sources) File(of *tachyon.Frame) *File {
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

func (s *Sources) parse(name string) *File {
	if !strings.HasSuffix(name, ".go") || s.left <= 0 || s.read == nil {
		return nil
	}
	text := s.read(name)
	if text == nil || len(text.Text) > s.left {
		return nil
	}
	s.left -= len(text.Text)
	f := &File{text: text, Dir: path.Dir(strings.ReplaceAll(name, `\`, "/")), fset: token.NewFileSet()}
	if f.Channels = s.chans[f.Dir]; f.Channels == nil {
		f.Channels = map[string]string{}
		s.chans[f.Dir] = f.Channels
	}
	tree, err := parser.ParseFile(f.fset, "", text.Text, parser.SkipObjectResolution)
	if tree == nil || err != nil {
		return nil
	}
	for _, d := range tree.Decls {
		decl, _ := d.(*ast.FuncDecl)
		f.add(d, decl)
		if d, ok := d.(*ast.GenDecl); ok {
			f.addChannels(d)
		}
	}
	return f
}

// addChannels notes the channels in declarations of types and variables.
func (f *File) addChannels(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			list, ok := spec.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, field := range list.Fields.List {
				if ch, ok := field.Type.(*ast.ChanType); ok {
					for _, n := range field.Names {
						f.Channels[spec.Name.Name+"."+n.Name] = typeText(ch.Value)
					}
				}
			}
		case *ast.ValueSpec:
			for i, n := range spec.Names {
				typ := spec.Type
				if i < len(spec.Values) && typ == nil {
					if made, ok := spec.Values[i].(*ast.CallExpr); ok && Text(made.Fun) == "make" && len(made.Args) > 0 {
						typ = made.Args[0]
					}
				}
				if ch, ok := typ.(*ast.ChanType); ok {
					f.Channels["var."+n.Name] = typeText(ch.Value)
				}
			}
		}
	}
}

// add adds the functions in a declaration.
func (f *File) add(d ast.Decl, decl *ast.FuncDecl) {
	var around []*Func
	cases := map[ast.Stmt]int{} // of selects: the line of the select
	signals := map[ast.Node]bool{}
	var visit func(ast.Node) bool
	visit = func(n ast.Node) bool {
		x := &Func{File: f, Decl: decl}
		if op, ok := f.channelOp(n); ok && len(around) > 0 {
			for s, line := range cases {
				if s.Pos() <= n.Pos() && n.End() <= s.End() {
					op.Selects = line
				}
			}
			in := around[len(around)-1]
			op.Signal = signals[n]
			in.Ops = append(in.Ops, op)
		}
		switch n := n.(type) {
		case *ast.ExprStmt:
			signals[n.X] = true
			return true
		case *ast.SelectStmt:
			clear(cases)
			for _, c := range n.Body.List {
				if c := c.(*ast.CommClause); c.Comm != nil {
					cases[c.Comm] = f.Line(n.Pos())
				}
			}
			return true
		case *ast.FuncDecl:
			x.Type, x.Body = n.Type, n.Body
		case *ast.FuncLit:
			x.Type, x.Body = n.Type, n.Body
		case *ast.CallExpr:
			if op, ok := f.op(n); ok && len(around) > 0 {
				in := around[len(around)-1]
				in.Ops = append(in.Ops, op)
			}
			return true
		default:
			return true
		}
		if x.Body == nil {
			return false
		}
		x.from, x.To = f.Line(n.Pos()), f.Line(n.End())
		if len(around) > 0 {
			x.Outer = around[len(around)-1]
		}
		f.Funcs = append(f.Funcs, x)
		around = append(around, x)
		for _, s := range x.Body.List {
			ast.Inspect(s, visit)
		}
		around = around[:len(around)-1]
		return false
	}
	ast.Inspect(d, visit)
}

// Line returns the line of a position in the file itself, without regard to //line comments: frames
// below such a comment name another file.
func (f *File) Line(p token.Pos) int { return f.fset.PositionFor(p, false).Line }

// At returns the innermost function that a line is in, nil if there is none.
func (f *File) At(line int) *Func {
	for _, x := range slices.Backward(f.Funcs) {
		if x.from <= line && line <= x.To {
			return x
		}
	}
	return nil
}

// Of returns the function that a frame is in, nil if there is none. A line may have a function
// literal too that is not in the frame's.
func (f *File) Of(frame *tachyon.Frame) *Func {
	x := f.At(int(frame.Line))
	if x == nil {
		return nil
	}
	depth := 0
	for outer := x.Outer; outer != nil; outer = outer.Outer {
		depth++
	}
	for in := literals(frame.Func); depth > in && x.Outer != nil; depth-- {
		x = x.Outer
	}
	return x
}

// Func is [File.Of] for a frame of any file, nil if that is not here.
func (s *Sources) Func(frame *tachyon.Frame) *Func {
	if file := s.File(frame); file != nil {
		return file.Of(frame)
	}
	return nil
}

// literals returns how many function literals a function is in, by its name, itself included: 2 for
// main.f.func1.2.
func literals(name string) int {
	name = name[strings.LastIndexByte(name, '/')+1:]
	i := strings.Index(name, ".func")
	if i < 0 || i+len(".func") == len(name) || name[i+len(".func")] < '1' || name[i+len(".func")] > '9' {
		return 0
	}
	return strings.Count(name[i:], ".")
}
