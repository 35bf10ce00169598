package page

import (
	"github.com/gotach/profiler/internal/analyze/idle"
	"github.com/gotach/profiler/internal/analyze/report"
)

const (
	overviewSteps  = 1 << 13 // of a page
	overviewEvents = 1 << 17
	overviewShare  = 30 // of the page's size, as a divisor
)

// An overview is the time of all goroutines by class, without stacks. It is small, so its steps
// stay short where those of the records become long: the strip and the heat map show it if it has
// the shorter ones.
type overview struct {
	width  uint64 // µs of a step
	noted  int    // samples since the events were counted
	list   []overviewRow
	number map[overviewKey]uint32
}

// An overviewKey says what the samples of a row have in common. Whether it is idle or set apart is
// known when a side was read.
type overviewKey struct {
	side  uint8
	state uint16
	key   idle.Key
	place uint32
}

type overviewRow struct {
	overviewKey
	idle   bool
	apart  bool
	course course
}

func newOverview() *overview {
	return &overview{width: firstWidth, number: map[overviewKey]uint32{}}
}

// row returns the number of a row.
func (o *overview) row(k overviewKey) uint32 {
	n, ok := o.number[k]
	if !ok {
		n = uint32(len(o.list))
		o.number[k] = n
		o.list = append(o.list, overviewRow{overviewKey: k})
	}
	return n
}

// add adds the time of a row from one moment of the axis to another, in µs.
func (o *overview) add(row uint32, from, to uint64) {
	for to/o.width >= overviewSteps {
		o.double()
	}
	o.list[row].course.add(o.width, from, to)
	if o.noted++; o.noted < overviewEvents {
		return
	}
	o.noted = 0
	for {
		events := 0
		for i := range o.list {
			c := &o.list[i].course
			c.arrange()
			events += len(c.events)
		}
		if events <= overviewEvents {
			return
		}
		o.double()
	}
}

func (o *overview) double() {
	for i := range o.list {
		o.list[i].course.double(o.width)
	}
	o.width *= 2
}

// overviewPiece returns the overview, or an empty piece if its steps are not shorter than those of
// the records.
func (b *builder) overviewPiece() (Piece, error) {
	type class struct{ number, cpu int64 }
	o := b.overview
	for {
		sums := map[class]*course{}
		var order []class
		for i := range o.list {
			if o.width >= b.width {
				break
			}
			r := &o.list[i]
			st := b.states.List[r.state]
			k := class{int64(classOf(st.name, st.system)), number(onCPU(st.name))}
			if r.idle {
				k.number = int64(classIdle)
			} else if r.apart {
				k.number = int64(classApart)
			}
			if sums[k] == nil {
				sums[k] = &course{}
				order = append(order, k)
			}
			sums[k].events = append(sums[k].events, r.course.events...)
		}
		var numbers, cpus, counts []int64
		var events eventColumns
		for _, k := range order {
			c := sums[k]
			c.arrange()
			numbers, cpus, counts = append(numbers, k.number), append(cpus, k.cpu), append(counts, int64(len(c.events)))
			events.add(c)
		}
		p, err := newPiece("overview", map[string]any{"width_us": o.width}, []column{
			{"class", numbers}, {"cpu", cpus}, {"events", counts}, {"step", events.steps}, {"diff", events.diffs}, {"part", events.parts},
		})
		if err != nil || len(order) == 0 || int64(len(p.Bytes)) <= b.o.MaxSize/overviewShare {
			return p, err
		}
		o.double()
	}
}

// widen makes the steps as long as a side of so many µs needs at least, before it is read.
func (b *builder) widen(length uint64) {
	for (b.offset+length)/b.width >= maxSteps {
		b.double()
	}
	for (b.offset+length)/b.overview.width >= overviewSteps {
		b.overview.double()
	}
}

// settle notes which rows of a side are idle or set apart.
func (o *overview) settle(side uint8, all *report.All) {
	for i := range o.list {
		if r := &o.list[i]; r.side == side {
			r.idle, _, r.apart = all.Kind(r.key, r.place)
		}
	}
}
