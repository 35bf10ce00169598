//go:build linux && (amd64 || arm64)

package attach

import (
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// entry returns where a function of this program begins.
func entry(t *testing.T, f *functions, name string) uint64 {
	t.Helper()
	for pc := f.modules[0].text; pc < f.modules[0].etext; pc += 16 {
		if fn := runtime.FuncForPC(uintptr(pc)); fn != nil && fn.Name() == name {
			return uint64(fn.Entry())
		}
	}
	t.Fatalf("no function %s", name)
	return 0
}

// The scheduler's calls end at the switch to the system stack, or in the middle if no more of the stack is known. In both cases they are
// no goroutine's, also if the register has the next one already.
func TestInterruptedScheduler(t *testing.T) {
	notEmulated(t)
	p := testenv.Must(Open(os.Getpid()))
	f := &p.program.funcs
	at := func(name string) uint64 { return entry(t, f, name) + 8 }
	for _, tt := range []struct {
		calls []string
		root  string
	}{
		{[]string{"runtime.schedule", "runtime.goexit0", "runtime.mcall"}, "runtime.mcall"},
		{[]string{"runtime.schedule"}, "runtime.schedule"},
		{[]string{"runtime.newstack", "runtime.morestack"}, "runtime.morestack"},
		{[]string{"time.Now", "runtime.goexit"}, "runtime.goexit"},
		{[]string{"time.Now"}, ""},
	} {
		var chain []uint64
		for _, name := range tt.calls {
			chain = append(chain, at(name))
		}
		got := f.interrupted(&interrupt{pc: chain[0], sp: 1 << 20, chain: slices.Clone(chain)})
		if got.root != tt.root || len(got.pcs) != len(chain) {
			t.Errorf("%v: root %q, %d calls", tt.calls, got.root, len(got.pcs))
		}
	}
}

// Frame pointers do not show the caller of a function that has no frame yet. It is on the stack, but where it was called from is beyond what was copied.
func TestInterruptedPrologue(t *testing.T) {
	notEmulated(t)
	p := testenv.Must(Open(os.Getpid()))
	f := &p.program.funcs
	leaf, caller, main, top := entry(t, f, "time.Now"), entry(t, f, "slices.Sort[...]")+8, entry(t, f, "testing.tRunner")+8, entry(t, f, "runtime.goexit")+8
	for first, want := range map[uint64][]uint64{leaf: {leaf + 1, caller, main, top}, main: {leaf + 1, caller}} { // the second is another chain
		x := &interrupt{pc: leaf, sp: 1 << 20, lr: caller, stack: le.AppendUint64(nil, caller), chain: []uint64{first, main, top}}
		if got := f.interrupted(x).pcs; !slices.Equal(got, want) {
			t.Errorf("calls %x, want %x", got, want)
		}
	}
}

// CPU time in a system call is shown below the state that the goroutine has meanwhile, as a program's own profile shows it.
func TestInterruptedCall(t *testing.T) {
	notEmulated(t)
	r, _ := scriptedRecorder(t, newScripted(), Options{Interval: time.Millisecond})
	r.perf = &perf{inKernel: true}
	r.program.funcs = testenv.Must(Open(os.Getpid())).program.funcs
	r.byG[theG] = &known{}
	f := &r.program.funcs
	for _, kernel := range []bool{true, false} {
		pc := entry(t, f, "syscall.Syscall6") + 8
		r.interrupted(&thread{}, &interrupt{cpu: time.Millisecond, sp: 1 << 20, g: theG, pc: pc, chain: []uint64{pc, entry(t, f, "syscall.Syscall") + 8}, kernel: kernel})
		first, status := r.stacks[string(r.key)].first, r.hits[len(r.hits)-1].status
		if (first == "[syscall]") != kernel || (status == tachyon.Unknown) != kernel {
			t.Errorf("in the kernel: %v; below %q, status %v", kernel, first, status)
		}
	}
}
