package runs

import (
	"strings"

	"github.com/gotach/profiler/internal/stream"
)

// A Class is states that are shown alike.
type Class int

// The classes.
const (
	OnCPU Class = iota
	NoCore
	Runnable
	Syscall // or C
	IO
	Lock
	Channel
	Sleep
	Other
	Classes // their number
)

// String returns a name for people.
func (c Class) String() string {
	return [...]string{"On CPU", "No core", "Runnable", "System call or C", "I/O", "Lock", "Channel", "Sleep", "Other", ""}[c]
}

// ClassOf returns the class of a state.
func ClassOf(state string) Class {
	switch state {
	case stream.Running, stream.SyscallOnCPU, stream.OnCPUInC:
		return OnCPU
	case stream.NoCore:
		return NoCore
	case stream.Runnable:
		return Runnable
	case stream.Syscall, stream.InC:
		return Syscall
	case "IO wait":
		return IO
	case "sleep":
		return Sleep
	}
	switch {
	case strings.HasPrefix(state, "sync."), strings.HasPrefix(state, "semacquire"):
		return Lock
	case strings.HasPrefix(state, "chan "), strings.HasPrefix(state, "select"):
		return Channel
	}
	return Other
}

// Waits reports whether goroutines in a state wait: all but those on a CPU or without a core. Time without samples
// is no wait.
func Waits(state string) bool {
	return ClassOf(state) != OnCPU && state != stream.NoCore && state != stream.NotSeen
}
