package profile

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
)

// A wait is charged to the innermost line of the program's own code, or of what is asked for.
func TestBlocked(t *testing.T) {
	p := &Profile{Frames: []Frame{
		{Func: "[sync.Mutex.Lock]"},
		{Func: "sync.(*Mutex).Lock", File: "/usr/lib/go/src/sync/mutex.go", Line: 46},
		{Func: "github.com/x/pool.(*Pool).Get", File: "/root/go/pkg/mod/github.com/x/pool@v1.2.3/pool.go", Line: 7},
		{Func: "main.query", File: "/src/app/main.go", Line: 12},
		{Func: "main.query", File: "/src/app/main.go", Line: 15},
		{Func: "main.main", File: "/src/app/main.go", Line: 3},
		{Func: "app/vendor/x.F", File: "/src/app/vendor/x/f.go", Line: 4},
	}, Records: []Record{
		{Goroutine: 1, State: "sync.Mutex.Lock", Stack: []uint32{0, 1, 2, 3, 5}, Wall: 5},
		{Goroutine: 2, State: "sync.Mutex.Lock", Stack: []uint32{0, 1, 4, 5}, Wall: 4},
		{Goroutine: 2, State: "sync.Mutex.Lock", Stack: []uint32{0, 1, 6}, Wall: 3},
		{Goroutine: 2, State: Syscall, Stack: []uint32{1}, Wall: 2},
		{Goroutine: 3, State: "IO wait", Wall: 1},
		{Goroutine: 3, State: Running, Stack: []uint32{3}, Wall: 100, CPU: 100},
		{Goroutine: 3, State: Runnable, Stack: []uint32{3}, Wall: 100},
		{State: NotSeen, Wall: 100},
	}}
	for _, c := range []struct {
		own  string
		want []string
	}{
		{"", []string{"[sync.Mutex.Lock] main.query 12", "[sync.Mutex.Lock] main.query 15", "[sync.Mutex.Lock] app/vendor/x.F 4", "[syscall] sync.(*Mutex).Lock 46", "[IO wait] 0"}},
		{"pool", []string{"[sync.Mutex.Lock] github.com/x/pool.(*Pool).Get 7", "[sync.Mutex.Lock] main.query 15", "[sync.Mutex.Lock] app/vendor/x.F 4", "[syscall] sync.(*Mutex).Lock 46", "[IO wait] 0"}},
	} {
		o := ReportOptions{By: ByBlocked}
		if c.own != "" {
			o.Own = regexp.MustCompile(c.own)
		}
		r := testenv.Must(New(p, o))
		var got []string
		for i, row := range r.Rows {
			got = append(got, fmt.Sprint(row.Name, " ", row.Line))
			testenv.Same(t, row.Name, row.Self, time.Duration(5-i))
		}
		testenv.NoDiff(t, c.own, cmp.Diff(c.want, got))
	}
}

// treeText returns nodes as text, a line for each way.
func treeText(list []*Node, indent string) (out string) {
	for _, n := range list {
		end, way := n.Way()
		var names []string
		for _, n := range way {
			names = append(names, n.Name)
		}
		out += fmt.Sprintf("%s%s:%d %d/%d %d\n", indent, strings.Join(names, ">"), end.Line, n.Total, end.Self, n.TotalCPU)
		if n.Series != nil {
			out = fmt.Sprintf("%s, parts %.3g\n", strings.TrimSuffix(out, "\n"), n.Series[:min(4, len(n.Series))])
		}
		out += treeText(end.Children, indent+" ")
	}
	return out
}
