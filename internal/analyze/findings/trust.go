package findings

import (
	"fmt"
	"strings"
)

const (
	// fewTicks is the number of ticks below which a profile says little.
	fewTicks = 100
	// hardlyTicks is the number of ticks below which nothing else that is found is worth reading
	// first.
	hardlyTicks = 30
	// slowTicks is the number of ticks a second below which waits of many milliseconds are not
	// seen.
	slowTicks = 30
	// unseenShare is the part of the time of goroutines that no sample stands for, above which what
	// is seen is not all that matters.
	unseenShare = 0.2
	// lostShare is the part of the samples that were dropped.
	lostShare = 0.05
)

// unknown says that gotach did not record the profile: then nothing tells idle time from work.
func (f *facts) unknown() {
	f.add(Finding{Kind: Profile, Note: true, Sure: Measured, Command: "report %s", Text: "The profile is of another format, which does not say what was idle, so nothing can be found in it."}, place{})
}

// trust says why the profile itself may mislead, and what to set.
func trust(f *facts) error {
	s := f.session
	var why, set []string
	if s.TicksReached > 0 && s.TicksReached < fewTicks {
		why, set = append(why, fmt.Sprintf("it has %s only", plural(int(s.TicksReached), "tick"))), append(set, "record for longer")
	} else if s.RateReached > 0 && s.RateReached < slowTicks && s.TicksForBudget > s.TicksAsked/2 {
		why, set = append(why, fmt.Sprintf("it has %.0f ticks a second only, as %d goroutines cost the budget of %g %%", s.RateReached, s.MaxGoroutines, s.Budget)), append(set, "set PROFILE_BUDGET to more")
	}
	if s.Source == "portable" {
		reason := s.SourceReason
		if reason != "" {
			reason = ": " + reason
		}
		why = append(why, "its source is the portable one, which stops the program and knows neither CPU time nor locks"+reason)
		set = append(set, "the native source needs Linux on amd64 or arm64")
	}
	total := f.work + f.p.Idle + s.NotSeen
	for _, x := range f.p.Apart {
		total += x.Wall
	}
	if float64(s.NotSeen) > unseenShare*float64(total) {
		why, set = append(why, fmt.Sprintf("no sample stands for %s of goroutines, %s of all their time", durationText(s.NotSeen), percent(float64(s.NotSeen)/float64(total)))), append(set, "set PROFILE_RATE or PROFILE_BUDGET to more")
	}
	if all := s.Samples + s.Dropped; float64(s.Dropped) > lostShare*float64(all) {
		why, set = append(why, fmt.Sprintf("%s of its samples were dropped", percent(float64(s.Dropped)/float64(all)))), append(set, "look at gotach info")
	}
	if len(why) == 0 {
		return nil
	}
	x := Finding{Kind: Profile, Note: true, Sure: Measured, Command: "info %s", Text: "The profile may mislead: " + strings.Join(why, "; ") + ". To cure it: " + strings.Join(set, "; ") + "."}
	if x.first = s.TicksReached > 0 && s.TicksReached < hardlyTicks; x.first {
		x.Share = 1
	}
	f.add(x, place{})
	return nil
}
