package source

import (
	"time"

	"github.com/gotach/profiler/internal/rows"
	"github.com/gotach/profiler/tachyon"
)

// Rows passes the samples of CPU time that no goroutine used to an Out.
type Rows struct {
	rows.Rows
	out    Out
	sample Sample
}

// Write passes on what the rows have been given. It is called only within Batch.
func (r *Rows) Write(out Out, t time.Duration, end bool) {
	r.out = out
	r.Rows.Write(r, t, end)
}

// Frame is for Write.
func (r *Rows) Frame(f tachyon.Frame) uint32 { return r.out.Frame(f) }

// Row is for Write.
func (r *Rows) Row(thread uint64, status tachyon.Status, at time.Duration, stack []uint32) {
	r.sample = Sample{Goroutine: thread, Process: true, Status: status, Time: at, Stack: stack}
	r.out.Sample(&r.sample)
}
