//go:build linux && (amd64 || arm64)

package attach

import (
	"time"

	"github.com/gotach/profiler/internal/goruntime"
)

// A goroutine that has rested for a time is looked at again after at most a part of that time, so the end of each wait is known to that
// part of it. The looks of goroutines that are neighbours in memory are at the same ticks: then one piece has many of them. Those of different
// blocks of neighbours are at different ticks.
const (
	restPart = 64
	maxRest  = 200 * time.Millisecond
	maxTicks = 4 // the longest rest is of so many ticks, if that is longer
	block    = 64
	phases   = 16
)

// A goroutine that rests has no sample at most looks: the next one stands for all the time. It has one at these ages, each twice the one before,
// and then at this distance, for those who read the file meanwhile.
const (
	firstBeat = 64 * time.Millisecond
	lastBeat  = time.Second
)

// rested sets when goroutine i of the roster, which did not change, is looked at next.
func (r *recorder) rested(i int) {
	k := r.list[i]
	age := r.now - k.since
	grid := max(maxRest, maxTicks*r.o.Interval)
	for grid > age/restPart && grid > time.Millisecond {
		grid /= 2
	}
	phase := grid * time.Duration(i/block%phases) / phases
	r.dueAt[i] = (r.now+grid-phase)/grid*grid + phase
}

// unmoved reports whether what was read of a runtime.g is a goroutine that has not run since its last look.
func (r *recorder) unmoved(k *known, b []byte) bool {
	l := r.program.layout
	return k.live && !k.runs && k.stack != nil && le.Uint32(b[l.GStatus:]) != goruntime.GRunning && motionOf(b, l) == k.motion && le.Uint64(b[l.GLabels:]) == k.labels
}

// rests is told that goroutine i has not run since its last look.
func (r *recorder) rests(i int) {
	k := r.list[i]
	r.rested(i)
	k.seen = r.now
	if r.now < k.beat && !r.all {
		return
	}
	if len(k.objects) > 0 && k.numbers != r.objects.Numbers {
		k.numbers = r.objects.Numbers
		r.renumber(k) // others have waited for the same since
	}
	if k.file != nil && k.object == nil {
		r.wants(k.file)
		k.stack = r.numbered(k, r.farEnd(k.file)) // it may have a name since
	}
	if r.all { // else later, when it has run again: a sample of what it did before the rest would say that it does so after it
		r.repay(k)
	}
	if k.last < r.now || !k.sampled {
		r.add(k, k.status, r.now, k.stack)
	}
	every := min(max(r.now-k.since, firstBeat), lastBeat)
	k.beat = r.now + every - every*time.Duration(i/block%phases)/(4*phases)
}

// woke adds a sample for the time until which a goroutine was seen to rest.
func (r *recorder) woke(k *known) {
	if k.live && k.seen > k.last && k.sampled {
		r.add(k, k.status, k.seen, k.stack)
	}
}
