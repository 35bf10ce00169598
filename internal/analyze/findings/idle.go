package findings

import "fmt"

const (
	// idleCores is the number of cores below which a program hardly computes.
	idleCores = 0.05
	// idleWork is the number of goroutines that are not idle, on average, below which it has hardly anything to do.
	idleWork = 0.1
)

// idle says that the program had hardly anything to do.
func idle(f *facts) error {
	if f.length <= 0 || float64(f.used) >= idleCores*float64(f.length) || float64(f.work) >= idleWork*float64(f.length) || len(f.found) > 0 {
		return nil
	}
	x := Finding{Kind: Idle, Note: true, Sure: Measured, Command: "report %s --idle"}
	x.Text = fmt.Sprintf("The program was idle: it used %s of CPU in %s, and %s goroutines on average had something to do.", durationText(f.used), durationText(f.length), f.average(f.work))
	f.add(x, place{})
	return nil
}
