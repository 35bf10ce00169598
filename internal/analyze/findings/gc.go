package findings

import (
	"fmt"
	"regexp"

	"github.com/gotach/profiler/internal/profile"
)

// collectorFunc are functions of the garbage collector that do its work.
var collectorFunc = regexp.MustCompile(`^runtime\.(gcBgMarkWorker|gcAssistAlloc|gcDrain|gcMarkTermination|gcStart|gcSweep|bgsweep|deductSweepCredit)`)

const (
	// collectorShare is the collector's least share of the CPU time. It may use a quarter of the
	// cores while it marks.
	collectorShare = 0.3
	// collectorCores is the least number of cores that it uses on average.
	collectorCores = 0.1
)

func isCollector(p *profile.Profile, rec *profile.Record) bool {
	if rec.CPU == 0 {
		return false
	}
	for _, id := range rec.Stack {
		if collectorFunc.MatchString(p.Frames[id].Func) {
			return true
		}
	}
	return false
}

// collects reports whether the garbage collector has so much of the CPU time that one should know.
func (f *facts) collects() bool {
	return f.length > 0 && float64(f.collected) >= collectorShare*float64(f.used) && float64(f.collected) >= collectorCores*float64(f.length)
}

// collector says whether the garbage collector has much of the CPU time, and what allocates.
func collector(f *facts) error {
	if !f.collects() {
		return nil
	}
	at, spent := most(f.allocs, byPlace)
	share := float64(f.collected) / float64(f.used)
	x := Finding{Kind: GC, Sure: Measured, Cost: f.collected, Share: share, Command: `report %s --weight cpu --focus 'runtime\.(gc|bgsweep)' --sort total`}
	x.Text = fmt.Sprintf("The garbage collector used %s of CPU, %s of all", profile.DurationText(f.collected), percent(share))
	if spent > 0 {
		x.Text += fmt.Sprintf("; what allocates the most is %s (%s of CPU in allocations there).", at.text(), profile.DurationText(spent))
	} else {
		x.Text += "."
	}
	x.Evidence = append(x.Evidence, fmt.Sprintf("%s cores on average", f.average(f.collected)), "fewer allocations, or a greater GOGC or GOMEMLIMIT, make it run less often")
	f.add(x, at)
	return nil
}
