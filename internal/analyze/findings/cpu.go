package findings

import (
	"fmt"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/profile"
)

const (
	// fullCores is the share of the cores from which on the program uses them all.
	fullCores = 0.85
	// mostCores is that from which on one goroutine that hands out work is not kept from it by too
	// few places: those who collect garbage and begin goroutines have the rest.
	mostCores = 0.6
	// queueShare is the share of the time that waits for a core must have.
	queueShare = 0.25
	// fewProcs is the share of GOMAXPROCS that a program which needs more has in use, and
	// procsQueue the number of goroutines that wait to run meanwhile, on average. busyShare is the
	// part of the time in which goroutines ran that others may have: a greater GOMAXPROCS has no
	// more cores then.
	fewProcs, procsQueue, busyShare = 0.7, 0.5, 0.5
	// longQueues is the number of goroutines that wait to run for each of GOMAXPROCS, on average,
	// from which on these are in use: beside other programs, less of the time in which their
	// threads have no core may be seen than there is.
	longQueues = 2
	// queueLength is the number of goroutines that wait for each core, on average, from which on it
	// matters; crowdedLength is that if other programs have a part of the cores.
	queueLength, crowdedLength = 1, 3
	// anyQueue is that from which on it matters whoever waits: a connection waits before its
	// request begins.
	anyQueue = 4
	// queuePart is the least part of the session in which there is such a queue.
	queuePart = 0.1
	// collectedWeight puts it behind the garbage collector, if that has much of the CPU time.
	collectedWeight = 0.5
	// quotaShare is the share of the time in which the quota stopped the program.
	quotaShare = 0.05
	// otherShare is the part of the time in which goroutines ran that the kernel gave to others.
	otherShare = 0.25
)

// cpu says whether the CPU is the limit, and why: the cores, the quota or other programs.
func cpu(f *facts) error {
	if f.length <= 0 {
		return nil
	}
	cores := max(1, f.session.GOMAXPROCS)
	at, _ := most(f.hot, byPlace)
	used := float64(f.used) / float64(f.length)
	queued := f.runnable + f.noCore
	if f.byRequests() {
		queued = f.askedQueue
	}
	x := Finding{Kind: CPU, Sure: Measured, Cost: queued, Share: f.share(queued), Evidence: f.cpuEvidence(), Command: "report %s --weight cpu"}
	ran := f.noCore + f.used
	others := float64(f.noCore) >= otherShare*float64(ran)
	throttled, of := f.session.Throttled, max(f.length, f.session.ThrottledOf)
	part := f.session.ThrottledOf > 0
	switch {
	case float64(throttled) >= quotaShare*float64(of) && (!part || float64(f.noCore+f.runnable) >= quotaShare*float64(f.length)):
		x.Kind = Quota
		x.Text = fmt.Sprintf("The CPU quota is the limit: it stopped the program for %s of %s, in %s.", profile.DurationText(throttled), profile.DurationText(of), plural(int(f.session.ThrottledPeriods), "period"))
		if part {
			x.Sure = Inferred
			x.Text += fmt.Sprintf(" That is of the whole recording: how much of it was in this part, which has %s, is not known.", profile.DurationText(f.length))
		}
		x.Cost, x.Share = throttled, min(1, float64(throttled)/float64(of))
		f.add(x, at)
	case f.session.GOMAXPROCS > 0 && f.session.CPUs >= float64(cores+1) && (float64(ran) >= fewProcs*float64(cores)*float64(f.length) || f.runnable >= longQueues*time.Duration(cores)*f.length) &&
		float64(f.noCore) <= busyShare*float64(ran) && f.worth(queued, queueShare) && float64(f.runnable) >= procsQueue*float64(f.length):
		x.Text = fmt.Sprintf("The CPU is the limit: GOMAXPROCS is %d, and the program may use %.3g cores. %s wait to run: %s; %s goroutines on average wait.",
			cores, f.session.CPUs, f.who(), f.part(queued), f.average(f.runnable+f.noCore))
		f.add(x, at)
	case f.byRequests() && float64(queued) >= queueShare*float64(f.base) && f.runnable+f.noCore >= f.longQueue(cores, others):
		if f.collects() {
			x.weight = collectedWeight
		}
		x.Text = fmt.Sprintf("The cores are the limit: requests wait for one for %s; %s goroutines on average wait for %d cores.", f.part(queued), f.average(f.runnable+f.noCore), cores)
		if others {
			x.Text += fmt.Sprintf(" Other programs had the cores for %s of the time in which goroutines ran.", percent(float64(f.noCore)/float64(ran)))
		}
		f.add(x, at)
	case f.byRequests() && !others && f.runnable+f.noCore >= time.Duration(anyQueue*cores)*f.length && f.queueStays(cores):
		x.Cost, x.Share = f.runnable+f.noCore, min(1, float64(f.runnable+f.noCore)/float64(max(1, f.work)))
		x.Text = fmt.Sprintf("The cores are the limit: goroutines wait for one for %s, %s of the time that was not idle; %s on average wait for %d cores.",
			profile.DurationText(x.Cost), percent(x.Share), f.average(x.Cost), cores)
		f.add(x, at)
	case others && (f.worth(f.noCore, leastShare/2) || f.worth(queued, queueShare)):
		x.Kind = Others
		x.Text = fmt.Sprintf("Other programs had the cores: goroutines that ran had none for %s, %s of the time in which they ran.", profile.DurationText(f.noCore), percent(float64(f.noCore)/float64(ran)))
		x.Cost, x.Share, x.Note = f.noCore, float64(f.noCore)/float64(ran), true
		f.add(x, place{})
	case used >= fullCores*float64(cores):
		// A program that computes on all cores does what it can.
		x.Text = fmt.Sprintf("All cores are used: %s of %d on average; it takes less time if it computes less.", profile.Digits(used), cores)
		x.Note = true
		f.add(x, at)
	}
	return nil
}

