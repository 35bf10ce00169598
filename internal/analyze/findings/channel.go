package findings

import (
	"fmt"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/profile"
)

const (
	// channelShare is the least share of the waits to send to a channel.
	channelShare = 0.2
	// channelAverage is the least number of goroutines that wait to send, on average.
	channelAverage = 0.5
	// balance is the part of the waits to send that waits to receive from the same channel have at
	// most. If they have more, both sides wait for each other in turn, and none is slow.
	balance = 0.25
	// fewSends is the number of waits to send below which nothing is known of the consumer's pace.
	fewSends = 3
	// mostStages is the number of channels that are followed, from each consumer to the next one.
	mostStages = 3
)

// sends reports whether goroutines wait at a site to send.
func sends(s *locks.Site) bool { return s.Reason == "chan send" || s.Sends }

// channels says which consumers keep producers waiting.
func channels(f *facts) error {
	for _, x := range f.grouped() {
		if x.IsLock() || x.LikeLock() || f.likeSemaphore(&x) || !sends(&x.Sites[0]) {
			continue
		}
		if s := &x.Sites[0]; poolWaits[locks.Known(s.Func).In(s.Reason, "", true)] != "" {
			continue // pools tells of it
		}
		sent, received := time.Duration(0), time.Duration(0)
		for _, site := range x.Sites {
			switch {
			case sends(&site):
				sent += site.Waited
			case site.Reason == "chan receive":
				received += site.Waited
			}
		}
		if float64(sent) < channelAverage*float64(f.length) || !(f.worth(sent, channelShare) || f.byRequests() && float64(sent) >= channelShare*float64(f.work)) || float64(received) > balance*float64(sent) {
			continue
		}
		if f.feeds(sent) || f.ahead(&x) {
			continue
		}
		other, err := f.otherSide(&x)
		if err != nil {
			return err
		}
		if other != nil && other.Role == locks.RoleHolds { // a select that waits for a place
			x.Holder = other
			f.semaphore(&x, sent)
			continue
		}
		at := f.ownOf(&x.Sites[0])
		out := Finding{Kind: Channel, Cost: sent, Share: f.share(sent), Span: f.span(f.seriesAt(at)), Command: "locks %s", Sure: Measured}
		if f.byRequests() && !f.worth(f.waited(&x), channelShare) {
			out.Share = min(1, float64(sent)/float64(max(1, f.work)))
		}
		capacity := ""
		if x.Capacity > 0 {
			capacity = fmt.Sprintf(" with %s", plural(int(x.Capacity), "place"))
		}
		out.Text = fmt.Sprintf("The consumer of a channel is slow: %s goroutines on average wait to send to %s%s (%s), at %s%s", f.average(sent), x.Name, capacity, profile.DurationText(sent), at.text(), out.Span.text())
		out.Evidence = []string{waitsOf(&x)}
		if h := other; h != nil && len(h.Lines) > 0 && h.Seen+h.Inferred >= x.Waited/4 {
			l := &h.Lines[0]
			to := placeOfHolder(&l.HolderFrame)
			out.Text += fmt.Sprintf("; the other side %s (%s of it)", f.activity(l.State, to), percentOf(l.Time, x.Waited))
			out.Sure = Inferred
			out.about = append(out.about, to)
			if err := f.follow(&out, l); err != nil {
				return err
			}
		}
		out.Text += "."
		f.add(out, at)
	}
	return nil
}

// follow says what the other side does of a channel to which somebody waits to send, and so on if
// that waits to send too.
func (f *facts) follow(out *Finding, l *locks.HolderLine) error {
	for range mostStages {
		list := f.grouped()
		i := slices.IndexFunc(list, func(x locks.Lock) bool {
			return l.State == "chan send" && x.Sites[0].Reason == l.State && f.ownOf(&x.Sites[0]) == placeOfHolder(&l.HolderFrame)
		})
		if i < 0 {
			return nil
		}
		h, err := f.otherSide(&list[i])
		if err != nil || h == nil || len(h.Lines) == 0 || h.Seen+h.Inferred < list[i].Waited/4 {
			return err
		}
		l = &h.Lines[0]
		to := placeOfHolder(&l.HolderFrame)
		out.Text += fmt.Sprintf("; the other side of that channel %s (%s of it)", f.activity(l.State, to), percentOf(l.Time, list[i].Waited))
		out.Sure = Inferred
		out.about = append(out.about, to)
	}
	return nil
}

// ahead reports whether a goroutine makes the next thing before somebody wants it, as etcd does
// with the next file of its log: it is the only one that waits to send, and hardly ever goes on.
// Where there are requests that do not wait for it, that is less than once a second.
func (f *facts) ahead(x *locks.Lock) bool {
	few := fewSends
	if f.byRequests() && !f.worth(f.waited(x), channelShare) {
		few = max(few, int(f.length/time.Second))
	}
	return x.Goroutines == 1 && x.Waits < few
}

// otherSide says who was on the other side of a channel, as gotach locks does. It is nil if that is
// not known, or if the profile is too large to tell at once.
func (f *facts) otherSide(x *locks.Lock) (*locks.Holder, error) {
	if x.Holder != nil || f.Fast && f.p.Samples > mostFast {
		return x.Holder, nil
	}
	if f.channels == nil {
		var err error
		if f.channels, err = f.Survey.Channels(); err != nil || f.channels == nil {
			return nil, err
		}
		f.channels = f.channels.Group()
	}
	i := slices.IndexFunc(f.channels.Locks, func(y locks.Lock) bool {
		return y.Name == x.Name && len(y.Sites) > 0 && y.Sites[0].Func == x.Sites[0].Func && y.Sites[0].Line == x.Sites[0].Line
	})
	if i < 0 {
		return nil, nil
	}
	return f.channels.Locks[i].Holder, nil
}
