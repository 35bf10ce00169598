package findings

import (
	"fmt"
	"time"

	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/profile"
)

// aloneShare is the least part of the waits for a WaitGroup in which only one goroutine was left.
const aloneShare = 0.3

// stragglers says which goroutine others wait for last.
func stragglers(f *facts) error {
	chains, err := f.chains()
	if err != nil {
		return err
	}
	for _, s := range f.spots {
		if s.state != waitGroup {
			continue
		}
		for i := range chains[s.place] {
			if n := &chains[s.place][i]; n.State == waitGroup {
				if !f.straggler(s, n) {
					f.childWaits(s, n)
				}
				break
			}
		}
	}
	return nil
}

// childWaits tells of goroutines that wait for those that they have started, which wait for a peer.
func (f *facts) childWaits(s *spot, n *locks.WaitNode) {
	if len(n.Next) == 0 || n.Next[0].Name == "" || n.Next[0].Kind != "" || poolWaits[n.Next[0].Name] != "" || !f.worth(f.of(s), peerShare) || float64(n.Next[0].Time) < peerShare*float64(n.Time) {
		return
	}
	last := &n.Next[0]
	if !f.slow(last.Time, s.place, s.state) {
		return
	}
	at := placeOfHolder(&last.HolderFrame)
	x := Finding{Kind: Peer, Cost: last.Time, Share: f.share(last.Time), Sure: Inferred, Span: f.span(s.series)}
	x.Text = fmt.Sprintf("%s wait for goroutines that wait for %s: %s, at %s%s; they were in %s.", f.who(), last.Name, f.part(last.Time), s.place.text(), x.Span.text(), at.text())
	x.Command = "waits " + quoted(funcFlag(s.place.function)) + " %s"
	x.about = []place{s.place}
	f.add(x, at)
}

// straggler tells of the last goroutine of a WaitGroup. It returns false if there is nothing to
// tell.
func (f *facts) straggler(s *spot, n *locks.WaitNode) bool {
	alone, brother := time.Duration(0), time.Duration(0)
	for i := range n.Next {
		alone += n.Next[i].Alone
		brother += n.Next[i].Brother
	}
	if brother < alone/2 {
		return false // most groups have one goroutine, which is not late
	}
	if float64(alone) < aloneShare*float64(n.Time) || len(n.Next) == 0 || float64(alone) < leastAverage*float64(f.length) || float64(alone) < leastShare*float64(f.base) {
		return false
	}
	last := &n.Next[0]
	if last.State == profile.Runnable || last.State == profile.NoCore {
		return false // it is late as there are too few cores
	}
	at := placeOfHolder(&last.HolderFrame)
	x := Finding{Kind: Straggler, Cost: alone, Share: f.share(alone), Sure: Inferred, Span: f.span(s.series)}
	x.Text = fmt.Sprintf("The last goroutine of a WaitGroup is late: of %s in Wait at %s only one was left for %s%s; it %s (%s of it).",
		durationText(n.Time), s.place.text(), durationText(alone), x.Span.text(), f.activityOf(last), percentOf(last.Time, n.Time))
	x.Command = "waits " + quoted(funcFlag(s.place.function)) + " %s"
	x.about = []place{at}
	f.add(x, s.place)
	return true
}
