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

// grouped returns the locks and channels, the most waited time first, without those for which
// goroutines wait that leak.
func (f *facts) grouped() []locks.Lock {
	if f.Locks == nil {
		return nil
	}
	list := slices.DeleteFunc(f.Locks.Group().Locks, func(x locks.Lock) bool { return len(x.Sites) == 0 || f.leaks(&x.Sites[0]) })
	slices.SortStableFunc(list, func(a, b locks.Lock) int { return cmp.Compare(b.Waited, a.Waited) })
	return list
}

// contended says for which locks goroutines wait, and what the holders do meanwhile.
func contended(f *facts) error {
	for _, x := range f.grouped() {
		if !x.IsLock() {
			continue
		}
		if waited := f.waited(&x); f.worth(waited, leastShare) {
			if err := f.lock(&x, waited); err != nil {
				return err
			}
		}
	}
	return nil
}

// waited returns the time for which goroutines waited for an object. If the time of requests
// counts, it is the part that is theirs.
func (f *facts) waited(x *locks.Lock) (sum time.Duration) {
	if !f.byRequests() {
		return time.Duration(x.Waited)
	}
	for _, site := range x.Sites {
		if s := f.sites[doing{placeOfSite(&site), site.Reason}]; s != nil {
			sum += min(s.asked, site.Waited)
		}
	}
	return min(sum, time.Duration(x.Waited))
}

// holder says what the holder of an object does, and where.
func (f *facts) holder(x *locks.Lock) (text string, at place, evidence []string, sure string) {
	h := x.Holder
	if h == nil || len(h.Lines) == 0 || h.Seen+h.Inferred < x.Waited/4 {
		return "", place{}, nil, Measured
	}
	l := &h.Lines[0]
	at = place{l.Func, l.File, l.Line}
	inside := time.Duration(0) // in the same function
	for i := range h.Lines {
		if h.Lines[i].Func == l.Func {
			inside += h.Lines[i].Time
		}
	}
	text = fmt.Sprintf("the holder %s (%s of it", f.activity(l.State, at), percentOf(l.Time, x.Waited))
	if inside >= l.Time+l.Time/2 {
		text += fmt.Sprintf(", %s in all of the function", percentOf(inside, x.Waited))
	}
	text += ")"
	evidence = append(evidence, fmt.Sprintf("holder: %s seen, %s inferred, %s unknown", percentOf(h.Seen, x.Waited), percentOf(h.Inferred, x.Waited), percentOf(h.Unknown, x.Waited)))
	for _, l := range h.Lines[1:min(len(h.Lines), 3)] {
		if l.Time >= x.Waited/20 {
			evidence = append(evidence, fmt.Sprintf("%s: the holder %s", profile.DurationText(l.Time), f.activity(l.State, placeOfHolder(&l.HolderFrame))))
		}
	}
	if h.TooShort {
		evidence = append(evidence, "most holds are too short to tell one from the next")
	}
	if sure = Inferred; h.Seen > h.Inferred {
		sure = Measured
	}
	return text, at, evidence, sure
}

func (f *facts) lock(x *locks.Lock, waited time.Duration) error {
	at := f.ownOf(&x.Sites[0])
	out := Finding{Kind: Lock, Cost: waited, Share: f.share(waited), Span: f.span(f.seriesAt(at)), Command: "locks %s"}
	out.Text = fmt.Sprintf("%s wait for the lock %s (%s): %s, at %s%s", f.who(), x.Name, x.Kind, f.part(waited), at.text(), out.Span.text())
	text, held, evidence, sure := f.holder(x)
	out.Sure, out.Evidence = sure, append([]string{waitsOf(x)}, evidence...)
	if x.Longest >= f.length/2 && x.Below == 0 {
		out.Evidence = slices.Insert(out.Evidence, 0, "a wait of half the session or more: is it a deadlock, or a way out without Unlock?")
	}
	if text != "" {
		out.Text += "; " + text
		out.about = append(out.about, held)
		if err := f.follow(&out, &x.Holder.Lines[0]); err != nil {
			return err
		}
	} else if text = f.past(at); text != "" {
		out.Text += "; " + text
		out.Sure = Inferred
	}
	out.Text += "."
	for i := range x.Sites[1:] {
		out.about = append(out.about, f.ownOf(&x.Sites[i+1]))
	}
	f.add(out, at)
	return nil
}

// past says what is done past a lock at the line at which others wait for it, as in a library that
// takes it. If it is what one goroutine at most does, most of the time, the holder does it, also
// where holds are too short to tell one from the next.
func (f *facts) past(at place) string {
	own, times := f.p.OwnFrames(), map[doing]time.Duration{}
	for i := range f.p.Records {
		rec := &f.p.Records[i]
		if rec.System || !rec.OfGoroutine() || strings.HasPrefix(rec.State, "sync.") {
			continue
		}
		calls := func(id uint32) bool { return at == placeOf(&f.p.Frames[id]) }
		if id, ok := own(rec.Stack); ok && slices.ContainsFunc(rec.Stack, calls) { // the library may call the program again
			times[doing{placeOf(&f.p.Frames[id]), rec.State}] += rec.Wall
		}
	}
	is, wall := most(times, byDoing)
	if float64(wall) < pastShare*float64(f.length) || wall > f.length+f.length/20 {
		return ""
	}
	return fmt.Sprintf("past it, %s goroutines on average %s", f.average(wall), f.activity(is.state, is.place))
}

// pastShare is the least part of the time on the clock in which a goroutine does that.
const pastShare = 0.5

// waitsOf says how often and how long goroutines waited for an object. If some waited to send to a
// channel and others to receive from it, it is of the side of the main site alone, of which neither
// the number of goroutines nor the longest wait is known.
func waitsOf(x *locks.Lock) string {
	atLeast, below := "", ""
	if x.AtLeast {
		atLeast = "at least "
	}
	side, both, waits, waited := sends(&x.Sites[0]), false, 0, time.Duration(0)
	for i := range x.Sites {
		if s := &x.Sites[i]; sends(s) == side {
			waits += s.Waits
			waited += s.Waited
		} else {
			both = true
		}
	}
	if both {
		what := "to receive"
		if side {
			what = "to send"
		}
		return fmt.Sprintf("%s%s %s, %s in all", atLeast, plural(waits, "wait"), what, profile.DurationText(waited))
	}
	longest := x.Longest
	if x.Below > 0 {
		longest, below = x.Below, "below "
	}
	return fmt.Sprintf("%s waited %s%s, %s in all, the longest %s%s", plural(x.Goroutines, "goroutine"), atLeast, plural(x.Waits, "time"), profile.DurationText(x.Waited), below, profile.DurationText(longest))
}

func percentOf(d, all time.Duration) string { return percent(float64(d) / float64(max(1, all))) }
