package deadlock

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"
)

// others are the wait reasons that do not make a deadlock: something besides another goroutine of
// the program ends the wait, or it is a wait of the runtime's own goroutines.
var others = []string{
	"", // no reason
	"IO wait", "sleep", "panicwait", "preempted", "debug call",
	"synctest.Run", "synctest.Wait", // there are no sessions in a bubble
	"chan receive (durable)", "chan send (durable)", "select (durable)", "sync.WaitGroup.Wait (durable)",
	"GC assist marking", "GC assist wait", "GC mark termination", "GC scavenge wait", "GC sweep wait",
	"GC weak to strong wait", "GC worker (active)", "GC worker (idle)", "GOMAXPROCS updater (idle)",
	"dumping heap", "flushing proc caches", "force gc (idle)", "garbage collection", "garbage collection scan",
	"page trace flush", "stopping the world", "wait for GC cycle",
	"trace goroutine status", "trace proc status", "trace reader (blocked)",
}

// TestReasons judges every wait reason of every Go version in the native source's table. A new
// reason must be put either into stuck or into others.
func TestReasons(t *testing.T) {
	versions := reasons(t, "../native/layout_gen.go")
	if len(versions) < 3 {
		t.Fatalf("found the reasons of %d versions", len(versions))
	}
	for version, list := range versions {
		for _, reason := range list {
			if Stuck(reason) == slices.Contains(others, reason) {
				t.Errorf("%s: the reason %q is stuck: %v, and it is among the others: %v", version, reason, Stuck(reason), slices.Contains(others, reason))
			}
		}
		for reason := range stuck {
			if !slices.Contains(list, reason) {
				t.Errorf("%s has no reason %q", version, reason)
			}
		}
	}
}

// reasons reads the wait reasons by Go version from the source of the generated table.
func reasons(t *testing.T, file string) map[string][]string {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	version := ""
	ast.Inspect(f, func(n ast.Node) bool {
		kv, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		switch key := kv.Key.(type) {
		case *ast.BasicLit: // of layouts
			version, _ = strconv.Unquote(key.Value)
		case *ast.Ident:
			if key.Name != "reasons" {
				return true
			}
			for _, element := range kv.Value.(*ast.CompositeLit).Elts {
				if indexed, ok := element.(*ast.KeyValueExpr); ok {
					element = indexed.Value
				}
				reason, err := strconv.Unquote(element.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				all[version] = append(all[version], reason)
			}
			return false
		}
		return true
	})
	return all
}
