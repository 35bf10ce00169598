package dcpi

import (
	"testing"

	"github.com/gotach/profiler/tachyon"
)

// From any place in the code to its line, and from there back to an address of
// the same line of the same function.
func TestAddressesOfLines(t *testing.T) {
	m, _ := self(t)
	l := newLineFinder(m.table)
	n := 0
	for i := 0; i < len(m.table.Funcs); i += len(m.table.Funcs)/50 + 1 {
		fn := &m.table.Funcs[i]
		middle := fn.Entry + (fn.End-fn.Entry)/2
		file, line, at := m.table.PCToLine(middle)
		if at != fn || file == "" || line <= 0 || fn.End-fn.Entry > maxFunction {
			continue
		}
		n++
		frame := tachyon.Frame{Func: printed(fn.Name), File: file, Line: int32(line)}
		addr, ok := l.addr(frame)
		if !ok {
			t.Errorf("%+v has no address", frame)
			continue
		}
		if got, ok := m.outer(addr); !ok || got != frame {
			t.Errorf("%#x is in %+v, want %+v", addr, got, frame)
		}
	}
	if n < 20 {
		t.Errorf("only %d functions were tried", n)
	}
	if addr, ok := l.addr(tachyon.Frame{Func: "main.nowhere", File: "nowhere.go", Line: 1}); ok {
		t.Errorf("what is nowhere is at %#x", addr)
	}
	// A line that is not in the code, of a function that is.
	fn := m.table.LookupFunc("runtime.main")
	if addr, ok := l.addr(tachyon.Frame{Func: "runtime.main", File: "nowhere.go", Line: 1}); !ok || addr != fn.Entry {
		t.Errorf("runtime.main is at %#x, want %#x", addr, fn.Entry)
	}
}
