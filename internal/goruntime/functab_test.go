//go:build linux && (amd64 || arm64)

package goruntime

import (
	"encoding/binary"
	"math"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/testenv"
	"golang.org/x/sys/unix"
)

func init() { mem.PlainReads = os.Getenv("GOTACH_PLAIN_READS") == "1" } // under an emulator

// codeHere returns the address of a function of this program.
func codeHere() uintptr { return reflect.ValueOf(TestFuncTable).Pointer() }

func tableHere(t *testing.T) *FuncTable {
	t.Helper()
	l := testenv.Must(LayoutOf(runtime.Version()))
	img := testenv.Must(FindImage(codeHere()))
	return testenv.Must(FindFuncTable(img, l, codeHere()))
}

// TestFuncTable looks up addresses all over the program's code. It compares the function and the inlined
// calls with the runtime's answers, and the frame sizes that the handler reads with those of the drain.
func TestFuncTable(t *testing.T) {
	table := tableHere(t)
	m := &table.Modules[0]
	v := &View{Off: table.L.Offsets, Program: m.Code, Modules: 1}
	checked, inlined, sized := 0, 0, 0
	for pc := m.Text; pc < m.Etext; pc += 252 {
		f, entry, _ := table.Find(pc)
		want := runtime.FuncForPC(pc)
		if want == nil || strings.HasPrefix(want.Name(), "go:") {
			continue // no function, or padding between functions
		}
		checked++
		testenv.Same(t, want.Name(), entry, want.Entry())
		pcs := table.Expand(nil, pc+1)
		if len(pcs) > 1 {
			inlined++
		}
		frames := runtime.CallersFrames(pcs)
		for i, more := 0, true; more; i++ {
			var frame runtime.Frame
			frame, more = frames.Next()
			// runtime.Frame has no Func for inlined calls. At a function's entry the inlined
			// calls are not known.
			switch {
			case i == 0 && frame.Function != want.Name() && pc != entry,
				more != (frame.Func == nil),
				!more && frame.Func.Entry() != entry:
				t.Fatalf("%#x in %s: %d of %d is %+v", pc, want.Name(), i, len(pcs), frame)
			}
		}
		size, ok := table.SPDelta(pc)
		got := delta(v, pc)
		if mem.Load8(f+table.L.FuncFlag)&FuncFlagSPWrite != 0 {
			ok = false
		}
		if ok {
			sized++
		}
		if ok && int64(size) != int64(got) || !ok && got != ^uintptr(0) {
			t.Fatalf("%#x in %s: frame size %d in the handler, %d in the drain, %v", pc, want.Name(), int64(got), size, ok)
		}
	}
	testenv.Within(t, "addresses, and those with a frame's size", min(checked, sized), 1000, math.MaxInt)
	testenv.Within(t, "addresses of inlined calls", inlined, 100, checked)
}

// FuzzFuncTable reads tables with arbitrary contents. They end right before an unreadable page, so a
// read beyond their end faults.
func FuzzFuncTable(f *testing.F) {
	l := testenv.Must(LayoutOf(runtime.Version()))
	const size = 1 << 16
	page := os.Getpagesize()
	memory := testenv.Must(unix.Mmap(-1, 0, size+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE))
	testenv.OK(f, unix.Mprotect(memory[size:], unix.PROT_NONE))
	// One function, its tables from the 16th byte on, and a small table of values.
	one := make([]byte, 16+64)
	binary.LittleEndian.PutUint32(one[4:], 16)
	binary.LittleEndian.PutUint32(one[16+l.FuncPCSP:], 70)
	binary.LittleEndian.PutUint32(one[16+l.FuncNPCData:], 3)
	one[16+l.FuncNFuncData] = 4
	copy(one[70:], []byte{2, 10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Add(one, uint32(5), uint8(1))
	f.Add(one, uint32(1000), uint8(1))
	f.Add(one, uint32(0xffffffff), uint8(1))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, uint32(0xfffffff0), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, off uint32, funcs uint8) {
		if len(data) > size || len(data) < 8 {
			return
		}
		tables := memory[size-len(data) : size]
		copy(tables, data)
		lo := mem.Mapping(tables).Addr()
		m := module{
			Code: Code{
				Text: 1 << 32, Etext: 1<<32 + 1<<33,
				pctab:   Span{lo, lo + uintptr(len(data))},
				pclntab: Span{lo, lo + uintptr(len(data))},
				ftab:    lo,
				funcs:   uintptr(min(int(funcs), len(data)/8)),
			},
			gofunc: lo,
		}
		table := &FuncTable{L: l, Modules: []module{m}}
		v := &View{Off: l.Offsets, Program: m.Code, Modules: 1}
		pc := m.Text + uintptr(off)
		size, ok := table.SPDelta(pc)
		got := delta(v, pc)
		testenv.FailIf(t, ok && got != ^uintptr(0) && int64(int32(got)) != int64(size), "frame size %d in the handler, %d in the drain", int64(got), size)
		testenv.Within(t, "inlined calls", len(table.Expand(nil, pc+1)), 0, 300)
	})
}

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
			testenv.StopIf(t, m != nil != (i < known) || m != nil && m.Text != text(i), "module %d: the drain finds %v", i, m)
			for _, at := range []uintptr{0, 5, 4096} {
				c := v.codeOf(uint64(text(i) + at))
				testenv.StopIf(t, c != nil != (i < known) || c != nil && c.Text != text(i), "module %d + %d: the handler finds %v", i, at, c)
				testenv.Same(t, "frame size", delta(v, text(i)+at), ^uintptr(0))
			}
			testenv.StopIf(t, i < published+mostNew && (!v.IsCode(uint64(text(i)+5)) || v.IsCode(uint64(text(i)+5000)) || v.IsCode(uint64(text(i)-5))), "module %d: wrong bounds", i)
			f, _, _ := table.Find(text(i) + 5)
			testenv.Same(t, "function", f, 0)
		}
		testenv.Same(t, "this code", v.codeOf(uint64(codeHere())), &v.Program)
	}
	check(published)
	testenv.Prints(t, "grows, grows again", "true false", table.Grow(), table.Grow())
	testenv.Same(t, "modules", len(table.Modules), known+added)
	table.Publish(v)
	check(added)
}
