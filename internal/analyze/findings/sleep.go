package findings

import "fmt"

// sleepShare is the least share of the time that is slept.
const sleepShare = 0.2

// sleepWeight puts sleeps behind what others must wait for: who sleeps has chosen to.
const sleepWeight = 0.3

// sleeps says where requests, or goroutines that are not idle, sleep.
func sleeps(f *facts) error {
	for _, s := range f.spots {
		if s.op != opSleep || !f.worth(f.of(s), sleepShare) {
			continue
		}
		if !f.byRequests() && s.wall <= f.length+f.length/20 && f.hardlyWorks(f.work-s.wall) {
			f.work -= s.wall // one goroutine has nothing to do until a time comes
			continue
		}
		x := Finding{Kind: Sleep, weight: sleepWeight, Cost: f.of(s), Share: f.share(f.of(s)), Sure: Measured, Since: f.since(s.series)}
		x.Text = fmt.Sprintf("%s sleep: %s, at %s%s.", f.who(), f.part(f.of(s)), s.place.text(), sinceText(x.Since))
		x.Evidence = []string{"is it a retry, or a poll for something that could wake it?"}
		x.Command = "report %s --tree --focus " + quoted(funcFlag(s.place.function))
		f.add(x, s.place)
	}
	return nil
}
