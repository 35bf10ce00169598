package profile

import (
	"time"

	"github.com/gotach/profiler/internal/stream"
)

const (
	// seriesBins is the most parts into which the time of a profile is divided.
	seriesBins = 60
	// maxSeries bounds the memory of series, 240 bytes each. Records beyond have none.
	maxSeries = 1 << 17
)

// series have the time of each sum in equal parts of the profile's time. If nobody knows how long
// the profile is, the parts become longer when there are too many.
//
// Most samples are of the present part, and their time is in it. For these nothing is to be done
// until the part ends: then the time that a sum gained meanwhile is added to its series.
type series struct {
	start, width uint64 // µs
	limit        uint64 // later times make the parts longer, µs since start
	end          uint64 // of the latest sample, µs since start
	lists        [][]float32
	free         []float32 // memory for further lists

	part     uint64          // the present one
	from, to uint64          // of it, µs since start
	known    []time.Duration // by sum: the part of its time that is in its series
	sums     func() []sum    // returns the sums with all of their time
}

func newSeries(src *stream.Source) *series {
	s := &series{start: src.Header().Start}
	length := uint64(0)
	if m := src.Metadata().Session; m != nil {
		length = uint64(m.Duration.Microseconds())
	}
	s.init(length)
	return s
}

// init makes parts for a profile of a length in µs, 0 if it is unknown.
func (t *series) init(length uint64) {
	t.end, t.width = length, 1000
	t.limit = seriesBins * t.width
	if length > 0 {
		t.width = max(1, (length+seriesBins-1)/seriesBins)
		t.limit = (seriesBins + 1) * t.width // a session may end a bit after it says
	}
	t.begin(0)
}

// begin makes a part the present one.
func (t *series) begin(part uint64) {
	t.part, t.from, t.to = part, part*t.width, (part+1)*t.width
	if part == seriesBins-1 {
		t.to = t.limit
	}
}

// settle adds the time that sums gained in the present part.
func (t *series) settle() {
	sums := t.sums()
	t.room(min(len(sums), maxSeries))
	for i := range min(len(sums), maxSeries) {
		if gained := sums[i].wall - t.known[i]; gained > 0 {
			t.list(i)[t.part] += float32(gained)
			t.known[i] = sums[i].wall
		}
	}
}

// room makes room for so many sums.
func (t *series) room(n int) {
	if more := n - len(t.known); more > 0 {
		t.known = append(t.known, make([]time.Duration, more)...)
		t.lists = append(t.lists, make([][]float32, more)...)
	}
}

// list returns the series of a sum.
func (t *series) list(sum int) []float32 {
	if t.lists[sum] == nil {
		if len(t.free) == 0 {
			t.free = make([]float32, 64*seriesBins)
			clear(t.free) // a page that is read before it is written takes two faults
		}
		t.lists[sum], t.free = t.free[:seriesBins:seriesBins], t.free[seriesBins:]
	}
	return t.lists[sum]
}

// add adds the time of a sample to a sum's series, in ns. The sums have its time already.
func (t *series) add(n uint32, s *stream.Sample) {
	if s.Wall <= 0 || n >= maxSeries {
		return
	}
	end := max(1, uint64(max(0, int64(s.Time-t.start))))
	length := max(1, min(end, uint64(s.Wall/time.Microsecond)))
	if end-length >= t.from && end <= t.to {
		t.end = max(t.end, end)
		return
	}
	t.spread(n, s.Wall, end, length)
}

// leaveOut leaves out all the time of a sum.
func (t *series) leaveOut(n uint32, wall time.Duration) {
	if n < maxSeries {
		t.room(int(n) + 1)
		t.known[n] = wall
	}
}

// spread is add for a sample that is not only in the present part.
func (t *series) spread(n uint32, wall time.Duration, end, length uint64) {
	t.end = max(t.end, end)
	t.room(int(n) + 1)
	t.known[n] = add(t.known[n], wall)
	for end > t.limit {
		t.double()
	}
	begin := end - length
	first, last := min(begin/t.width, seriesBins-1), min((end-1)/t.width, seriesBins-1)
	if last > t.part {
		t.settle()
		t.begin(last)
	}
	list := t.list(int(n))
	if first == last {
		list[last] += float32(wall)
		return
	}
	share := float32(wall) / float32(length)
	list[first] += share * float32((first+1)*t.width-begin)
	for i := first + 1; i < last; i++ {
		list[i] += share * float32(t.width)
	}
	list[last] += share * float32(end-last*t.width)
}

// double doubles the length of the parts.
func (t *series) double() {
	t.width *= 2
	t.limit = seriesBins * t.width
	for _, list := range t.lists {
		for i := range list {
			if 2*i+1 < len(list) {
				list[i] = list[2*i] + list[2*i+1]
			} else {
				list[i] = 0
			}
		}
	}
	t.begin(t.part / 2)
}

// finish makes all series end with the profile. The last part may be shorter than the others: its
// times are made as if it were not. If it is shorter than half of them, it is left out.
func (t *series) finish() {
	t.settle()
	n := max(1, min(seriesBins, (t.end+t.width/2)/t.width))
	last := min(t.width, max(1, t.end-min(t.end, (n-1)*t.width)))
	for i, list := range t.lists {
		if list != nil {
			list[n-1] *= float32(t.width) / float32(last)
			t.lists[i] = list[:n]
		}
	}
}

// of returns the series of a sum, nil if it has none. All have the same length.
func (t *series) of(sum int) []float32 {
	if sum >= len(t.lists) {
		return nil
	}
	return t.lists[sum]
}

// Plus adds a series to another one, which may be nil.
func Plus(to, list []float32) []float32 {
	if to == nil && list != nil {
		to = make([]float32, len(list))
	}
	for i := range list {
		to[i] += list[i]
	}
	return to
}
