package profile

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// treeText returns nodes as text, a line for each way.
func treeText(list []*Node, indent string) (out string) {
	for _, n := range list {
		end, way := n.Way()
		var names []string
		for _, n := range way {
			names = append(names, n.Name)
		}
		out += fmt.Sprintf("%s%s %d/%d %d\n", indent, strings.Join(names, ">"), n.Total, end.Self, n.TotalCPU)
		if n.Series != nil {
			out = fmt.Sprintf("%s, parts %.3g\n", strings.TrimSuffix(out, "\n"), n.Series[:min(4, len(n.Series))])
		}
		out += treeText(end.Children, indent+" ")
	}
	return out
}

func TestTree(t *testing.T) {
	p := &Profile{Frames: []Frame{
		{Func: "main.main", File: "m.go", Line: 1}, {Func: "main.run", File: "m.go", Line: 2}, {Func: "main.a", File: "m.go", Line: 3},
		{Func: "main.b", File: "m.go", Line: 4}, {Func: "[sleep]"}, {Func: "main.a", File: "m.go", Line: 9}, {Func: "main.worker", File: "m.go", Line: 7},
	}, Records: []Record{
		{Goroutine: 1, Stack: []uint32{4, 2, 1, 0}, State: "sleep", Wall: 100},
		{Goroutine: 1, Stack: []uint32{5, 1, 0}, State: Running, Wall: 300, CPU: 300},
		{Goroutine: 1, Stack: []uint32{3, 1, 0}, State: Running, Wall: 200, CPU: 150},
		{Goroutine: 2, Stack: []uint32{2, 5, 2, 6}, State: Running, Wall: 1000, CPU: 20}, // recursive
		{Goroutine: 2, Stack: []uint32{3, 6}, State: Running, Wall: 4, CPU: 4},
	}}
	for _, c := range []struct {
		o       ReportOptions
		callers string
		want    string
	}{
		{ReportOptions{}, "", `
main.worker 1004/0 24
 main.a>main.a>main.a 1000/1000 20
 main.b 4/4 4
main.main>main.run 600/0 450
 main.a 400/300 300
  [sleep] 100/100 0
 main.b 200/200 150
`},
		{ReportOptions{Sort: SortCPU, Top: 4}, "", `
main.main>main.run 600/0 450
 main.a 400/300 300
 main.b 200/200 150
main.worker 1004/0 24
`},
		{ReportOptions{Top: 3}, "", `
main.worker>main.a>main.a>main.a 1004/1000 24
main.main>main.run 600/0 450
 main.a 400/300 300
`},
		{ReportOptions{}, "^main.a$", `
main.a 1400/0 320
 main.a>main.a>main.worker 1000/1000 20
 main.run>main.main 400/400 300
`},
		{ReportOptions{Focus: regexp.MustCompile("sleep")}, "sleep", `
[sleep]>main.a>main.run>main.main 100/100 0
`},
	} {
		var tree *Tree
		var err error
		if c.callers == "" {
			tree, err = NewTree(p, c.o)
		} else {
			tree, err = NewCallers(p, c.o, regexp.MustCompile(c.callers))
		}
		testenv.OK(t, err)
		testenv.Same(t, fmt.Sprintf("%+v %s", c.o, c.callers), "\n"+treeText(tree.Nodes, ""), c.want)
		testenv.Same(t, fmt.Sprint("nodes are cut with top ", c.o.Top), tree.NodesCut > 0, c.o.Top > 0)
		if c.o.Top == 0 && c.callers == "" && tree.Nodes[0].Children[0].Line != 3 {
			t.Errorf("the line of main.a is %d", tree.Nodes[0].Children[0].Line)
		}
	}
}
