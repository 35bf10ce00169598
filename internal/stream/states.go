package stream

import (
	"strings"

	"github.com/gotach/profiler/tachyon"
)

// The states of a goroutine that does not wait.
const (
	Running      = "running"        // on a core
	NoCore       = "no core"        // runs for the Go scheduler, but the kernel gives its thread no core
	Runnable     = "runnable"       // waits for a P
	Syscall      = "syscall"        // blocked in a system call
	SyscallOnCPU = "syscall on CPU" // in a system call, on a core
	InC          = "C"              // blocked in C
	OnCPUInC     = "C on CPU"       // in C, on a core
	Waiting      = "waiting"        // for something unknown
	NotSeen      = "not seen"       // no sample has the time
)

// WaitReason returns what a goroutine waits for, if f is a wait frame, such as "[sleep]". A
// goroutine that could run but has no P has such a frame too: the reason is "runnable" then.
func WaitReason(f tachyon.Frame) (reason string, ok bool) {
	if f.File != "" || len(f.Func) < 3 {
		return "", false
	}
	if f.Func[0] != '[' || f.Func[len(f.Func)-1] != ']' || f.Func == tachyon.FuncNoSymbols || f.Func == tachyon.FuncNotRead {
		return "", false
	}
	return f.Func[1 : len(f.Func)-1], true
}

// LeafState returns the state that a stack's innermost frame alone tells, for formats whose samples
// have no states. It is "" if the frame is an ordinary one.
func LeafState(f tachyon.Frame) string {
	reason, ok := WaitReason(f)
	switch {
	case !ok:
		return ""
	case f.Func == tachyon.FuncNotStarted:
		return Runnable
	case f.Func == tachyon.FuncScheduler, f.Func == tachyon.FuncC, f.Func == tachyon.FuncProfiler:
		return Running
	}
	return reason
}

// State returns the state of a goroutine, given a sample's status and stack: one of the constants,
// or what it waits for, such as "chan receive".
func (s *Source) State(status tachyon.Status, stack uint32) string {
	var f [2]*tachyon.Frame // further frames do not matter
	for i := 0; i < len(f) && stack != 0; i++ {
		f[i] = &s.frames.List()[s.stacks[stack].Frame]
		stack = s.stacks[stack].Caller
	}
	return state(status, f)
}

// state returns a state, given the two innermost frames.
func state(status tachyon.Status, f [2]*tachyon.Frame) string {
	leaf := ""
	if f[0] != nil {
		leaf = LeafState(*f[0])
	}
	switch on := status&tachyon.OnCPU != 0; {
	case status&tachyon.Unknown != 0 && (on || leaf == "" || leaf == Syscall):
		c := inC(f)
		switch {
		case c && on:
			return OnCPUInC
		case c:
			return InC
		case on:
			return SyscallOnCPU
		}
		return Syscall
	case on:
		return Running
	case leaf != "":
		return leaf
	case status&tachyon.GILRequested != 0:
		return Runnable
	case status&tachyon.HasGIL != 0:
		return NoCore
	}
	return Waiting
}

// inC reports whether a stack's innermost function is one that calls C, given its two innermost
// frames. That is a function of the runtime. The native source leaves those out; then it is the
// function that cgo generated, with _Cfunc_ in its name.
func inC(f [2]*tachyon.Frame) bool {
	at := f[0]
	if at != nil && f[1] != nil {
		if _, ok := WaitReason(*at); ok {
			at = f[1]
		}
	}
	return at != nil && (at.Func == "runtime.cgocall" || at.Func == "runtime.asmcgocall" || strings.Contains(at.Func, "._Cfunc_"))
}
