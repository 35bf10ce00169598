package analyze

import (
	"go/ast"
	"go/token"
	"strings"
)

// A lockOp is a call of a lock's method in source text.
type lockOp struct {
	line int
	call *ast.CallExpr
	on   ast.Expr // the lock
	does lockDoes
}

type lockDoes uint8

const (
	doesNothing lockDoes = iota
	doesLock
	doesRLock
	doesUnlock
	doesRUnlock
)

var lockMethods = map[string]lockDoes{"Lock": doesLock, "RLock": doesRLock, "Unlock": doesUnlock, "RUnlock": doesRUnlock}

// takes reports whether an operation takes a lock.
func (d lockDoes) takes() bool { return d == doesLock || d == doesRLock }

// op returns what a call does to a lock.
func (f *sourceFile) op(call *ast.CallExpr) (lockOp, bool) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) > 0 {
		return lockOp{}, false
	}
	does := lockMethods[method.Sel.Name]
	return lockOp{line: f.line(method.Sel.Pos()), call: call, on: method.X, does: does}, does != doesNothing
}

// A lockKey says which variable or field a lock is in, as far as the text of one function tells.
type lockKey struct {
	dir  string // of the file
	root string // a type, or "var" for a variable of the package, or "func F" for a variable of F
	path string // the variable's name unless root is a type, and fields
}

// field returns the last name of a key's path.
func (k lockKey) field() string { return k.path[strings.LastIndexByte(k.path, '.')+1:] }

// key returns the key of a lock that a function uses. It is zero if the expression is not simple.
func (x *sourceFunc) key(e ast.Expr) lockKey {
	root, fields := split(e)
	if root == "" {
		return lockKey{}
	}
	k := lockKey{dir: x.file.dir, root: "var", path: join(root, fields)}
	if typ, local := x.local(root); typ != "" {
		k.root, k.path = typ, fields
	} else if local && x.decl != nil {
		k.root = "func " + x.decl.Name.Name
	}
	return k
}

func join(root, fields string) string {
	if fields == "" {
		return root
	}
	return root + "." + fields
}

// split returns the variable that an expression begins with, and the fields after it. Indices are left
// out: all elements have one key.
func split(e ast.Expr) (root, fields string) {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name, ""
	case *ast.ParenExpr:
		return split(e.X)
	case *ast.StarExpr:
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

// local returns whether a name is a variable of the function or of one around it, and the name of its
// type if the text says it.
func (x *sourceFunc) local(name string) (typ string, ok bool) {
	for ; x != nil; x = x.outer {
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
func (x *sourceFunc) variables() map[string]string {
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
	if x.outer == nil && x.decl != nil {
		list(x.decl.Recv)
	}
	list(x.typ.Params)
	list(x.typ.Results)
	ast.Inspect(x.body, func(n ast.Node) bool {
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
