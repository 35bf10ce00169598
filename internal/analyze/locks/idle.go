package locks

import (
	"strings"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/idle"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/tachyon"
)

// An idleSite is a site, and which waits there may be idle.
type idleSite struct {
	site uint32 // number
	key  idle.Key
}

// firstIdleSite is the first number of sites of waits that may be idle, and minus that the number
// of their objects. There are fewer of other sites.
const firstIdleSite = 1 << 30

// waitKey tells Idle of a sample that counts.
func (l *Sums) waitKey(s *analyze.Sample) idle.Key {
	if l.idle != nil && !s.Unselected {
		return l.idle.Add(s.Sample)
	}
	return idle.NotIdle
}

// apart returns the sums of those waits at a site that may be idle. Whether they are is known when
// all samples were added: see settleIdle.
func (l *Sums) apart(site *siteSums, key idle.Key) *siteSums {
	if !key.Later() || analyze.IsLock(site.kind) || site.sums == nil {
		return site
	}
	at := idleSite{site.number, key}
	twin := l.twins[at]
	if twin == nil {
		number := firstIdleSite + uint32(len(l.twins))
		twin = &siteSums{siteKey: site.siteKey, point: site.point, number: number, sums: &objectSums{kind: site.kind}}
		twin.object = -int32(number)
		l.twins[at] = twin
		l.twinOf[twin.object] = site
	}
	return twin
}

// settleIdle leaves out the waits that were idle, and adds the others to those of their sites.
func (l *Sums) settleIdle() {
	if l.idle == nil {
		return
	}
	l.idle.Finish()
	for at, twin := range l.twins {
		if l.idle.Is(at.key) {
			l.idles.waited += twin.waited
			l.twinOf[twin.object].idle += twin.waited
			delete(l.twinOf, twin.object)
			continue
		}
		site := l.twinOf[twin.object]
		site.waited += twin.waited
		site.waits += twin.waits
		site.sums.plus(twin.sums)
		if l.counted != nil {
			l.counted.move(twin.number, site.number)
		}
	}
	for key := range l.seen {
		if key.object > -firstIdleSite {
			continue
		}
		delete(l.seen, key)
		site := l.twinOf[key.object]
		if site == nil {
			continue
		}
		key.object = site.object
		if _, ok := l.seen[key]; !ok {
			l.seen[key] = struct{}{}
			site.sums.goroutines++
		}
	}
}

// ofCollector reports whether a stack waits for a semaphore of the garbage collector, which the
// runtime took for itself.
func (l *Sums) ofCollector(stack uint32) bool {
	for at := l.Caller(stack); at != 0; at = l.Caller(at) {
		name := l.Leaf(at).Func
		if profile.Package(name) != "runtime" {
			return false
		}
		if !strings.HasPrefix(name, "runtime.sem") && name != "runtime.gopark" && name != "runtime.goparkunlock" {
			return true
		}
	}
	return false
}

// isAnswer reports whether goroutines wait at a site for what somebody else answers, in a library:
// nobody holds that.
func (s *siteSums) isAnswer() bool {
	k := Known(s.frame.Func)
	if k == nil || !isChannel(s.kind) {
		return false
	}
	for _, what := range []string{"a response of", "the rest of", "a message of", "that etcd"} {
		if strings.HasPrefix(k.what, what) {
			return true
		}
	}
	return false
}

// notLock reports whether an object is none of the program's: it is the runtime's, or goroutines
// wait there for answers only.
func (o *objectSums) notLock(x *tachyon.Object) bool {
	if strings.HasPrefix(x.Symbol, "runtime.") {
		return true
	}
	for _, s := range o.sites {
		if s.waited > 0 && !s.isAnswer() {
			return false
		}
	}
	return true
}
