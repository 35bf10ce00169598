//go:build linux && (amd64 || arm64)

package native

import (
	"runtime"
	"testing"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/testenv"
)

// TestStackBesideData checks which words are part of a stack's key. For a running goroutine, data next to
// return addresses does not change the stack, but an address of code does.
func TestStackBesideData(t *testing.T) {
	table := tableOfProgram(t)
	st := newStacks(newRecorder(), table.L, table, false)
	var here [1]uintptr
	runtime.Callers(1, here[:])
	find := func(sp0, sp1 uint64) *stack {
		r := make(record, headWords+1)
		r[0] = goruntime.GRunning<<32 | flagRunning<<48
		r[headCounts], r[headWords] = 1, uint64(here[0])
		r[headSP0], r[headSP1] = sp0, sp1
		return st.find(r)
	}
	none := find(0, 0)
	for _, data := range []uint64{1, 4095, 4096, 0xc000012345, 1 << 63, ^uint64(0)} {
		if find(data, 0) != none || find(0, data) != none {
			t.Errorf("another stack with the data %#x", data)
		}
	}
	if find(uint64(here[0]), 0) == none || find(0, uint64(here[0])) == none {
		t.Error("the same stack with an address of code")
	}
}

func tableOfProgram(t *testing.T) *goruntime.FuncTable {
	t.Helper()
	l := testenv.Must(goruntime.LayoutOf(runtime.Version()))
	img := testenv.Must(goruntime.FindImage(handlerPC))
	return testenv.Must(goruntime.FindFuncTable(img, l, handlerPC))
}
