//go:build linux && (amd64 || arm64)

package native

import (
	"time"

	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// rows are the samples of CPU time that no goroutine used. They are on pseudo threads, which are
// no goroutines: as many of a kind as it used cores.
type rows struct {
	kind   [kinds]row
	began  time.Duration
	sample source.Sample
}

// The kinds of rows.
const (
	rowScheduler = iota
	rowC
	rowProfiler
	kinds
)

var rowNames = [kinds]string{"[scheduler]", "[C threads]", "[profiler]"}

// row is one kind.
type row struct {
	owed  int64           // CPU time in ns that no sample stands for yet
	since time.Duration   // when it was last zero or written
	last  []time.Duration // the time of the last sample, by pseudo thread
	stack []uint32
}

// A row is written when it has so much CPU time, or after so long.
const (
	rowWorth = 10 * time.Millisecond
	rowEvery = time.Second
)

// write passes what the rows have been given to Out, as of time t. At the end of the session it
// passes all, otherwise only what is worth a sample.
func (r *rows) write(out source.Out, t time.Duration, end bool) {
	for kind := range r.kind {
		k := &r.kind[kind]
		owed := time.Duration(k.owed)
		if owed < time.Microsecond || !end && owed < rowWorth && t-k.since < rowEvery {
			continue
		}
		if k.stack == nil {
			k.stack = []uint32{out.Frame(tachyon.Frame{Func: rowNames[kind]})}
		}
		for i := 0; i < maxProcs && (i == 0 || end || owed >= time.Millisecond); i++ {
			if i == len(k.last) {
				k.last = append(k.last, r.began)
			}
			// A file may begin here. So the CPU time always follows a sample without it, whose time
			// is later than that of the sample before.
			on := min(owed, t-k.last[i]-2*time.Microsecond)
			if on < time.Microsecond {
				continue
			}
			r.sample = source.Sample{
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
		k.owed, k.since = int64(owed), t
	}
}
