//go:build linux && (amd64 || arm64)

package native

import (
	"testing"
	"unsafe"

	"github.com/gotach/profiler/sampler/internal/mem"
)

// TestModules adds modules to the runtime's list as a just-in-time compiler does. Some of them have tables
// that are not there.
func TestModules(t *testing.T) {
	table := tableOfProgram(t)
	l, known := table.l, len(table.modules)
	const added, published, size = 500, 400, 1024
	memory, err := mem.Map(maxModules*(unsafe.Sizeof(code{})+16) + added*size)
	if err != nil {
		t.Fatal(err)
	}
	s := &shared{off: l.offsets, codes: memory.Addr()}
	s.orders = s.codes + maxModules*unsafe.Sizeof(code{})
	first := s.orders + maxModules*16
	data := func(i int) uintptr { return first + uintptr(i)*size }
	text := func(i int) uintptr { return 1<<46 + uintptr(i*7919%added)*8192 } // in no order
	for i := range added {
		mem.Store64(data(i)+l.modText, uint64(text(i)))
		mem.Store64(data(i)+l.modEText, uint64(text(i)+4096))
		if i%2 == 1 {
			for _, field := range []uintptr{l.modFTab, l.modPCTab, l.modPCLNTable} {
				mem.Store64(data(i)+field, 4096) // unmapped
				mem.Store64(data(i)+field+8, 100)
			}
		}
		if i > 0 && i != published {
			mem.Store64(data(i-1)+l.modNext, uint64(data(i)))
		}
	}
	table.follow(first)
	table.publish(s)
	mem.Store64(data(published-1)+l.modNext, uint64(data(published)))
	check := func(known int) {
		t.Helper()
		for i := range added {
			m := table.module(text(i) + 5)
			if m != nil != (i < known) || m != nil && m.text != text(i) {
				t.Fatalf("module %d: the drain finds %v", i, m)
			}
			for _, at := range []uintptr{0, 5, 4096} {
				c := s.codeOf(uint64(text(i) + at))
				if c != nil != (i < known) || c != nil && c.text != text(i) {
					t.Fatalf("module %d + %d: the handler finds %v", i, at, c)
				}
				if delta(s, text(i)+at) != ^uintptr(0) {
					t.Fatalf("module %d + %d has a frame size", i, at)
				}
			}
			if i < published+mostNew && (!s.isCode(uint64(text(i)+5)) || s.isCode(uint64(text(i)+5000)) || s.isCode(uint64(text(i)-5))) {
				t.Fatalf("module %d: wrong bounds", i)
			}
			if f, _, _ := table.find(text(i) + 5); f != 0 {
				t.Fatalf("module %d has a function", i)
			}
		}
		if c := s.codeOf(uint64(entry(visit))); c != &s.program {
			t.Fatalf("this code is in %v", c)
		}
	}
	check(published)
	if !table.grow() || table.grow() || len(table.modules) != known+added {
		t.Fatalf("%d modules, not %d", len(table.modules), known+added)
	}
	table.publish(s)
	check(added)
}
