package syntax

import (
	"go/ast"
	"go/token"
	"strings"
)

// A Op is a call of a lock's method in source text, or a send or receive.
type Op struct {
	Line    int
	Selects int      // line of the select of which it is a case, 0: none
	On      ast.Expr // the lock or channel
	Does    Verb
	Signal  bool // of a receive: what it receives is not used
}

type Verb uint8

const (
	DoesNothing Verb = iota
	doesLock
	doesRLock
	doesUnlock
	doesRUnlock
	DoesSend
	DoesReceive // range too, of whatever
	sends       // of a Key: it is of functions that send to the channel, not of a place in it
	receives
)

var lockMethods = map[string]Verb{"Lock": doesLock, "RLock": doesRLock, "Unlock": doesUnlock, "RUnlock": doesRUnlock}

// IsChannel reports whether it is an operation on a channel.
func (d Verb) IsChannel() bool { return d == DoesSend || d == DoesReceive }

// Opposite returns the operation on a channel that lets another one go on.
func (d Verb) Opposite() Verb {
	if d == DoesSend {
		return DoesReceive
	}
	return DoesSend
}

// Side returns what the keys have of functions that do it.
func (d Verb) Side() Verb { return d - DoesSend + sends }

// Takes reports whether an operation takes a lock.
func (d Verb) Takes() bool { return d == doesLock || d == doesRLock }

// op returns what a call does to a lock.
func (f *File) op(call *ast.CallExpr) (Op, bool) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) > 0 {
		return Op{}, false
	}
	does := lockMethods[method.Sel.Name]
	return Op{Line: f.Line(method.Sel.Pos()), On: method.X, Does: does}, does != DoesNothing
}

// channelOp returns the operation on a channel that a node is.
func (f *File) channelOp(n ast.Node) (Op, bool) {
	switch n := n.(type) {
	case *ast.SendStmt:
		return Op{Line: f.Line(n.Pos()), On: n.Chan, Does: DoesSend}, true
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			return Op{Line: f.Line(n.Pos()), On: n.X, Does: DoesReceive}, true
		}
	case *ast.RangeStmt:
		return Op{Line: f.Line(n.Pos()), On: n.X, Does: DoesReceive}, true
	}
	return Op{}, false
}

// A Key says which variable or field a lock is in, as far as the text of one function tells.
type Key struct {
	Dir  string // of the file
	Root string // a type, or "var" for a variable of the package, or "func F" for a variable of F
	Path string // the variable's name unless root is a type, and fields
	Op   Verb   // of a channel: what takes a place in it, as if it were a lock; or sends or receives
}

// Field returns the last name of a key's path.
func (k Key) Field() string { return k.Path[strings.LastIndexByte(k.Path, '.')+1:] }

// Key returns the key of a lock that a function uses. It is zero if the expression is not simple.
func (x *Func) Key(e ast.Expr) Key {
	root, fields := split(e)
	if root == "" {
		return Key{}
	}
	k := Key{Dir: x.File.Dir, Root: "var", Path: join(root, fields)}
	if typ, local := x.local(root); typ != "" {
		k.Root, k.Path = typ, fields
	} else if local && x.Decl != nil {
		k.Root = "func " + x.Decl.Name.Name
	}
	return k
}

func join(root, fields string) string {
	if fields == "" {
		return root
	}
	return root + "." + fields
}

// split returns the variable that an expression begins with, and the fields after it. Indices are
// left out: all elements have one key.
func split(e ast.Expr) (root, fields string) {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name, ""
	case *ast.ParenExpr:
		return split(e.X)
	case *ast.StarExpr:
		return split(e.X)
	case *ast.TypeAssertExpr: // as of what a sync.Map has
		return split(e.X)
	case *ast.UnaryExpr:
		if e.Op == token.AND {
			return split(e.X)
		}
	case *ast.IndexExpr:
		return split(e.X)
	case *ast.CallExpr:
		return split(e.Fun)
	case *ast.SelectorExpr:
		if root, fields = split(e.X); root == "" {
			return "", ""
		}
		if fields == "" {
			return root, e.Sel.Name
		}
		return root, fields + "." + e.Sel.Name
	}
	return "", ""
}

// local returns whether a name is a variable of the function or of one around it, and the name of
// its type if the text says it.
func (x *Func) local(name string) (typ string, ok bool) {
	for ; x != nil; x = x.Outer {
		if x.locals == nil {
			x.locals = x.variables()
		}
		if typ, ok = x.locals[name]; ok {
			return typ, true
		}
	}
	return "", false
}

// variables returns the names of a function's variables, with their types as far as the text says
// them.
func (x *Func) variables() map[string]string {
	out := map[string]string{}
	list := func(fields *ast.FieldList) {
		if fields == nil {
			return
		}
		for _, f := range fields.List {
			for _, n := range f.Names {
				out[n.Name] = typeName(f.Type)
			}
		}
	}
	if x.Outer == nil && x.Decl != nil {
		list(x.Decl.Recv)
	}
	list(x.Type.Params)
	list(x.Type.Results)
	ast.Inspect(x.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				break
			}
			for i, to := range n.Lhs {
				if id, ok := to.(*ast.Ident); ok && out[id.Name] == "" {
					out[id.Name] = ""
					if len(n.Rhs) == len(n.Lhs) {
						out[id.Name] = valueType(n.Rhs[i])
					}
				}
			}
		case *ast.RangeStmt:
			for _, e := range []ast.Expr{n.Key, n.Value} {
				if id, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE && out[id.Name] == "" {
					out[id.Name] = ""
				}
			}
		case *ast.ValueSpec:
			for _, id := range n.Names {
				if out[id.Name] == "" {
					out[id.Name] = typeName(n.Type)
				}
			}
		}
		return true
	})
	return out
}

// typeName returns the name of a type of the package, "" for other types.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.ParenExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.IndexListExpr:
		return typeName(e.X)
	}
	return ""
}

// valueType returns the type of &T{}, T{} and new(T).
func valueType(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.UnaryExpr:
		if e.Op == token.AND {
			return valueType(e.X)
		}
	case *ast.CompositeLit:
		return typeName(e.Type)
	case *ast.CallExpr:
		if f, ok := e.Fun.(*ast.Ident); ok && f.Name == "new" && len(e.Args) == 1 {
			return typeName(e.Args[0])
		}
	}
	return ""
}
