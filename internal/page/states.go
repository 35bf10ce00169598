package page

import (
	"strings"

	"github.com/gotach/profiler/internal/profile"
)

// A class is a kind of states, which has a colour of its own.
type class uint8

const (
	classRunning class = iota
	classNoCore
	classRunnable
	classSyscall
	classIO
	classLock
	classChannel
	classSleep
	classOther
	classRuntime
	classIdle
	classes
)

// classNames are what the page calls them.
var classNames = [classes]string{
	"running", "no core", "runnable", "syscall or C", "I/O", "lock", "channel", "sleep", "other wait", "runtime on CPU", "idle",
}

// classOf returns the class of a state. system says that it is not the program's goroutine.
func classOf(state string, system bool) class {
	switch state {
	case profile.Running, profile.SyscallOnCPU, profile.OnCPUInC:
		if system {
			return classRuntime
		}
		return classRunning
	case profile.NoCore:
		return classNoCore
	case profile.Runnable:
		return classRunnable
	case profile.Syscall, profile.InC:
		return classSyscall
	case "IO wait":
		return classIO
	case "sleep":
		return classSleep
	case "semacquire":
		return classLock
	}
	switch {
	case strings.HasPrefix(state, "chan "), strings.HasPrefix(state, "select"):
		return classChannel
	case strings.HasPrefix(state, "sync."):
		return classLock
	}
	return classOther
}

// onCPU reports whether time in a state is CPU time.
func onCPU(state string) bool {
	return state == profile.Running || state == profile.SyscallOnCPU || state == profile.OnCPUInC
}
