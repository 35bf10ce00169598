package source

import (
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
	rowKinds
)

var rowNames = [rowKinds]string{"[scheduler]", "[C threads]", "[profiler]"}

// row is one kind.
type row struct {
	owed  time.Duration   // CPU time that no sample stands for yet
	since time.Duration   // when it was last written
	last  []time.Duration // the time of the last sample, by pseudo thread
	stack []uint32
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

// Add gives CPU time to a kind.
func (r *Rows) Add(kind RowKind, cpu time.Duration) { r.kind[kind].owed += cpu }

// Write passes what the rows have been given to Out, as of time t. At the end of the session it
// passes all, otherwise only what is worth a sample. It is called only within Batch.
func (r *Rows) Write(out Out, t time.Duration, end bool) {
	for kind := range r.kind {
		k := &r.kind[kind]
		owed := k.owed
		if owed < time.Microsecond || !end && owed < rowWorth && t-k.since < rowEvery {
			continue
		}
		if k.stack == nil {
			k.stack = []uint32{out.Frame(tachyon.Frame{Func: rowNames[kind]})}
		}
		for i := 0; i < maxRow && (i == 0 || end || owed >= time.Millisecond); i++ {
			if i == len(k.last) {
				k.last = append(k.last, r.began)
			}
			// A file may begin here. So the CPU time always follows a sample without it, whose time
			// is later than that of the sample before.
			on := min(owed, t-k.last[i]-2*time.Microsecond)
			if on < time.Microsecond {
				if t-r.began < 3*time.Microsecond || owed < time.Microsecond {
					break // there is no room on any pseudo thread, or nothing left
				}
				continue
			}
			r.sample = Sample{
				Goroutine: tachyon.FirstPseudo + uint64(kind)<<16 + uint64(i),
				Process:   true,
				Time:      t - on,
				Stack:     k.stack,
			}
			out.Sample(&r.sample)
			r.sample.Time, r.sample.Status = t, tachyon.OnCPU
			out.Sample(&r.sample)
			k.last[i] = t
			owed -= on
		}
		k.owed, k.since = owed, t
	}
}
