//go:build linux && (amd64 || arm64)

package goruntime

import (
	"testing"
	"unsafe"

	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/testenv"
)

// TestModules adds modules to the runtime's list as a just-in-time compiler does. Some of them have tables
// that are not there.
func TestModules(t *testing.T) {
	table := tableHere(t)
	l, known := table.L, len(table.Modules)
	const added, published, size = 500, 400, 1024
	memory := testenv.Must(mem.Map(MaxModules*(unsafe.Sizeof(Code{})+16) + added*size))
	v := &View{Off: l.Offsets, Codes: memory.Addr()}
	v.Orders = v.Codes + MaxModules*unsafe.Sizeof(Code{})
	first := v.Orders + MaxModules*16
	data := func(i int) uintptr { return first + uintptr(i)*size }
	text := func(i int) uintptr { return 1<<46 + uintptr(i*7919%added)*8192 } // in no order
	for i := range added {
		mem.Store64(data(i)+l.ModText, uint64(text(i)))
		mem.Store64(data(i)+l.ModEText, uint64(text(i)+4096))
		if i%2 == 1 {
			for _, field := range []uintptr{l.ModFTab, l.ModPCTab, l.ModPCLNTable} {
				mem.Store64(data(i)+field, 4096) // unmapped
				mem.Store64(data(i)+field+8, 100)
			}
		}
		if i > 0 && i != published {
			mem.Store64(data(i-1)+l.ModNext, uint64(data(i)))
		}
	}
	table.follow(first)
	table.Publish(v)
	mem.Store64(data(published-1)+l.ModNext, uint64(data(published)))
	check := func(known int) {
		t.Helper()
		for i := range added {
			m := table.Module(text(i) + 5)
			if m != nil != (i < known) || m != nil && m.Text != text(i) {
				t.Fatalf("module %d: the drain finds %v", i, m)
			}
			for _, at := range []uintptr{0, 5, 4096} {
				c := v.codeOf(uint64(text(i) + at))
				if c != nil != (i < known) || c != nil && c.Text != text(i) {
					t.Fatalf("module %d + %d: the handler finds %v", i, at, c)
				}
				if delta(v, text(i)+at) != ^uintptr(0) {
					t.Fatalf("module %d + %d has a frame size", i, at)
				}
			}
			if i < published+mostNew && (!v.IsCode(uint64(text(i)+5)) || v.IsCode(uint64(text(i)+5000)) || v.IsCode(uint64(text(i)-5))) {
				t.Fatalf("module %d: wrong bounds", i)
			}
			if f, _, _ := table.Find(text(i) + 5); f != 0 {
				t.Fatalf("module %d has a function", i)
			}
		}
		if c := v.codeOf(uint64(codeHere())); c != &v.Program {
			t.Fatalf("this code is in %v", c)
		}
	}
	check(published)
	if !table.Grow() || table.Grow() || len(table.Modules) != known+added {
		t.Fatalf("%d modules, not %d", len(table.Modules), known+added)
	}
	table.Publish(v)
	check(added)
}
