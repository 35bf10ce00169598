package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"path/filepath"
	"strconv"
	"strings"
)

// writeAll writes a layout as it is.
func (l *layout) writeAll(b *bytes.Buffer) {
	fmt.Fprintf(b, "// Read from %s.\nvar first = Layout{\nOffsets: Offsets{\n", l.toolchain)
	for i, f := range fields {
		fmt.Fprintf(b, "%s: %d,\n", f.name, l.offsets[i])
	}
	b.WriteString("},\nReasons: []string{\n")
	for _, r := range l.reasons {
		fmt.Fprintf(b, "%q,\n", r)
	}
	fmt.Fprintf(b, "},\nDurable: %#x,\nSystem: %#x,\nSemaphores: %v,\n}\n\nfunc init() {\nl := &first\nLayouts[%q] = l\n", l.durable, l.system, l.semaphores, l.version)
}

// writeChanges writes what differs from another layout.
func (l *layout) writeChanges(b *bytes.Buffer, from *layout) {
	fmt.Fprintf(b, "\n// Read from %s.\nl = l.Clone()\n", l.toolchain)
	for i, f := range fields {
		if l.offsets[i] != from.offsets[i] {
			fmt.Fprintf(b, "l.%s = %d\n", f.name, l.offsets[i])
		}
	}
	l.writeReasons(b, from)
	if l.durable != from.durable {
		fmt.Fprintf(b, "l.Durable = %#x\n", l.durable)
	}
	if l.system != from.system {
		fmt.Fprintf(b, "l.System = %#x\n", l.system)
	}
	if l.semaphores != from.semaphores {
		fmt.Fprintf(b, "l.Semaphores = %v\n", l.semaphores)
	}
	fmt.Fprintf(b, "Layouts[%q] = l\n", l.version)
}

// writeReasons writes what makes the wait reasons of another layout those of this one.
func (l *layout) writeReasons(b *bytes.Buffer, from *layout) {
	gone, runs := edits(from.reasons, l.reasons)
	if len(gone) > 0 {
		fmt.Fprintf(b, "l.Drop(%s)\n", quoted(gone))
	}
	for _, r := range runs {
		fmt.Fprintf(b, "l.Insert(%s)\n", quoted(r))
	}
}

// writeOlder writes the table of versions that are only read from outside, after the first one: a
// row for each field of which one differs.
func writeOlder(b *bytes.Buffer, list []*layout) {
	first, list := list[0], list[1:]
	var versions, toolchains []string
	for _, l := range list {
		versions, toolchains = append(versions, l.version), append(toolchains, l.toolchain)
	}
	fmt.Fprintf(b, "package attach\n\nimport \"github.com/gotach/profiler/internal/goruntime\"\n\n"+
		"// older has the layouts of versions before those that the native source knows, of the fields that this package reads. A field that a version does\n"+
		"// not have is 0. Read from %s.\nvar older = map[string]*goruntime.Layout{}\n\n"+
		"func init() {\nl := goruntime.Layouts[%q]\nfor i, version := range []string{%s} {\nl = l.Clone()\n", strings.Join(toolchains, ", "), first.version, quoted(versions))
	row := func(name, format, typ string, of func(l *layout) any) {
		var values []string
		differs := false
		for _, l := range list {
			values = append(values, fmt.Sprintf(format, of(l)))
			differs = differs || of(l) != of(first)
		}
		if differs {
			fmt.Fprintf(b, "l.%s = [...]%s{%s}[i]\n", name, typ, strings.Join(values, ", "))
		}
	}
	used := usedFields()
	for i, f := range fields {
		if used[f.name] {
			row(f.name, "%d", "uintptr", func(l *layout) any { return max(0, l.offsets[i]) })
		}
	}
	row("System", "%#x", "uint64", func(l *layout) any { return l.system })
	row("Semaphores", "%v", "bool", func(l *layout) any { return l.semaphores })
	b.WriteString("switch version {\n")
	for from, l := first, list; len(l) > 0; from, l = l[0], l[1:] {
		var edits bytes.Buffer
		if l[0].writeReasons(&edits, from); edits.Len() > 0 {
			fmt.Fprintf(b, "case %q:\n%s", l[0].version, edits.Bytes())
		}
	}
	b.WriteString("}\nolder[version] = l\n}\n}\n")
}

// usedFields returns the names of fields that the package in this folder reads.
func usedFields() map[string]bool {
	paths, err := filepath.Glob("*.go")
	if err != nil {
		log.Fatalf("gen: %v", err)
	}
	used := map[string]bool{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "_gen.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			log.Fatalf("gen: %v", err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				used[s.Sel.Name] = true
			}
			return true
		})
	}
	return used
}

// edits returns what makes one list of another: what goes, and then what comes. Each run of what
// comes begins with what is before it. What is in both is in both once. The longest common part
// stays.
func edits(from, to []string) (gone []string, runs [][]string) {
	common := make([][]int, len(from)+1) // the length of the common part of what is from here on
	for i := range common {
		common[i] = make([]int, len(to)+1)
	}
	for i := len(from) - 1; i >= 0; i-- {
		for j := len(to) - 1; j >= 0; j-- {
			if from[i] == to[j] {
				common[i][j] = 1 + common[i+1][j+1]
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	adding := false
	for i, j := 0, 0; i < len(from) || j < len(to); {
		switch {
		case i < len(from) && j < len(to) && from[i] == to[j]:
			i, j, adding = i+1, j+1, false
		case i < len(from) && (j == len(to) || common[i+1][j] >= common[i][j+1]):
			gone = append(gone, from[i])
			i++
		default:
			if !adding {
				runs = append(runs, []string{to[j-1]}) // the first one, "", is in all
			}
			adding = true
			runs[len(runs)-1] = append(runs[len(runs)-1], to[j])
			j++
		}
	}
	return gone, runs
}

func quoted(list []string) string {
	var q []string
	for _, s := range list {
		q = append(q, strconv.Quote(s))
	}
	return strings.Join(q, ", ")
}
