package findings

import (
	"fmt"
	"time"

	"github.com/gotach/profiler/internal/analyze/locks"
)

// sleepShare is the least share of the time that is slept.
const sleepShare = 0.2

// sleepWeight puts sleeps behind what others must wait for: who sleeps has chosen to.
const sleepWeight = 0.3

// sleeps says where requests, or goroutines that are not idle, sleep.
func sleeps(f *facts) error {
	for _, s := range f.spots {
		if s.op != opSleep || !f.worth(f.of(s), sleepShare) || s.state != "sleep" && f.stays(s.asked) {
			continue
		}
		if !f.byRequests() && s.wall <= f.length+f.length/20 && f.hardlyWorks(f.work-s.wall) {
			f.work -= s.wall // one goroutine has nothing to do until a time comes
			continue
		}
		x := Finding{Kind: Sleep, weight: sleepWeight, Cost: f.of(s), Share: f.share(f.of(s)), Sure: Measured, Span: f.span(s.series)}
		x.Note = !f.byRequests() && s.state != "sleep" && s.wall <= f.length+f.length/20 // one goroutine may have nothing to do until then
		x.Text = fmt.Sprintf("%s sleep: %s, at %s%s.", f.who(), f.part(f.of(s)), s.place.text(), x.Span.text())
		x.Evidence = []string{"is it a retry, or a poll for something that could wake it?"}
		x.Command = "report %s --tree --focus " + quoted(funcFlag(s.place.function))
		f.add(x, s.place)
	}
	return f.polls()
}

// polls says for whom requests wait who looks only when a time comes.
func (f *facts) polls() error {
	chains, err := f.chains()
	if err != nil || f.Requests == nil {
		return err
	}
	for _, s := range f.spots {
		if !f.answers(s) || !f.worth(f.of(s), peerShare) || f.stays(f.of(s)) || !f.slow(f.of(s), s.place, s.state) {
			continue
		}
		for i := range chains[s.place] {
			n := &chains[s.place][i]
			if n.State != s.state || len(n.Next) == 0 || n.Next[0].Time < n.Time/2 || n.Next[0].Name != locks.ATime && n.Next[0].State != "sleep" {
				continue
			}
			at := placeOfHolder(&n.Next[0].HolderFrame)
			x := Finding{Kind: Sleep, weight: sleepWeight, Cost: f.of(s), Share: f.share(f.of(s)), Sure: Inferred, Span: f.span(s.series)}
			x.Text = fmt.Sprintf("Requests wait for a goroutine that waits until a time comes: %s, in [%s] at %s%s; it is in %s meanwhile (%s of it).",
				f.part(f.of(s)), s.state, s.place.text(), x.Span.text(), at.text(), percentOf(n.Next[0].Time, n.Time))
			x.Evidence = []string{"does it look into a queue at each tick? A channel would wake it at once"}
			x.Command = "waits " + quoted(funcFlag(s.place.function)) + " %s"
			x.about = []place{at}
			f.add(x, s.place)
			break
		}
	}
	return nil
}

// stays reports whether requests that wait for so long stay, as for a stream of events, so that the
// wait is no question.
func (f *facts) stays(waited time.Duration) bool {
	return f.Requests != nil && waited > 0 && float64(waited) > parkedPart*float64(f.Requests.Count)*float64(f.length)
}
