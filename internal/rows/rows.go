// Package rows makes samples of CPU time that no goroutine used: for the sources of a session, and
// for recordings from outside.
package rows

import (
	"slices"
	"time"

	"github.com/gotach/profiler/tachyon"
)

// Rows makes the samples of CPU time that no goroutine used. They are on pseudo threads, which are
// no goroutines: as many of a kind as it used cores.
type Rows struct {
	kind  [kinds]row
	began time.Duration
}

// Out takes the samples.
type Out interface {
	// Frame returns the id of a frame.
	Frame(tachyon.Frame) uint32
	// Row takes a sample of a pseudo thread.
	Row(thread uint64, status tachyon.Status, at time.Duration, stack []uint32)
}

// A Kind says what used the CPU time.
type Kind int

// The kinds of rows.
const (
	Scheduler Kind = iota // the runtime outside of goroutines, and signal handlers
	CThreads              // threads that never ran a goroutine
	Profiler              // the source
	Unknown               // goroutines that had ended, or are not known
	kinds
)

var names = [kinds]string{tachyon.FuncScheduler, tachyon.FuncC, tachyon.FuncProfiler, tachyon.FuncUnknown}

// row is one kind.
type row struct {
	owed  []owed          // no sample stands for it yet
	sum   time.Duration   // of owed
	since time.Duration   // when it was last written
	last  []time.Duration // the time of the last sample, by pseudo thread
	name  []uint32        // its frame
}

// owed is CPU time with a stack.
type owed struct {
	stack []uint32
	cpu   time.Duration
}

// A row is written when it has so much CPU time, or after so long.
const (
	rowWorth = 10 * time.Millisecond
	rowEvery = time.Second
)

// maxRow bounds the pseudo threads of a kind.
const maxRow = 1024

// Begin begins at a time of the session. Later samples are after it.
func (r *Rows) Begin(t time.Duration) {
	r.began = t
	for i := range r.kind {
		k := &r.kind[i]
		k.since = t
		for j := range k.last {
			k.last[j] = max(k.last[j], t)
		}
	}
}

// Add gives CPU time to a kind. The row's frame is the outermost one of its stacks; a stack may
// have no other. Add keeps the stack.
func (r *Rows) Add(kind Kind, stack []uint32, cpu time.Duration) {
	if cpu <= 0 {
		return
	}
	k := &r.kind[kind]
	k.sum += cpu
	for i := range k.owed {
		if slices.Equal(k.owed[i].stack, stack) {
			k.owed[i].cpu += cpu
			return
		}
	}
	k.owed = append(k.owed, owed{stack, cpu})
}

// Write passes what the rows have been given to Out, as of time t. At the end of the session it
// passes all, otherwise only what is worth a sample.
func (r *Rows) Write(out Out, t time.Duration, end bool) {
	for kind := range r.kind {
		k := &r.kind[kind]
		if k.sum < time.Microsecond || !end && k.sum < rowWorth && t-k.since < rowEvery {
			continue
		}
		if k.name == nil {
			k.name = []uint32{out.Frame(tachyon.Frame{Func: names[kind]})}
		}
		for i := 0; i < maxRow && (i == 0 || end || k.sum >= time.Millisecond); i++ {
			if i == len(k.last) {
				k.last = append(k.last, r.began)
			}
			// A file may begin here. So the CPU time always follows a sample without it, whose time
			// is later than that of the sample before.
			on := min(k.sum, t-k.last[i]-2*time.Microsecond)
			if on < time.Microsecond {
				if t-r.began < 3*time.Microsecond || k.sum < time.Microsecond {
					break // there is no room on any pseudo thread, or nothing left
				}
				continue
			}
			id, at := tachyon.FirstPseudo+uint64(kind)<<16+uint64(i), t-on
			out.Row(id, 0, at, k.name)
			for since := at; on > 0 && len(k.owed) > 0; {
				o := &k.owed[0]
				part := min(o.cpu, on)
				o.cpu, k.sum, on = o.cpu-part, k.sum-part, on-part
				if at += part; at-since >= time.Microsecond { // a file has times in µs
					since = at
					out.Row(id, tachyon.OnCPU, at, append(slices.Clip(o.stack), k.name...))
				}
				if o.cpu == 0 {
					k.owed = slices.Delete(k.owed, 0, 1)
				}
			}
			k.last[i] = at
		}
		k.since = t
	}
}
