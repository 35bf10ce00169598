//go:build linux && (amd64 || arm64)

package goruntime

import (
	"strings"

	"github.com/gotach/profiler/tachyon"
)

// waitKind is what a wait reason tells of the object that the goroutine waits for.
type waitKind struct {
	Kind string // of tachyon.Object; "": there is no object
	// Offset is how many bytes after the object's beginning the address in g.waiting is. A Mutex,
	// for instance, has its semaphore after its state.
	Offset uint64
}

// WaitKind returns the kind of a wait reason.
func (l *Layout) WaitKind(reason int) waitKind {
	if reason < 0 || reason >= len(l.Reasons) {
		return waitKind{}
	}
	text := strings.TrimSuffix(l.Reasons[reason], " (durable)")
	switch text {
	case "chan receive", "chan send":
		return waitKind{tachyon.ObjectChannel, 0}
	case "select":
		return waitKind{tachyon.ObjectSelect, 0}
	}
	if !l.Semaphores {
		return waitKind{}
	}
	switch text {
	case "sync.Mutex.Lock":
		return waitKind{tachyon.ObjectMutex, uint64(l.MutexSema)}
	case "sync.RWMutex.Lock":
		return waitKind{tachyon.ObjectRWMutex, uint64(l.RwWriterSema)}
	case "sync.RWMutex.RLock":
		return waitKind{tachyon.ObjectRWMutex, uint64(l.RwReaderSema)}
	case "sync.WaitGroup.Wait":
		return waitKind{tachyon.ObjectWaitGroup, uint64(l.GroupSema)}
	case "sync.Cond.Wait":
		return waitKind{tachyon.ObjectCond, uint64(l.CondNotify)}
	case "semacquire":
		return waitKind{tachyon.ObjectSemaphore, 0}
	}
	return waitKind{}
}

// WaitText returns what tracebacks print for a wait reason, in a synctest bubble or outside.
func (l *Layout) WaitText(reason int, bubble bool) string {
	if reason <= 0 || reason >= len(l.Reasons) {
		return "waiting"
	}
	text := l.Reasons[reason]
	if bubble && l.Durable>>reason&1 != 0 && !strings.HasSuffix(text, "(durable)") {
		text += " (durable)"
	}
	return text
}

// IOWait is the wait reason of a goroutine that waits for a file descriptor.
const IOWait = "IO wait"

// WaitSets returns the wait reasons that have an object, and that of coroutines.
func (l *Layout) WaitSets() (w WaitSets) {
	for reason, text := range l.Reasons {
		switch text {
		case "coroutine":
			w.Switched |= 1 << reason
		case IOWait:
			w.Poll |= 1 << reason
		}
		switch l.WaitKind(reason).Kind {
		case "":
		case tachyon.ObjectChannel:
			w.Channel |= 1 << reason
		case tachyon.ObjectSelect:
			w.Choice |= 1 << reason
		default:
			w.Elem |= 1 << reason
		}
	}
	return w
}

// WaitSets says which wait reasons have an object, and which are special, as bit sets of reasons.
type WaitSets struct {
	Elem    uint64 // sudog.elem is the address of a semaphore or of a list of waiting goroutines
	Channel uint64 // sudog.c is the channel
	Choice  uint64 // a select: each sudog has one channel
	Poll    uint64 // a goroutine waits for a file descriptor and has its pollDesc on the stack; 0 if Start could not find where

	Switched uint64 // of coroutines: whether one has run since cannot be seen, see runtime.coroswitch_m
}
