package source

import (
	"slices"
	"time"

	"github.com/gotach/profiler/tachyon"
)

// Rows makes the samples of CPU time that no goroutine used. They are on pseudo threads, which are
// no goroutines: as many of a kind as it used cores.
type Rows struct {
	kind   [rowKinds]row
	began  time.Duration
	sample Sample
}

// A RowKind says what used the CPU time.
type RowKind int

// The kinds of rows.
const (
	Scheduler RowKind = iota // the runtime outside of goroutines, and signal handlers
	CThreads                 // threads that never ran a goroutine
	Profiler                 // the source
	Unknown                  // goroutines that had ended, or are not known
	rowKinds
)

var rowNames = [rowKinds]string{tachyon.FuncScheduler, tachyon.FuncC, tachyon.FuncProfiler, tachyon.FuncUnknown}

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

// Begin begins at a time of the session.
func (r *Rows) Begin(t time.Duration) {
	r.began = t
	for i := range r.kind {
		r.kind[i].since = t
	}
}

// Add gives CPU time to a kind. The row's frame is the outermost one of its stacks; a stack may have no other. Add
// keeps the stack.
func (r *Rows) Add(kind RowKind, stack []uint32, cpu time.Duration) {
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
// passes all, otherwise only what is worth a sample. It is called only within Batch.
func (r *Rows) Write(out Out, t time.Duration, end bool) {
	for kind := range r.kind {
		k := &r.kind[kind]
		if k.sum < time.Microsecond || !end && k.sum < rowWorth && t-k.since < rowEvery {
			continue
		}
		if k.name == nil {
			k.name = []uint32{out.Frame(tachyon.Frame{Func: rowNames[kind]})}
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
			r.sample = Sample{
				Goroutine: tachyon.FirstPseudo + uint64(kind)<<16 + uint64(i),
				Process:   true,
				Time:      t - on,
				Stack:     k.name,
			}
			out.Sample(&r.sample)
			r.sample.Status = tachyon.OnCPU
			for since := r.sample.Time; on > 0 && len(k.owed) > 0; {
				o := &k.owed[0]
				part := min(o.cpu, on)
				o.cpu, k.sum, on = o.cpu-part, k.sum-part, on-part
				if r.sample.Time += part; r.sample.Time-since >= time.Microsecond { // a file has times in µs
					since = r.sample.Time
					r.sample.Stack = append(slices.Clip(o.stack), k.name...)
					out.Sample(&r.sample)
				}
				if o.cpu == 0 {
					k.owed = slices.Delete(k.owed, 0, 1)
				}
			}
			k.last[i] = r.sample.Time
		}
		k.since = t
	}
}
