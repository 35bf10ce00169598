package findings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/profile"
)

// dialShare is the part of the waits for a connection of http.Transport in which connections are
// made. From there on it is not the pool that is too small.
const dialShare = 0.5

// nestedShare is the least share of the time in which goroutines wait for a connection that have
// one. It is low, as others wait for them.
const nestedShare = 0.02

// fullPlaces is the part of the places of a semaphore that are taken on average, if goroutines wait
// for them.
const fullPlaces = 0.7

// pools says for which connections and places goroutines wait, and what those do that have one.
func pools(f *facts) error {
	chains, err := f.chains()
	if err != nil {
		return err
	}
	nested := f.nested(chains)
	type pool struct {
		wait string
		uses place
	}
	told := map[pool]int{} // one pool, wherever goroutines wait for it, if what those do that have one is known
	lines := f.poolLines(nested)
	for _, s := range f.byWait() {
		hint, line := poolWaits[s.wait], lines[s.wait]
		if hint == "" || nested[s.place] || !f.worth(f.of(s), leastShare) && (s.place != line.most || !f.worth(line.time, leastShare)) || f.feeds(s.wall) {
			continue
		}
		if s.wait == "a connection of http.Transport" && f.dials(s) {
			continue
		}
		name, uses, at, sure := f.poolHolders(chains[s.place], s.wait)
		if i, ok := told[pool{s.wait, at}]; ok {
			x := &f.found[i]
			x.Cost += f.of(s)
			x.Share = f.share(x.Cost)
			x.Evidence = append(x.Evidence, othersWait(s, f.of(s)))
			continue
		}
		x := Finding{Kind: Pool, Cost: f.of(s), Share: f.share(f.of(s)), Sure: sure, Span: f.span(s.series)}
		what := "pool is too small"
		if !strings.Contains(s.wait, "connection") {
			what = "limit is too low"
		}
		x.Text = fmt.Sprintf("The %s: %s wait for %s: %s, at %s%s", what, strings.ToLower(f.who()), name, f.part(f.of(s)), s.place.text(), x.Span.text())
		if uses != "" {
			x.Text += "; who has one " + uses
			x.about = append(x.about, at)
			told[pool{s.wait, at}] = len(f.found)
		}
		x.Text += "."
		x.Evidence = append(x.Evidence, hint)
		if r := f.again(s.place); r >= chattyWaits {
			x.Evidence = append(x.Evidence, fmt.Sprintf("each request waits there at least %.1f times: %s", r, fewer))
		}
		if s.place == line.most && line.others > 0 {
			x.Cost += line.rest
			x.Share = f.share(x.Cost)
			x.Evidence = append(x.Evidence, fmt.Sprintf("others wait for theirs: %s at %s", profile.DurationText(line.rest), plural(line.others, "more line")))
		}
		x.Command = "waits " + quoted(funcFlag(s.place.function)) + " %s"
		f.add(x, s.place)
	}
	for _, x := range f.grouped() {
		if x.IsLock() || !x.LikeLock() && !f.likeSemaphore(&x) {
			continue
		}
		if waited := f.waited(&x); f.worth(waited, leastShare) && !f.feeds(waited) {
			f.semaphore(&x, waited)
		}
	}
	return nil
}

// A waitLines is the lines at which goroutines wait for one thing.
type waitLines struct {
	time, rest time.Duration // of all, and of those that are not worth a sentence of their own, without most
	others     int           // number of these
	most       place         // the one with most of the time
}

// poolLines returns the lines at which goroutines wait for a place in a pool, by the name of the
// wait. They may be many, as each handler of a server has one.
func (f *facts) poolLines(nested map[place]bool) map[string]*waitLines {
	lines := map[string]*waitLines{}
	list := f.byWait()
	slices.SortStableFunc(list, func(a, b *spot) int { return cmp.Compare(f.of(b), f.of(a)) })
	for _, s := range list {
		x := lines[s.wait]
		switch {
		case poolWaits[s.wait] == "" || nested[s.place]:
			continue
		case x == nil:
			x = &waitLines{most: s.place}
			lines[s.wait] = x
		case !f.worth(f.of(s), leastShare):
			x.rest += f.of(s)
			x.others++
		}
		x.time += f.of(s)
	}
	return lines
}

// nested says where goroutines wait for a connection that have one already. It returns these
// places, and those at which others wait for them.
func (f *facts) nested(chains map[place][]locks.WaitNode) map[place]bool {
	told := map[place]bool{}
	list := f.byWait()
	for _, s := range list {
		n := nodeOf(chains[s.place], s.wait)
		if n == nil || n.Has == nil || told[s.place] || !f.worth(f.of(s), nestedShare) {
			continue
		}
		told[s.place] = true
		x := Finding{Kind: Pool, Cost: f.of(s), Sure: Inferred, Span: f.span(s.series)}
		for _, other := range list {
			n := nodeOf(chains[other.place], s.wait)
			if n != nil && !told[other.place] && other.wait == s.wait && len(n.Next) > 0 && placeOfHolder(&n.Next[0].HolderFrame) == s.place && n.Next[0].Time >= n.Time/2 {
				told[other.place] = true
				x.Cost += f.of(other)
				x.Evidence = append(x.Evidence, othersWait(other, f.of(other)))
			}
		}
		x.Share = f.share(x.Cost)
		x.Text = fmt.Sprintf("%s wait for %s and have one already, in %s: %s, at %s%s.", f.who(), n.Name, placeOfHolder(n.Has).text(), f.part(f.of(s)), s.place.text(), x.Span.text())
		x.Evidence = append(x.Evidence, "close the rows before the next query, or ask in the transaction itself")
		x.Command = "waits " + quoted(funcFlag(s.place.function)) + " %s"
		f.add(x, s.place)
	}
	return told
}

