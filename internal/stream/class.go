package stream

import "strings"

// A Class is states that are shown alike.
type Class int

// The classes.
const (
	ClassOnCPU Class = iota
	ClassNoCore
	ClassRunnable
	ClassSyscall // or C
	ClassIO
	ClassLock
	ClassChannel
	ClassSleep
	ClassOther
	Classes // their number
)

// String returns a name for people.
func (c Class) String() string {
	return [...]string{"On CPU", "No core", "Runnable", "System call or C", "I/O", "Lock", "Channel", "Sleep", "Other", ""}[c]
}

// ClassOf returns the class of a state.
func ClassOf(state string) Class {
	switch state {
	case Running, SyscallOnCPU, OnCPUInC:
		return ClassOnCPU
	case NoCore:
		return ClassNoCore
	case Runnable:
		return ClassRunnable
	case Syscall, InC:
		return ClassSyscall
	case "IO wait":
		return ClassIO
	case "sleep":
		return ClassSleep
	}
	switch {
	case strings.HasPrefix(state, "sync."), strings.HasPrefix(state, "semacquire"):
		return ClassLock
	case strings.HasPrefix(state, "chan "), strings.HasPrefix(state, "select"):
		return ClassChannel
	}
	return ClassOther
}

// Waits reports whether goroutines in a state wait: all but those on a CPU or without a core. Time
// without samples is no wait.
func Waits(state string) bool {
	return ClassOf(state) != ClassOnCPU && state != NoCore && state != NotSeen
}

// Blocked is what reports and the page call the time of a goroutine that waits for something else
// than a core, outside system calls and C.
const Blocked = "blocked"

// Kinds are words for several states, as reports, "gotach top" and the page have them.
var Kinds = []string{"on CPU", "in syscalls", Blocked, "I/O", "lock", "channel", "other wait", "syscall or C"}

// IsKind reports whether a state is one of those that a word of [Kinds] stands for. Case does not
// matter.
func IsKind(word, state string) bool {
	class := ClassOf(state)
	switch strings.ToLower(word) {
	case "on cpu":
		return class == ClassOnCPU
	case "in syscalls", "syscall or c":
		return class == ClassSyscall
	case Blocked:
		return class >= ClassIO && state != NotSeen && state != "not recorded"
	case "other wait":
		return class == ClassOther && state != NotSeen && state != "not recorded"
	case "lock", "channel", "i/o":
		return strings.EqualFold(class.String(), word)
	}
	return false
}
