package syntax

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// LooseKeys returns the keys that all channels have of which a field has the same name, and those
// whose elements have the same type.
func (x *Func) LooseKeys(op Op) (keys []Key) {
	k := x.Key(op.On)
	if k == (Key{}) {
		return nil
	}
	if _, ok := op.On.(*ast.SelectorExpr); ok {
		keys = append(keys, Key{Dir: k.Dir, Root: RootField, Path: k.Field()})
	}
	elem := x.File.Channels[k.Root+"."+k.Path]
	if strings.HasPrefix(k.Root, "func ") {
		elem = x.element(k.Path)
	}
	if elem != "" && elem != "struct{}" {
		keys = append(keys, Key{Dir: k.Dir, Root: rootElements, Path: elem})
	}
	return keys
}

// ChannelKeys returns the key of an operation's channel. If that is a variable of the function,
// such as a parameter, the second one is that of all such variables with its name and type.
func (x *Func) ChannelKeys(op Op) (keys []Key) {
	k := x.Key(op.On)
	if k == (Key{}) {
		return nil
	}
	keys = append(keys, k)
	if strings.HasPrefix(k.Root, "func ") {
		if elem := x.element(k.Path); elem != "" {
			keys = append(keys, Key{Dir: k.Dir, Root: RootElement, Path: elem + " " + k.Path})
		}
	}
	return keys
}

// Roots of keys that many channels may have.
const (
	RootElement  = "chan"     // of variables: path is the type of the elements and the name
	rootElements = "elements" // path is the type of the elements
	RootField    = "field"    // path is the name
)

// element returns the type of the elements of a variable that is a channel, "" if the text does not
// say it.
func (x *Func) element(name string) string {
	for ; x != nil; x = x.Outer {
		var typ ast.Expr
		if x.Type.Params != nil {
			for _, f := range x.Type.Params.List {
				if slices.ContainsFunc(f.Names, func(n *ast.Ident) bool { return n.Name == name }) {
					typ = f.Type
				}
			}
		}
		ast.Inspect(x.Body, func(n ast.Node) bool {
			if a, ok := n.(*ast.AssignStmt); ok && a.Tok == token.DEFINE && len(a.Lhs) == len(a.Rhs) {
				for i, to := range a.Lhs {
					id, named := to.(*ast.Ident)
					if made, ok := a.Rhs[i].(*ast.CallExpr); ok && named && id.Name == name && Text(made.Fun) == "make" && len(made.Args) > 0 {
						typ = made.Args[0]
					}
				}
			}
			_, inner := n.(*ast.FuncLit)
			return !inner && typ == nil
		})
		if ch, ok := typ.(*ast.ChanType); ok {
			return typeText(ch.Value)
		} else if typ != nil {
			return ""
		}
	}
	return ""
}
