package analyze

import (
	"go/ast"
	"go/token"
	"strings"
)

// A lockOp is a call of a lock's method in source text, or a send or receive.
type lockOp struct {
	line    int
	selects int      // line of the select of which it is a case, 0: none
	on      ast.Expr // the lock or channel
	does    lockDoes
}

type lockDoes uint8

const (
	doesNothing lockDoes = iota
	doesLock
	doesRLock
	doesUnlock
	doesRUnlock
	doesSend
	doesReceive // range too, of whatever
	sends       // of a lockKey: it is of functions that send to the channel, not of a place in it
	receives
)

var lockMethods = map[string]lockDoes{"Lock": doesLock, "RLock": doesRLock, "Unlock": doesUnlock, "RUnlock": doesRUnlock}

// isChannel reports whether it is an operation on a channel.
func (d lockDoes) isChannel() bool { return d == doesSend || d == doesReceive }

// opposite returns the operation on a channel that lets another one go on.
func (d lockDoes) opposite() lockDoes {
	if d == doesSend {
		return doesReceive
	}
	return doesSend
}

// side returns what the keys have of functions that do it.
func (d lockDoes) side() lockDoes { return d - doesSend + sends }

// takes reports whether an operation takes a lock.
func (d lockDoes) takes() bool { return d == doesLock || d == doesRLock }

// op returns what a call does to a lock.
func (f *sourceFile) op(call *ast.CallExpr) (lockOp, bool) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) > 0 {
		return lockOp{}, false
	}
	does := lockMethods[method.Sel.Name]
	return lockOp{line: f.line(method.Sel.Pos()), on: method.X, does: does}, does != doesNothing
}

// channelOp returns the operation on a channel that a node is.
func (f *sourceFile) channelOp(n ast.Node) (lockOp, bool) {
	switch n := n.(type) {
	case *ast.SendStmt:
		return lockOp{line: f.line(n.Pos()), on: n.Chan, does: doesSend}, true
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			return lockOp{line: f.line(n.Pos()), on: n.X, does: doesReceive}, true
		}
	case *ast.RangeStmt:
		return lockOp{line: f.line(n.Pos()), on: n.X, does: doesReceive}, true
	}
	return lockOp{}, false
}

// A lockKey says which variable or field a lock is in, as far as the text of one function tells.
type lockKey struct {
	dir  string   // of the file
	root string   // a type, or "var" for a variable of the package, or "func F" for a variable of F
	path string   // the variable's name unless root is a type, and fields
	op   lockDoes // of a channel: what takes a place in it, as if it were a lock; or sends or receives
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