// othersWait says where others wait for a connection of the same pool.
func othersWait(s *spot, waited time.Duration) string {
	return fmt.Sprintf("others wait for theirs: %s at %s", profile.DurationText(waited), s.place.text())
}

// byWait returns the spots with a known wait, those of one wait at one line as one.
func (f *facts) byWait() (list []*spot) {
	sums := map[spotKey]*spot{}
	for _, s := range f.spots {
		if s.wait == "" {
			continue
		}
		key := spotKey{place: s.place, wait: s.wait}
		sum := sums[key]
		if sum == nil {
			sum = &spot{spotKey: key}
			sums[key] = sum
			list = append(list, sum)
		}
		sum.wall += s.wall
		sum.asked += s.asked
		sum.series = profile.Plus(sum.series, s.series)
	}
	return list
}

// poolHolders returns what is known of those that have a connection: the wait's name with their
// number, and what most of them do.
func (f *facts) poolHolders(chains []locks.WaitNode, wait string) (name, uses string, at place, sure string) {
	name, sure = wait, Measured
	if n := nodeOf(chains, wait); n != nil {
		name = n.Name
		if len(n.Next) > 0 && n.Next[0].Time >= n.Time/4 {
			next := &n.Next[0]
			at = placeOfHolder(&next.HolderFrame)
			uses, sure = fmt.Sprintf("%s (%s of it)", f.activityOf(next), percentOf(next.Time, n.Time)), Inferred
		}
	}
	return name, uses, at, sure
}

// nodeOf returns the node of a wait for a connection, nil if there is none.
func nodeOf(chains []locks.WaitNode, wait string) *locks.WaitNode {
	i := slices.IndexFunc(chains, func(n locks.WaitNode) bool { return strings.HasPrefix(n.Name, wait) })
	if i < 0 {
		return nil
	}
	return &chains[i]
}

// semaphore tells of a channel that is used as a semaphore.
func (f *facts) semaphore(x *locks.Lock, waited time.Duration) {
	at := f.ownOf(&x.Sites[0])
	out := Finding{Kind: Pool, Cost: waited, Share: f.share(waited), Span: f.span(f.seriesAt(at)), Command: "locks %s"}
	places := ""
	if x.Capacity > 0 {
		places = " with " + plural(int(x.Capacity), "place")
	}
	who, part := strings.ToLower(f.who()), f.part(waited)
	if f.byRequests() && !f.worth(f.waited(x), leastShare) { // who hands out requests is in none
		who, part = f.average(waited)+" goroutines on average", profile.DurationText(waited)
		out.Share = min(1, float64(waited)/float64(max(1, f.work)))
	}
	out.Text = fmt.Sprintf("The semaphore %s%s is too small: %s wait for it: %s, at %s%s", x.Name, places, who, part, at.text(), out.Span.text())
	text, held, evidence, sure := f.holder(x)
	out.Sure, out.Evidence = sure, append([]string{waitsOf(x)}, evidence...)
	if text != "" {
		out.Text += "; " + text
		out.about = append(out.about, held)
	}
	out.Text += "."
	f.add(out, at)
}

// likeSemaphore reports whether as many goroutines as a channel has places were, all the time,
// beyond the line that sends to it, in the same function: then they have a place until they receive
// from it. The source text, if it can be read, says that better.
func (f *facts) likeSemaphore(x *locks.Lock) bool {
	at := f.ownOf(&x.Sites[0])
	if x.Capacity == 0 || x.Sites[0].Reason != "chan send" || at.function == "" {
		return false
	}
	inside := time.Duration(0)
	for i := range f.p.Records {
		rec := &f.p.Records[i]
		if rec.System || !rec.OfGoroutine() {
			continue
		}
		for _, id := range rec.Stack {
			if fr := &f.p.Frames[id]; fr.Func == at.function && fr.File == at.file {
				if int(fr.Line) > at.line {
					inside += rec.Wall
				}
				break
			}
		}
	}
	full := float64(x.Capacity) * float64(f.length)
	return float64(inside) >= fullPlaces*full && float64(inside) <= 1.05*full
}

// funcFlag returns a function as a regular expression.
func funcFlag(function string) string {
	return strings.NewReplacer(`\`, `\\`, `.`, `\.`, `(`, `\(`, `)`, `\)`, `*`, `\*`, `[`, `\[`, `]`, `\]`).Replace(profile.FuncName(function)) + "$"
}