// queueStays reports whether goroutines wait for cores in queuePart of the session. When many wake up
// together, as at its end, they do for a moment.
func (f *facts) queueStays(cores int) bool {
	var series []float32
	for _, s := range f.spots {
		if s.state == profile.Runnable || s.state == profile.NoCore {
			series = profile.Plus(series, s.series)
		}
	}
	all, parts := float32(0), 0
	for _, v := range series {
		all += v
	}
	average := float32(f.runnable+f.noCore) / float32(f.length)
	for _, v := range series {
		if v/all*average*float32(len(series)) >= float32(queueLength*cores) {
			parts++
		}
	}
	return float64(parts) >= queuePart*float64(len(series))
}

// cpuEvidence says where the CPU time is, and where goroutines waited for a core.
func (f *facts) cpuEvidence() (evidence []string) {
	if at, hot := most(f.hot, byPlace); hot > 0 {
		evidence = append(evidence, fmt.Sprintf("%s of the CPU time of goroutines (%s) is in %s", profile.DurationText(hot), percent(float64(hot)/float64(max(1, f.computed))), profile.FuncName(at.function)))
	}
	evidence = append(evidence, fmt.Sprintf("%s goroutines on average waited for a core (runnable %s, no core %s)", f.average(f.runnable+f.noCore), profile.DurationText(f.runnable), profile.DurationText(f.noCore)))
	lines := map[place]time.Duration{}
	for _, s := range f.spots {
		if s.state == profile.Runnable || s.state == profile.NoCore {
			lines[s.place] += s.wall
		}
	}
	if line, waited := most(lines, byPlace); 2*waited >= f.runnable+f.noCore && isProgram(line) {
		evidence = append(evidence, fmt.Sprintf("%s of that at %s", percentOf(waited, f.runnable+f.noCore), line.text()))
	}
	return evidence
}

// feeds reports whether goroutines that waited for so long hand out work to others that compute on
// most cores, or would if other programs had none. With more places they would not be faster.
func (f *facts) feeds(waited time.Duration) bool {
	return !f.byRequests() && waited <= f.length+f.length/20 && f.onCores(f.used+f.noCore+f.runnable)
}

// onCores reports whether a time is that of most cores.
func (f *facts) onCores(t time.Duration) bool {
	return float64(t) >= mostCores*float64(max(1, f.session.GOMAXPROCS))*float64(f.length)
}

// longQueue returns the time of goroutines that wait for a core from which on cores are the limit.
func (f *facts) longQueue(cores int, others bool) time.Duration {
	if others {
		return crowdedLength * time.Duration(cores) * f.length
	}
	return queueLength * time.Duration(cores) * f.length
}

// serial says whether one goroutine computes all the time while cores have nothing to do.
func serial(f *facts) error {
	if f.session.GOMAXPROCS < 2 || f.length <= 0 || f.byRequests() {
		return nil
	}
	entry, _ := most(f.entries, strings.Compare) // the goroutine's, as it has most of the CPU time
	cpu := f.Survey.Busiest
	one := float64(cpu) / float64(f.length)
	wants := one + float64(f.noCore)/float64(f.length) // nearly all of that is its time
	if wants < serialLeast || one < serialLeast/2 || one > serialMost || float64(cpu) < serialShare*float64(f.computed) {
		return nil
	}
	at, inside := most(f.hot, byPlace)
	waited := time.Duration(0)
	for _, s := range f.spots {
		if s.state != profile.Running && s.state != profile.NoCore && s.state != profile.Runnable && s.state != profile.Syscall {
			waited += s.wall
		}
	}
	x := Finding{Kind: Serial, weight: serialWeight, Cost: cpu, Share: min(1, one), Sure: Inferred, Command: "report %s --weight latency"}
	x.Text = fmt.Sprintf("One goroutine computes while others wait: that which began with %s used %s of %d cores on average", profile.FuncName(entry), profile.Digits(one), f.session.GOMAXPROCS)
	if inside > 0 {
		x.Text += fmt.Sprintf(", %s of it in %s", percent(float64(inside)/float64(max(1, cpu))), profile.FuncName(at.function))
	}
	others := waited + f.p.Idle
	x.Text += fmt.Sprintf("; %s other goroutines waited on average.", f.average(others))
	x.Note = float64(others) < 0.9*float64(f.length)
	f.add(x, at)
	return nil
}

const (
	// serialLeast and serialMost are the cores that one goroutine uses which always computes. If
	// other programs have the cores for a part of its time, it uses half of that at least.
	serialLeast, serialMost = 0.7, 1.05
	// serialShare is its part of the CPU time of goroutines.
	serialShare = 0.85
	// serialWeight puts it behind what others wait for: it may be that.
	serialWeight = 0.5
)
