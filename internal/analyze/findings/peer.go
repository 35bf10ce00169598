package findings

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/analyze/requests"
	"github.com/gotach/profiler/internal/profile"
)

const (
	// alwaysWaits is the part of the clock's time that one goroutine waits for a peer if it does
	// hardly anything else.
	alwaysWaits = 0.8
	// alwaysWeight puts it behind what waits for such a goroutine as long, as one does that waits
	// for a place in a group with a limit.
	alwaysWeight = 0.9
	// peerShare is the least share of the time that is waited for a peer.
	peerShare = 0.3
	// slowAnswer is the time for which a request waits for a peer, on average, from which on the
	// peer is slow.
	slowAnswer = 10 * time.Millisecond
	// mostExplained is the share that other findings explain at most: an answer has a tenth of all
	// the time, or nothing is said of it.
	mostExplained = 2.0 / 3
	// longTail is how much longer than half of the requests one of a hundred takes, from which on
	// that is said.
	longTail = 20
)

// peers says which other programs keep goroutines waiting.
func peers(f *facts) error {
	type key struct {
		peer, wait string
		writes     bool
	}
	times := map[key]time.Duration{}
	first := map[key]*spot{}
	series := map[key][]float32{}
	named, ends := map[key]time.Duration{}, f.endsOfLines() // the part of times whose connections have names
	for _, s := range f.spots {
		k := key{s.peer, s.wait, s.op == opWrite}
		if k.wait == "" && k.peer == "" && s.state == "IO wait" {
			k.peer = ends[s.place]
		}
		if s.op == opDNS || s.op == opTLS || s.op == opDial || poolWaits[s.wait] != "" || s.wait == locks.EqualCall || s.wait == locks.MessageOfNATS && !f.byRequests() || s.wait == "" && (s.state != "IO wait" || k.peer == "") {
			continue
		}
		if strings.Contains(k.peer, " from ") && !k.writes {
			continue // a client: what it asks next is its own affair, but it has to read its answers
		}
		times[k] += f.of(s)
		if k.peer == s.peer {
			named[k] += f.of(s)
		}
		series[k] = profile.Plus(series[k], s.series)
		if first[k] == nil || f.of(s) > f.of(first[k]) {
			first[k] = s
		}
	}
	for k, waited := range times {
		always := !f.byRequests() && float64(waited) >= alwaysWaits*float64(f.length) && float64(waited) <= 1.05*float64(f.length)
		s := first[k]
		if !f.worth(waited, peerShare*(1-f.explained())) && !(always && f.worth(waited, leastShare)) || !f.slow(waited, s.place, s.state) {
			continue
		}
		what := k.wait
		switch {
		case k.peer != "" && what != "":
			what += " (" + peerText(k.peer) + ")"
		case k.peer != "":
			what = peerText(k.peer)
		}
		if k.writes {
			what = readerText(k.peer) + " to read what they write"
		}
		x := Finding{Kind: Peer, Cost: waited, Share: f.share(waited), Sure: Measured, Span: f.span(series[k])}
		if 2*named[k] < waited {
			x.Sure = Inferred
		}
		if always { // one goroutine does nothing else: on the clock that is the whole time
			x.clock = alwaysWeight * float64(waited) / float64(max(f.length, waited))
		}
		x.Text = fmt.Sprintf("%s wait for %s: %s, most of it at %s%s.", f.who(), what, f.part(waited), s.place.text(), x.Span.text())
		if f.byRequests() && f.Requests != nil && f.Requests.Count > 0 {
			x.Evidence = append(x.Evidence, halfTook(f.Requests))
		}
		switch x.Command = "report %s --by peer"; {
		case s.state != "IO wait": // another goroutine has the connection
			x.Command = "waits " + quoted(funcFlag(s.place.function)) + " %s"
		case x.Sure == Inferred:
			x.Command = "report %s --blocked"
		}
		if k.wait == locks.LockOfSQLite {
			x.Kind, x.Command = Lock, "waits "+quoted(funcFlag(s.place.function))+" %s"
			x.Evidence = append(x.Evidence, "one connection at a time can write: make transactions that write short")
		}
		f.add(x, s.place)
	}
	return nil
}

// endsOfLines returns the far end of each line at which goroutines wait for one only: of short
// connections many have no name.
func (f *facts) endsOfLines() map[place]string {
	ends, several := map[place]string{}, map[place]bool{}
	for _, s := range f.spots {
		if s.state == "IO wait" && s.peer != "" {
			several[s.place] = several[s.place] || ends[s.place] != "" && ends[s.place] != s.peer
			ends[s.place] = s.peer
		}
	}
	maps.DeleteFunc(ends, func(at place, _ string) bool { return several[at] })
	return ends
}

// halfTook says how many requests there are, and how long half of them took. If a few of them take
// much longer, as those do that end at a limit of time, it says so.
func halfTook(r *requests.Requests) string {
	half := durationText(r.P50) + " or less"
	if r.P50 == 0 { // it is a limit
		half = "less than " + durationText(r.P50Below)
	}
	count := fmt.Sprint(r.Count)
	if !r.Known() {
		count = fmt.Sprintf("at least %d", r.Low)
	}
	if r.P99 > longTail*max(r.P50, r.P50Below) {
		half += ", and one of a hundred " + durationText(r.P99) + " or more"
	}
	return fmt.Sprintf("%s requests, half of them took %s", count, half)
}

// explained returns the share of the time of requests of which it is known already why they wait:
// what else they wait for is to be compared with the rest.
func (f *facts) explained() (share float64) {
	if !f.byRequests() {
		return 0
	}
	for i := range f.found {
		switch x := &f.found[i]; x.Kind {
		case Lock, Pool, Channel, Straggler:
			share += x.Share
		}
	}
	return min(share, mostExplained)
}

// slow reports whether requests that wait at a line, or all of them, wait long enough for an
// answer. Lines at which few of the requests wait count by those that were seen there: a short wait
// is seen as one of a tick.
func (f *facts) slow(waited time.Duration, at place, state string) bool {
	if !f.byRequests() || f.Requests == nil || waited >= slowAnswer*time.Duration(f.Requests.Count) {
		return true
	}
	i := slices.IndexFunc(f.Requests.Waits, func(r requests.Repeat) bool { return place{r.Func, r.File, r.Line} == at && r.State == state })
	if i < 0 || f.session.RateReached <= 0 {
		return false
	}
	least := max(slowAnswer, time.Duration(3*float64(time.Second)/f.session.RateReached))
	return f.Requests.Waits[i].Time >= least*time.Duration(f.Requests.Waits[i].Requests)
}

func durationText(d time.Duration) string { return profile.DurationText(d) }
