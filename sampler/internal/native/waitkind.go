//go:build linux && (amd64 || arm64)

package native

import (
	"strings"

	"github.com/gotach/profiler/tachyon"
)

// waitKind says what a wait reason says about the object that the goroutine waits for.
type waitKind struct {
	kind string // of tachyon.Object; "": there is no object
	// offset is that of the address in g.waiting within the object. A Mutex, for instance, has its
	// semaphore after its state.
	offset uint64
}

// waitKind returns the kind of a wait reason.
func (l *layout) waitKind(reason int) waitKind {
	if reason < 0 || reason >= len(l.reasons) {
		return waitKind{}
	}
	text := strings.TrimSuffix(l.reasons[reason], " (durable)")
	switch text {
	case "chan receive", "chan send":
		return waitKind{tachyon.ObjectChannel, 0}
	case "select":
		return waitKind{tachyon.ObjectSelect, 0}
	}
	if !l.semaphores {
		return waitKind{}
	}
	switch text {
	case "sync.Mutex.Lock":
		return waitKind{tachyon.ObjectMutex, uint64(l.mutexSema)}
	case "sync.RWMutex.Lock":
		return waitKind{tachyon.ObjectRWMutex, uint64(l.rwWriterSema)}
	case "sync.RWMutex.RLock":
		return waitKind{tachyon.ObjectRWMutex, uint64(l.rwReaderSema)}
	case "sync.WaitGroup.Wait":
		return waitKind{tachyon.ObjectWaitGroup, uint64(l.groupSema)}
	case "sync.Cond.Wait":
		return waitKind{tachyon.ObjectCond, uint64(l.condNotify)}
	case "semacquire":
		return waitKind{tachyon.ObjectSemaphore, 0}
	}
	return waitKind{}
}

// waitSets returns the wait reasons that have an object, and that of coroutines.
func (l *layout) waitSets() (w waitSets) {
	for reason, text := range l.reasons {
		if text == "coroutine" {
			w.switched |= 1 << reason
		}
		switch l.waitKind(reason).kind {
		case "":
		case tachyon.ObjectChannel:
			w.channel |= 1 << reason
		case tachyon.ObjectSelect:
			w.choice |= 1 << reason
		default:
			w.elem |= 1 << reason
		}
	}
	return w
}
