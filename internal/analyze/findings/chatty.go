package findings

import (
	"fmt"
	"strings"

	"github.com/gotach/profiler/internal/analyze/locks"
)

const (
	// chattyShare is the least share of the time of requests of waits that come again and again.
	chattyShare = 0.4
	// chattyWaits is the number of such waits that were seen of each request, on average. There
	// were more: a tick sees at most one.
	chattyWaits = 4

	fewer = "can one question take the place of many?"
)

// chatty says at which line requests wait for a peer again and again.
func chatty(f *facts) error {
	if f.Requests == nil || !f.byRequests() {
		return nil
	}
	for i := range f.Requests.Repeats {
		r := &f.Requests.Repeats[i]
		at := place{r.Func, r.File, r.Line}
		if r.Each() < chattyWaits || !f.worth(r.Time, chattyShare) || !f.asks(at, r.State) {
			continue
		}
		x := Finding{Kind: Chatty, Cost: r.Time, Share: f.share(r.Time), Sure: Measured, Span: f.span(f.seriesAt(at)), Command: "requests %s"}
		x.Text = fmt.Sprintf("Requests wait many times at one line: at least %.1f times each, %s, in [%s] at %s%s.", r.Each(), f.part(r.Time), r.State, at.text(), x.Span.text())
		x.Evidence = []string{fmt.Sprintf("%d waits of %d requests were seen there; a tick sees one, so there were more", r.Waits, r.Requests), fewer}
		f.add(x, at)
	}
	return nil
}

// again returns how often each request that waits at a line was seen to, on average; 0: unknown.
func (f *facts) again(at place) float64 {
	if f.Requests != nil && f.byRequests() {
		for i := range f.Requests.Repeats {
			if r := &f.Requests.Repeats[i]; at == (place{r.Func, r.File, r.Line}) {
				return r.Each()
			}
		}
	}
	return 0
}

// asks reports whether goroutines wait for the answer of another program at a line.
func (f *facts) asks(at place, state string) bool {
	for _, s := range f.spots {
		if s.place == at && s.state == state && s.op != opSleep && s.op != opWrite && !strings.Contains(s.peer, " from ") && (s.itself || s.wait != "" && s.wait != locks.LockOfSQLite && poolWaits[s.wait] == "" || s.state == "IO wait") {
			return true
		}
	}
	return false
}
