package main

import (
	"fmt"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/gotach/profiler/internal/profile"
)

// functions returns the expression for the functions that a text names: those with this name, or
// with this name in any package, else those that match it as a regular expression.
func functions(p *profile.Profile, text string) (*regexp.Regexp, error) {
	exact, err := compile("callers", `(^|[/.])`+regexp.QuoteMeta(text)+`$`)
	if err != nil {
		return nil, err
	}
	for i := range p.Frames {
		if exact.MatchString(profile.FuncName(p.Frames[i].Func)) {
			return exact, nil
		}
	}
	re, err := compile("callers", text)
	if err != nil {
		return nil, err
	}
	for i := range p.Frames {
		if re.MatchString(profile.FuncName(p.Frames[i].Func)) {
			return re, nil
		}
	}
	return nil, usagef("report: --callers %q: no function in the profile matches", text)
}

// A treeTable prints a tree of calls as text:
//
//	TOTAL             SELF      CPU  CALLS
//	12.5s  31.2 %        0     8.2s  main.main → main.run  main.go:41
//	8.00s  20.0 %    8.00s    8.00s  ├ main.hash  hash.go:7
//	4.50s  11.2 %        0        0  └ time.Sleep → [sleep]  time.go:300
type treeTable struct {
	*reportTable
	tree    *profile.Tree
	callers bool
}

func (t *treeTable) render() []byte {
	t.header()
	t.b.WriteByte('\n')
	if len(t.tree.Nodes) == 0 {
		t.empty()
		return t.b.Bytes()
	}
	what := "CALLS, FROM THE OUTERMOST FUNCTION DOWN"
	if t.callers {
		what = "FUNCTION, AND BELOW IT WHAT CALLS IT"
	}
	head := fmt.Sprintf("%7s %7s  ", "TOTAL", "")
	if !t.callers {
		head += fmt.Sprintf("%7s  ", "SELF")
	}
	head += t.lastHeads()
	t.line(t.paint.bold(head + what))
	t.nodes(t.tree.Nodes, utf8.RuneCountInString(head), "", "")
	if t.tree.NodesCut > 0 {
		t.line(t.paint.dim(fmt.Sprintf("%d more; --top 0 shows all", t.tree.NodesCut)))
	}
	return t.b.Bytes()
}

// nodes prints nodes and what is below them. The lines of a tree come before their names.
func (t *treeTable) nodes(list []*profile.Node, columns int, before, below string) {
	for i, n := range list {
		branch, next := "", ""
		if before != "" {
			branch, next = below+"├ ", below+"│ "
			if i == len(list)-1 {
				branch, next = below+"└ ", below+"  "
			}
		}
		end, way := n.Way()
		printf(&t.b, "%7s %s  ", t.amount(n.Total), t.share(n.Total))
		if !t.callers {
			printf(&t.b, "%7s  ", t.amount(end.Self))
		}
		t.lastCells(n.Total, n.TotalCPU, n.Series)
		room := max(minName, t.width-columns-utf8.RuneCountInString(branch))
		printf(&t.b, "%s%s\n", t.paint.dim(branch), t.way(way, room))
		t.nodes(end.Children, columns, "x", next)
	}
}

// way returns the functions on a way in at most room columns, as many as there is room for, and the
// place of the last one that is the program's own.
func (t *treeTable) way(way []*profile.Node, room int) string {
	at := ""
	own := make([]bool, len(way))
	for i, n := range way {
		own[i] = !profile.IsStandard(&profile.Frame{Func: n.Name, File: n.File})
		if own[i] || n.File != "" && !slices.Contains(own[:i], true) {
			at = fileLine(n.File, n.Line)
		}
	}
	left := room
	if at != "" {
		left -= utf8.RuneCountInString(at) + 2
		at = "  " + t.paint.dim(at)
	}
	last := len(way) - 1
	// Without the standard library between the first and the last one; without the first ones.
	for drop := -1; drop < last; drop++ {
		text, gap := "", false
		for i, n := range way {
			if i < last && (i < drop || drop >= 0 && i > 0 && !own[i]) {
				gap = true
				continue
			}
			if text != "" {
				text += " → "
			}
			if gap {
				text += "… → "
			}
			text, gap = text+n.Name, false
		}
		if utf8.RuneCountInString(text) <= left {
			return text + at
		}
	}
	// What matters most is the program's own function.
	i := last
	for k := range way {
		if own[k] {
			i = k
		}
	}
	before, after := "", ""
	if i > 0 {
		before = "… → "
	}
	if i < last {
		after = " → …"
	}
	left -= utf8.RuneCountInString(before + after)
	return before + shorten(way[i].Name, max(minName/2, left)) + after + at
}
