package runs

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/stream"
)

// The number of steps of a session at first, and the most steps into which the time of one sample
// is divided.
const (
	maxSteps = 1000
	maxParts = 16
)

// steps add up the time of groups: for each step, what all goroutines of a group did together. When
// the sums become too many, steps become longer.
type steps struct {
	width  time.Duration
	most   int // sums
	frames int // of the stacks of all sums; 0: any number
	depth  int // of the stacks of all sums
	stacks *[]Stack

	activities stream.Table[activity]
	sums       []stepSum
	index      map[uint64]uint32 // of sums, by activity and step
}

// An activity is what goroutines of a track did.
type activity struct {
	track *track
	place place
}

// A stepSum is the time of an activity in a step.
type stepSum struct {
	activity, step uint32
	wall, cpu      time.Duration
}

func (x *stepSum) key() uint64 { return uint64(x.activity)<<32 | uint64(x.step) }

func newSteps(length time.Duration, o *Options, list *[]Stack) steps {
	return steps{
		width: max(1, length/maxSteps+1), most: o.Runs, frames: o.Frames, stacks: list,
		index: map[uint64]uint32{},
	}
}

// add adds a sample.
func (st *steps) add(t *track, p place, begin, end time.Duration, s *stream.Sample) {
	parts := min(int64(end/st.width-begin/st.width)+1, maxParts)
	if parts <= 1 {
		st.sum(t, p, begin, s.Wall, s.CPU())
		return
	}
	wall, cpu := s.Wall, s.CPU()
	length := (end - begin) / time.Duration(parts)
	for i := range parts {
		w, c := wall/time.Duration(parts-i), cpu/time.Duration(parts-i)
		st.sum(t, p, begin+length*time.Duration(i)+length/2, w, c)
		wall, cpu = wall-w, cpu-c
	}
}

// spread adds time of which nobody knows when it was.
func (st *steps) spread(t *track, p place, wall, length time.Duration) {
	n := max(1, int64(length/st.width))
	for i := range n {
		w := wall / time.Duration(n-i)
		st.sum(t, p, time.Duration(i)*st.width, w, 0)
		wall -= w
	}
}

func (st *steps) sum(t *track, p place, at, wall, cpu time.Duration) {
	if wall == 0 {
		return
	}
	x := stepSum{activity: st.activities.Of(activity{t, p}), step: uint32(max(0, at) / st.width), wall: wall, cpu: cpu}
	st.put(&x)
	if len(st.sums) > st.most || st.frames > 0 && st.depth > st.frames {
		st.double()
	}
}

// put adds to a sum.
func (st *steps) put(x *stepSum) {
	n, ok := st.index[x.key()]
	if !ok {
		st.index[x.key()] = uint32(len(st.sums))
		st.sums = append(st.sums, *x)
		st.depth += int((*st.stacks)[st.activities.List[x.activity].place.stack].Depth)
		return
	}
	to := &st.sums[n]
	to.wall, to.cpu = plus(to.wall, x.wall), plus(to.cpu, x.cpu)
}

// double makes steps longer until there are half as many sums as there may be. If only one step is
// left, there are as many sums as different stacks, and no way to have less.
func (st *steps) double() {
	for last := uint32(1); last > 0 && (len(st.sums) > st.most/2 || st.frames > 0 && st.depth > st.frames/2); {
		st.width *= 2
		last = 0
		clear(st.index)
		old := st.sums
		st.sums, st.depth = st.sums[:0], 0
		for _, x := range old {
			x.step /= 2
			last = max(last, x.step)
			st.put(&x)
		}
	}
	if len(st.sums) > st.most/2 || st.frames > 0 && st.depth > st.frames/2 {
		st.most, st.frames = 2*st.most, 2*st.frames
	}
}

// finish makes runs of the sums.
func (st *steps) finish() {
	tracks := map[*track]bool{}
	for _, x := range st.sums {
		d := st.activities.List[x.activity]
		tracks[d.track] = true
		d.track.Runs = append(d.track.Runs, Run{Begin: time.Duration(x.step) * st.width, Wall: x.wall, CPU: x.cpu, Stack: d.place.stack, State: d.place.state})
	}
	for t := range tracks {
		t.Step = st.width
		slices.SortFunc(t.Runs, func(a, b Run) int {
			return cmp.Or(cmp.Compare(a.Begin, b.Begin), cmp.Compare(a.Stack, b.Stack), cmp.Compare(a.State, b.State))
		})
	}
}

// describe says in s.Left what was added up, and names the track of other groups.
func (b *builder) describe(s *Session) {
	goroutines, groups, rest := 0, 0, 0
	more := ""
	for _, g := range b.groups.list {
		if g.own || g.kind == ofProcess {
			continue
		}
		if g.more {
			more = "over "
		}
		goroutines += g.count
		if g.rest {
			rest += g.count
		} else {
			groups++
		}
	}
	if goroutines == 0 {
		return
	}
	if b.rest != nil {
		b.rest.Name = fmt.Sprintf("%s other goroutines, created in %s places", thousands(rest), thousands(b.others))
		b.rest.Goroutines = rest
		groups++
	}
	noun := "goroutines are"
	if goroutines == 1 {
		noun = "goroutine is"
	}
	where := fmt.Sprintf("in %d tracks, by the place where they were created", groups)
	if groups == 1 {
		where = "in one track"
	}
	s.Left = append(s.Left, fmt.Sprintf("%s%s %s added up %s, in steps of %v", more, thousands(goroutines), noun, where, b.steps.width.Round(time.Microsecond)))
}
