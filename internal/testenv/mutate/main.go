// Command mutate says how well the tests of a package notice faults in its code. It changes one
// place of the code at a time (a comparison, an operator, a number, a condition, a statement left
// out), runs the package's tests, and counts the changes that make a test fail. Places are taken at
// even distances, so two runs on the same code change the same places.
//
//	go run ./internal/testenv/mutate [-n 60] [-idle] PACKAGE...
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	most := flag.Int("n", 60, "how many places of a package to change")
	timeout := flag.String("timeout", "5m", "a change under which the tests take longer counts as noticed")
	idle := flag.Bool("idle", false, "run all tests for each change, and print those that no change made fail")
	flag.Parse()
	for _, pkg := range flag.Args() {
		if err := mutate(pkg, *most, *timeout, *idle); err != nil {
			fmt.Fprintln(os.Stderr, "mutate:", err)
			os.Exit(1)
		}
	}
}

func mutate(pkg string, most int, timeout string, idle bool) error {
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}\n{{range .GoFiles}}{{.}}\n{{end}}", pkg).Output()
	if err != nil {
		return fmt.Errorf("go list %s: %w", pkg, err)
	}
	lines := strings.Fields(string(out))
	var sites []site
	for _, name := range lines[1:] {
		more, err := sitesOf(filepath.Join(lines[0], name))
		if err != nil {
			return err
		}
		sites = append(sites, more...)
	}
	flags := []string{"-failfast"}
	if idle {
		flags = nil
	}
	noticed, survived, failed := 0, 0, map[string]bool{}
	for n := range min(most, len(sites)) {
		s := sites[n*len(sites)/min(most, len(sites))]
		verdict, tests, err := s.try(pkg, timeout, flags)
		for _, t := range tests {
			failed[t] = true
		}
		switch {
		case err != nil:
			return err
		case verdict == "noticed":
			noticed++
		case verdict == "survived":
			survived++
			fmt.Printf("survived: %s\n", s)
		}
	}
	fmt.Printf("%s: %d of %d noticed, %.0f %%\n", pkg, noticed, noticed+survived, 100*float64(noticed)/float64(noticed+survived))
	if !idle {
		return nil
	}
	out, err = exec.Command("go", "test", "-list", ".", pkg).Output()
	if err != nil {
		return fmt.Errorf("go test -list: %w", err)
	}
	for name := range strings.FieldsSeq(string(out)) {
		if (strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Example")) && !failed[name] {
			fmt.Printf("never failed: %s\n", name)
		}
	}
	return nil
}

// A site is a place of the code and a change there.
type site struct {
	file string
	line int
	what string
	set  *token.FileSet
	tree *ast.File
	do   func() (undo func())
}

func (s site) String() string { return fmt.Sprintf("%s:%d: %s", s.file, s.line, s.what) }

var swaps = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR, token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL, token.LAND: token.LOR, token.LOR: token.LAND,
	token.AND: token.OR, token.OR: token.AND, token.SHL: token.SHR, token.SHR: token.SHL,
}

func sitesOf(file string) (sites []site, err error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	add := func(at token.Pos, what string, do func() func()) {
		sites = append(sites, site{file, set.Position(at).Line, what, set, tree, do})
	}
	statements := func(list []ast.Stmt) {
		for i, s := range list {
			switch s := s.(type) {
			case *ast.ExprStmt, *ast.IncDecStmt, *ast.AssignStmt:
				if a, ok := s.(*ast.AssignStmt); ok && a.Tok == token.DEFINE {
					continue
				}
				add(s.Pos(), "statement left out", func() func() {
					list[i] = &ast.EmptyStmt{Semicolon: s.Pos(), Implicit: false}
					return func() { list[i] = s }
				})
			}
		}
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			return n.Tok != token.IMPORT && n.Tok != token.TYPE
		case *ast.BlockStmt:
			statements(n.List)
		case *ast.CaseClause:
			statements(n.Body)
		case *ast.BinaryExpr:
			if to, ok := swaps[n.Op]; ok {
				from := n.Op
				add(n.OpPos, fmt.Sprintf("%s instead of %s", to, from), func() func() { n.Op = to; return func() { n.Op = from } })
			}
		case *ast.IfStmt:
			cond := n.Cond
			add(n.Cond.Pos(), "condition negated", func() func() {
				n.Cond = &ast.UnaryExpr{Op: token.NOT, X: &ast.ParenExpr{X: cond}}
				return func() { n.Cond = cond }
			})
		case *ast.BasicLit:
			if n.Kind == token.INT {
				was := n.Value
				add(n.Pos(), "number one higher", func() func() { n.Value = "(" + was + "+1)"; return func() { n.Value = was } })
			}
		}
		return true
	})
	return sites, nil
}

var failure = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// try makes the change and runs the tests of the package. It returns those that failed. A change
// that does not compile is no change.
func (s site) try(pkg, timeout string, flags []string) (verdict string, failed []string, err error) {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return "", nil, err
	}
	defer os.RemoveAll(dir)
	var text bytes.Buffer
	undo := s.do()
	err = format.Node(&text, s.set, s.tree)
	undo()
	if err != nil {
		return "", nil, err
	}
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{s.file: changed}})
	if err != nil {
		return "", nil, err
	}
	if err := os.WriteFile(changed, text.Bytes(), 0o644); err != nil {
		return "", nil, err
	}
	if err := os.WriteFile(overlay, replace, 0o644); err != nil {
		return "", nil, err
	}
	if exec.Command("go", "build", "-overlay", overlay, pkg).Run() != nil {
		return "does not compile", nil, nil
	}
	test := exec.Command("go", append([]string{"test", "-vet=off", "-count=1", "-timeout", timeout, "-overlay", overlay, pkg}, flags...)...)
	out, err := test.CombinedOutput()
	for _, m := range failure.FindAllSubmatch(out, -1) {
		failed = append(failed, string(m[1]))
	}
	if err != nil {
		return "noticed", failed, nil
	}
	return "survived", nil, nil
}
