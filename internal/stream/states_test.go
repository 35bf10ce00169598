package stream

import (
	"testing"

	"github.com/gotach/profiler/tachyon"
)

func TestState(t *testing.T) {
	const on, call, in = tachyon.HasGIL | tachyon.OnCPU, tachyon.Unknown | tachyon.OnCPU, tachyon.Unknown
	f := tachyon.Frame{Func: "f", File: "f.go"}
	sleep, syscall := tachyon.Frame{Func: "[sleep]"}, tachyon.Frame{Func: "[syscall]"}
	c := tachyon.Frame{Func: "runtime.cgocall", File: "cgocall.go"}
	callback := tachyon.Frame{Func: "runtime.cgocallbackg1", File: "cgocall.go"}
	for _, c := range []struct {
		s     tachyon.Status
		stack []tachyon.Frame // innermost first
		want  string
	}{
		{on, []tachyon.Frame{f}, "running"},
		{on | tachyon.MainThread, []tachyon.Frame{sleep, f}, "running"},
		{on, []tachyon.Frame{{Func: "[scheduler]"}}, "running"},
		{on, []tachyon.Frame{c, f}, "running"}, // on the way to C
		{tachyon.HasGIL, []tachyon.Frame{f}, "no core"},
		{tachyon.HasGIL | tachyon.MainThread, nil, "no core"},
		{tachyon.GILRequested, nil, "runnable"},
		{tachyon.GILRequested, []tachyon.Frame{{Func: "[runnable]"}, f}, "runnable"},
		{tachyon.GILRequested, []tachyon.Frame{{Func: "[runnable, not started]"}, f}, "runnable"},
		{in, nil, "syscall"},
		{in, []tachyon.Frame{syscall, f}, "syscall"},
		{in, []tachyon.Frame{syscall, c, f}, "C"},
		{in, []tachyon.Frame{c, f}, "C"},
		{in, []tachyon.Frame{syscall, {Func: "main._Cfunc_nap", File: "_cgo_gotypes.go"}, f}, "C"},
		{in, []tachyon.Frame{f, callback, c, f}, "syscall"}, // Go code that C called
		{call, []tachyon.Frame{f}, "syscall on CPU"},
		{call, []tachyon.Frame{syscall, f}, "syscall on CPU"},
		{call, []tachyon.Frame{c}, "C on CPU"},
		{call, []tachyon.Frame{syscall, c, f}, "C on CPU"},
		{call, nil, "syscall on CPU"},
		{0, []tachyon.Frame{sleep}, "sleep"},
		{0, []tachyon.Frame{{Func: "[sync.Mutex.Lock]", Line: 17}, f}, "sync.Mutex.Lock"},
		{tachyon.HasException, []tachyon.Frame{sleep}, "sleep"},
		{0, []tachyon.Frame{{Func: "[not a wait]", File: "x.py"}}, "waiting"},
		{0, []tachyon.Frame{{Func: "[]"}}, "waiting"},
		{0, nil, "waiting"},
	} {
		var f [2]*tachyon.Frame
		for i := range min(len(f), len(c.stack)) {
			f[i] = &c.stack[i]
		}
		if got := state(c.s, f); got != c.want {
			t.Errorf("state(%#x, %v) = %q, want %q", c.s, c.stack, got, c.want)
		}
	}
}
