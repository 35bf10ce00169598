package runs

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/stream"
)

// The number of steps of a session at first, and the most steps into which the time of one sample is divided.
const (
	maxSteps = 1000
	maxParts = 16
)

// steps add up the time of groups: for each step, what all goroutines of a group did together. When the sums
// become too many, steps become longer.
type steps struct {
	width  time.Duration
	most   int // sums
	frames int // of the stacks of all sums; 0: any number
	sums   map[stepKey]*stepSum
	depth  int
	stacks *[]Stack
}

type stepKey struct {
	track *track
	place place
	step  int64
}

type stepSum struct{ wall, cpu time.Duration }

func newSteps(length time.Duration, o *Options, list *[]Stack) steps {
	return steps{width: max(1, length/maxSteps+1), most: o.Runs, frames: o.Frames, sums: map[stepKey]*stepSum{}, stacks: list}
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
	key := stepKey{t, p, int64(max(0, at) / st.width)}
	to := st.sums[key]
	if to == nil {
		to = &stepSum{}
		st.sums[key] = to
		st.depth += int((*st.stacks)[p.stack].Depth)
	}
	to.wall, to.cpu = plus(to.wall, wall), plus(to.cpu, cpu)
	if len(st.sums) > st.most || st.frames > 0 && st.depth > st.frames {
		st.double()
	}
}

// double makes steps twice as long. If there is only one step, there are as many sums as there are different stacks, and no
// way to have less.
func (st *steps) double() {
	old, last := st.sums, int64(0)
	for key := range old {
		last = max(last, key.step)
	}
	if last == 0 {
		st.most, st.frames = 2*st.most, 2*st.frames
		return
	}
	st.width *= 2
	st.sums, st.depth = make(map[stepKey]*stepSum, len(old)/2), 0
	for key, x := range old {
		key.step /= 2
		to := st.sums[key]
		if to == nil {
			st.sums[key] = x
			st.depth += int((*st.stacks)[key.place.stack].Depth)
			continue
		}
		to.wall, to.cpu = plus(to.wall, x.wall), plus(to.cpu, x.cpu)
	}
}

// finish makes runs of the sums.
func (st *steps) finish() {
	tracks := map[*track]bool{}
	for key, x := range st.sums {
		t := key.track
		tracks[t] = true
		t.Runs = append(t.Runs, Run{Begin: time.Duration(key.step) * st.width, Wall: x.wall, CPU: x.cpu, Stack: key.place.stack, State: key.place.state})
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
		goroutines += len(g.ids)
		if g.rest {
			rest += len(g.ids)
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
