package findings

import (
	"fmt"
	"time"
)

const (
	// idleCores is the number of cores below which a program hardly computes.
	idleCores = 0.05
	// idleWork is the number of goroutines that are not idle, on average, below which it has hardly
	// anything to do.
	idleWork = 0.1
)

// hardlyWorks reports whether a program hardly computes and its goroutines have hardly anything
// else to do.
func (f *facts) hardlyWorks(work time.Duration) bool {
	return float64(f.used) < idleCores*float64(f.length) && float64(work) < idleWork*float64(f.length)
}

// idle says that the program had hardly anything to do.
func idle(f *facts) error {
	if len(f.found) > 0 || !f.hardlyWorks(f.work) {
		return nil
	}
	x := Finding{Kind: Idle, Note: true, Sure: Measured, Command: "report %s --idle"}
	x.Text = fmt.Sprintf("The program was idle: it used %s of CPU in %s, and %s goroutines on average had something to do.", durationText(f.used), durationText(f.length), f.average(f.work))
	f.add(x, place{})
	return nil
}
