//go:build linux && (amd64 || arm64)

package native

import (
	"time"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/sampler/internal/source"
)

// How often goroutines stop running. The runtime counts it for each in g.trackingSeq: it grows by
// one when the goroutine begins to wait, is preempted, or comes out of a system call and has no P.
// So the difference between two visits is the number of stops between them, modulo 256.
//
// Only visits by the tick's thread count, since these are in order. A thread that records its own
// goroutine may do so before a visit and its record come after that one.

// stops is what the drain knows of the stops of a goroutine.
type stops struct {
	untold source.Stops  // no sample has them yet
	known  bool          // there was a visit
	seq    uint8         // trackingSeq at the latest visit
	at     time.Duration // until then it is known to have had that seq
	pace   float32       // stops a second, a moving average of short times between visits
}

const (
	// A difference of mostStops or more between two visits may have passed 256: a goroutine that
	// stops as often soon has one. So it may if so many stops are to be expected as in
	// mostExpected.
	mostStops, mostExpected = 192, 200

	// After a time longer than trusted, more stops than are expected count as proportionally more.
	trusted = 50 * time.Millisecond

	paceOf = 8 // times between visits in the moving average, about
)

// count counts the stops of a goroutine up to a record.
func (s *stops) count(r record, t time.Duration) {
	if r.flags()&flagTaken != 0 || r.status() == goruntime.GRunning {
		return
	}
	seq := r.seq()
	n, passed := float32(seq-s.seq), max(t-s.at, time.Millisecond)
	known := s.known
	s.seq, s.at, s.known = seq, t, true
	if !known {
		return
	}
	expected := s.pace * float32(passed.Seconds())
	unsure := n >= mostStops || expected > mostExpected
	switch pace := n / float32(passed.Seconds()); {
	case passed > trusted:
		unsure = unsure || n > 2*expected+mostStops*float32(trusted)/float32(passed)
	case s.pace == 0:
		s.pace = pace
	default:
		s.pace += (pace - s.pace) / paceOf
	}
	if n > 0 {
		s.untold.Add(source.Stops{N: uint32(n), AtLeast: unsure})
	}
}
