package page

import (
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
)

// The page has three more classes of states than [stream.Class]. Each class has a colour of its
// own.
const (
	classRuntime = stream.Classes + iota
	classIdle
	classApart
	classes
)

// classNames are what the page calls them.
var classNames = [classes]string{
	stream.ClassOnCPU: "running", stream.ClassNoCore: "no core", stream.ClassRunnable: "runnable", stream.ClassSyscall: "syscall or C",
	stream.ClassIO: "I/O", stream.ClassLock: "lock", stream.ClassChannel: "channel", stream.ClassSleep: "sleep", stream.ClassOther: "other wait",
	classRuntime: "runtime on CPU", classIdle: "idle", classApart: "set apart",
}

// classOf returns the class of a state. system says that it is not the program's goroutine.
func classOf(state string, system bool) stream.Class {
	class := stream.ClassOf(state)
	if class == stream.ClassOnCPU && system {
		return classRuntime
	}
	return class
}

// onCPU reports whether time in a state is CPU time.
func onCPU(state string) bool {
	return state == profile.Running || state == profile.SyscallOnCPU || state == profile.OnCPUInC
}
