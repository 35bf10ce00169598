package findings

import (
	"fmt"
	"time"
)

const (
	// parkedPart is the part of the session that a request waits, on average, from which on it is no question: the client stays, as for a
	// stream of events.
	parkedPart = 0.25
	// waitingAverage is the number of goroutines that wait for a Cond at one place, on average, from which on that matters without requests.
	// One may wait for work, and in a receive or a select several may. waitingShare is the least share of the time.
	waitingAverage, waitingShare = 2, 0.5

	waitCond = "sync.Cond.Wait"
)

// waits says where most of the time is waited, if nothing else says why.
func waits(f *facts) error {
	for i := range f.found {
		if x := &f.found[i]; !x.Note && x.Kind != Sleep {
			return nil
		}
	}
	type key struct {
		place
		state string
	}
	sums := map[key]time.Duration{}
	for _, s := range f.spots {
		switch s.state {
		case "chan receive", "select", waitCond, waitGroup:
			if s.wait == "" && !s.itself && s.op == "" && s.function != "" {
				sums[key{s.place, s.state}] += f.of(s)
			}
		}
	}
	for k, waited := range sums {
		if f.byRequests() {
			if !f.worth(waited, peerShare) {
				continue
			}
			if n := f.Requests; n != nil && (waited < slowAnswer*time.Duration(n.Count) || float64(waited) > parkedPart*float64(n.Count)*float64(f.length)) {
				continue
			}
		} else if k.state != waitCond || !f.worth(waited, waitingShare) || float64(waited) < waitingAverage*float64(f.length) {
			continue
		}
		x := Finding{Kind: Wait, Cost: waited, Share: f.share(waited), Sure: Measured, Since: f.since(f.seriesAt(k.place))}
		x.Text = fmt.Sprintf("%s wait in [%s] at %s: %s%s.", f.who(), k.state, k.place.text(), f.part(waited), sinceText(x.Since))
		x.Evidence = []string{"who or what wakes them is slow, or has too few goroutines: a worker, a consumer or a timer"}
		x.Command = "waits " + quoted(funcFlag(k.function)) + " %s"
		f.add(x, k.place)
	}
	return nil
}
