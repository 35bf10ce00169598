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

// times is a row without its place.
type times struct {
	Name                       string
	Self, Total, SelfCPU, TCPU time.Duration
}

func rows(t *testing.T, p *Profile, o ReportOptions) (list []times) {
	r := testenv.Must(New(p, o))
	for _, row := range r.Rows {
		list = append(list, times{row.Name, row.Self, row.Total, row.SelfCPU, row.TotalCPU})
	}
	return list
}

func TestReport(t *testing.T) {
	p := &Profile{
		Goroutines: 2, Samples: 3,
		Frames: []Frame{
			0: {Func: "[sleep]"},
			1: {Func: "time.Sleep", File: "/go/src/time/sleep.go", Line: 300},
			2: {Func: "main.nap", File: "/x/nap.go", Line: 5},
			3: {Func: "main.fib", File: "/x/fib.go", Line: 9},
			4: {Func: "main.fib", File: "/x/fib.go", Line: 8},
			5: {Func: "main.main", File: "/x/main.go", Line: 3},
			6: {Func: "runtime.main", File: "/go/src/runtime/proc.go", Line: 283},
			7: {Func: "main.fib.func1", File: "/x/fib.go", Line: 8},
		},
		Records: []Record{
			{Goroutine: 1, State: "sleep", Stack: []uint32{0, 1, 2}, Wall: 40},
			{Goroutine: 2, State: "running", Stack: []uint32{3, 4, 3, 5, 6}, Wall: 30, CPU: 30},
			{Goroutine: 2, State: "running", Stack: []uint32{7, 4, 5, 6}, Wall: 20, CPU: 20},
			{Goroutine: 2, Wall: 10},
		},
	}
	for _, c := range []struct {
		name string
		o    ReportOptions
		want []times
	}{
		{"function", ReportOptions{}, []times{
			{"[sleep]", 40, 40, 0, 0}, {"main.fib", 30, 50, 30, 50}, {"main.fib.func1", 20, 20, 20, 20}, {"[no stack]", 10, 10, 0, 0},
			{"main.main", 0, 50, 0, 50}, {"runtime.main", 0, 50, 0, 50}, {"main.nap", 0, 40, 0, 0}, {"time.Sleep", 0, 40, 0, 0},
		}},
		{"line, a function and its literal on one", ReportOptions{By: ByLine, Focus: regexp.MustCompile("fib.go"), Top: 2}, []times{
			{"main.fib", 30, 30, 30, 30}, {"main.fib", 20, 50, 20, 50},
		}},
		{"file", ReportOptions{By: ByFile, Sort: SortTotal, Top: 3}, []times{
			{"/x/fib.go", 50, 50, 50, 50}, {"/go/src/runtime/proc.go", 0, 50, 0, 50}, {"/x/main.go", 0, 50, 0, 50},
		}},
		{"a wait is in the package that waits", ReportOptions{By: ByPackage}, []times{
			{"main", 50, 90, 50, 50}, {"time", 40, 40, 0, 0}, {"[no stack]", 10, 10, 0, 0}, {"runtime", 0, 50, 0, 50},
		}},
		{"goroutine", ReportOptions{By: ByGoroutine}, []times{
			{"goroutine 2 main.main", 60, 60, 50, 50}, {"goroutine 1 main.nap", 40, 40, 0, 0},
		}},
		{"state", ReportOptions{By: ByState}, []times{
			{"running", 50, 50, 50, 50}, {"sleep", 40, 40, 0, 0}, {"unknown", 10, 10, 0, 0},
		}},
		{"ignore", ReportOptions{Ignore: regexp.MustCompile(`func1|^time\.`), Top: 1}, []times{{"main.fib", 30, 30, 30, 30}}},
		{"focus and ignore", ReportOptions{By: ByState, Focus: regexp.MustCompile("main"), Ignore: regexp.MustCompile("fib")}, []times{{"sleep", 40, 40, 0, 0}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			testenv.NoDiff(t, "", cmp.Diff(c.want, rows(t, p, c.o)))
		})
	}
	r := testenv.Must(New(p, ReportOptions{Focus: regexp.MustCompile("fib"), Top: 1}))
	row := r.Rows[0]
	testenv.Same(t, "report and row", fmt.Sprint(r.Total, r.Shown, r.Left, row.Line, row.FirstLine, row.LastLine, row.File), "100ns 50ns 3 9 8 9/x/fib.go")
	for _, o := range []ReportOptions{{By: "colour"}, {Sort: "size"}} {
		testenv.Fails(t, fmt.Sprintf("%+v", o), testenv.Err(New(p, o)), "no ")
	}
}

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
