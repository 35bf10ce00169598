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
	versions := reasons(t, "../goruntime/layout_gen.go")
	if len(versions) < 3 {
		t.Fatalf("found the reasons of %d versions", len(versions))
	}
	for i, list := range versions {
		for _, reason := range list {
			if other := slices.Contains(others, reason); Stuck(reason) == other {
				t.Errorf("the reason %q is stuck: %v, and it is among the others: %v", reason, !other, other)
			}
		}
		for reason := range stuck {
			if !slices.Contains(list, reason) {
				t.Errorf("version %d has no reason %q", i, reason)
			}
		}
	}
}

// reasons reads the wait reasons of each Go version from the source of the generated table.
func reasons(t *testing.T, file string) (all [][]string) {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		kv, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		if key, ok := kv.Key.(*ast.Ident); !ok || key.Name != "Reasons" {
			return true
		}
		var list []string
		ast.Inspect(kv.Value, func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
				reason, err := strconv.Unquote(text.Value)
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, reason)
			}
			return true
		})
		all = append(all, list)
		return false
	})
	return all
}
