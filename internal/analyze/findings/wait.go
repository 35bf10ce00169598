package findings

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/profile"
)

const (
	// parkedPart is the part of the session that a request waits, on average, from which on it is
	// no question: the client stays, as for a stream of events.
	parkedPart = 0.25
	// waitingAverage is the number of goroutines that wait for a Cond at one place, on average,
	// from which on that matters without requests. One may wait for work, and in a receive or a
	// select several may. waitingShare is the least share of the time.
	waitingAverage, waitingShare = 2, 0.5
	// answerShare is the least share of the time that goroutines wait for an answer of others
	// without requests, while cores are left: where each of them waits for one that works, it is
	// half.
	answerShare = 0.6

	// workingAverage is the number of goroutines that do something else, on average, if some of it
	// is what requests wait for. If nobody does, they wait for something that has not happened,
	// such as the next message.
	workingAverage = 0.2
	// syncedShare is the part of the time on the clock in which a goroutine that is in no request
	// waits for the disk, from which on it may be that for which others wait. Without requests it
	// is, if waitingAverage of them wait at one place, as those do that wait for what they have
	// written, for at least syncWaitShare of the time.
	syncedShare, syncWaitShare = 0.3, 0.2

	waitCond = "sync.Cond.Wait"
)

// waitSums are the time of goroutines that wait for others, of which it is not known who they are,
// and of what goroutines do meanwhile.
type waitSums struct {
	sums    map[doing]time.Duration
	asks    map[doing]bool
	work    map[doing]time.Duration
	working time.Duration
	syncs   map[place]time.Duration // time that is in no request, by function
	leads   map[place]time.Duration // time of requests, by line: one may write for others that wait there
}

func (f *facts) waitSums() *waitSums {
	w := &waitSums{
		sums: map[doing]time.Duration{}, asks: map[doing]bool{}, work: map[doing]time.Duration{},
		syncs: map[place]time.Duration{}, leads: map[place]time.Duration{},
	}
	for _, s := range f.spots {
		at := doing{s.place, s.state}
		switch s.state {
		case "chan receive", "select", waitCond, waitGroup:
			if (s.wait == "" || s.wait == locks.EqualCall) && (!s.itself || f.byRequests()) && s.op == "" && s.function != "" {
				w.sums[at] += f.of(s)
				w.asks[at] = w.asks[at] || s.asks
				continue
			}
		}
		if s.op != opTick {
			w.working += s.wall
			w.work[at] += s.wall
		}
		switch {
		case s.op == opSync && s.asked == 0:
			w.syncs[place{function: s.function, file: s.file}] += s.wall
		case s.op == opSync:
			w.leads[s.place] += s.wall
		}
	}
	return w
}

// waits says where most of the time is waited, if nothing else says why.
func waits(f *facts) error {
	for i := range f.found {
		if x := &f.found[i]; !x.Note && x.Kind != Sleep {
			return nil
		}
	}
	w := f.waitSums()
	order := slices.SortedFunc(maps.Keys(w.sums), func(a, b doing) int {
		return cmp.Or(cmp.Compare(w.sums[b], w.sums[a]), byDoing(a, b))
	})
	usual, usually := most(w.syncs, byPlace)
	disk := -1 // the number of the finding: one cause, wherever goroutines wait for it
	some := time.Duration(workingAverage * float64(f.length))
	for _, k := range order {
		waited, syncer, synced := w.sums[k], usual, usually
		if w.leads[k.place] > synced {
			syncer, synced = k.place, w.leads[k.place]
		}
		onDisk := float64(synced) >= syncedShare*float64(f.length)
		many := !f.byRequests() && float64(waited) >= waitingAverage*float64(f.length)
		switch {
		case f.byRequests() && (!f.worth(waited, peerShare) || w.working < some):
		case onDisk && (f.byRequests() || many && k.state != "select" && f.worth(waited, syncWaitShare)):
			if disk >= 0 {
				if x := &f.found[disk]; len(x.Evidence) < 5 {
					x.Evidence = append(x.Evidence, fmt.Sprintf("in [%s] at %s: %s", k.state, k.place.text(), f.part(waited)))
				}
				continue
			}
			disk = len(f.found)
			f.waitsForDisk(k, waited, syncer, synced)
		case f.byRequests() && f.slow(waited, k.place, k.state) && !f.stays(waited), many && k.state == waitCond && f.worth(waited, waitingShare),
			many && f.worth(waited, answerShare) && w.working >= some && !f.onCores(f.used+f.noCore) && (w.asks[k] || k.state == waitGroup):
			meanwhile := ""
			if does, wall := most(w.work, byDoing); does.function != "" && 2*wall >= w.working && wall >= some {
				meanwhile = fmt.Sprintf("; meanwhile %s goroutines on average %s", f.average(wall), f.activity(does.state, does.place))
			}
			f.waitsAt(k.place, k.state, waited, meanwhile)
		}
	}
	return nil
}

// waitsForDisk says that goroutines wait at a place for one that waits for the disk.
func (f *facts) waitsForDisk(at doing, waited time.Duration, syncer place, synced time.Duration) {
	x := Finding{Kind: Fsync, Cost: waited, Share: f.share(waited), Sure: Inferred, Span: f.span(f.seriesAt(at.place))}
	x.Text = fmt.Sprintf("%s wait in [%s] at %s: %s%s; meanwhile another goroutine waits until data are on the disk (fsync) for %s of the time, in %s.",
		f.who(), at.state, at.text(), f.part(waited), x.Span.text(), percent(float64(synced)/float64(f.length)), profile.FuncName(syncer.function))
	x.Evidence = []string{opWords[opSync].hint}
	x.Command = "waits " + quoted(funcFlag(at.function)) + " %s"
	x.about = []place{syncer}
	f.add(x, at.place)
}

// waitsAt says that most of the time is waited at a place, for what is not known, and what others
// do meanwhile.
func (f *facts) waitsAt(at place, state string, waited time.Duration, meanwhile string) {
	x := Finding{Kind: Wait, Cost: waited, Share: f.share(waited), Sure: Measured, Span: f.span(f.seriesAt(at))}
	x.Text = fmt.Sprintf("%s wait in [%s] at %s: %s%s%s.", f.who(), state, at.text(), f.part(waited), x.Span.text(), meanwhile)
	x.Evidence = []string{"who or what wakes them is slow, or has too few goroutines: a worker, a consumer or a timer"}
	x.Command = "waits " + quoted(funcFlag(at.function)) + " %s"
	f.add(x, at)
}
