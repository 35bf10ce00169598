package profile

import "github.com/gotach/profiler/internal/stream"

const (
	// seriesBins is the most parts into which the time of a profile is divided.
	seriesBins = 60
	// maxSeries bounds the memory of series, 240 bytes each. Records beyond have none.
	maxSeries = 1 << 17
)

// series have the time of each sum in equal parts of the profile's time. If nobody knows how long the profile
// is, the parts become longer when there are too many.
type series struct {
	start, width uint64 // µs
	end          uint64 // of the latest sample, µs since start
	lists        [][]float32
}

func newSeries(src *stream.Source) *series {
	s := &series{start: src.Header().Start, width: 1000}
	if m := src.Metadata().Session; m != nil && m.Duration > 0 {
		s.end = uint64(m.Duration.Microseconds())
		s.width = max(1, (s.end+seriesBins-1)/seriesBins)
	}
	return s
}

// add adds the time of a sample to a sum's series, in ns.
func (t *series) add(sum uint32, s *stream.Sample) {
	if s.Wall <= 0 || sum >= maxSeries {
		return
	}
	end := max(1, uint64(max(0, int64(s.Time-t.start))))
	t.end = max(t.end, end)
	for end > (seriesBins+1)*t.width { // a session may end a bit after it says
		t.double()
	}
	if int(sum) >= len(t.lists) {
		t.lists = append(t.lists, make([][]float32, int(sum)+1-len(t.lists))...)
	}
	list := t.lists[sum]
	if list == nil {
		list = make([]float32, seriesBins)
		t.lists[sum] = list
	}
	length := max(1, min(end, uint64(s.Wall.Microseconds())))
	begin := end - length
	first, last := min(begin/t.width, seriesBins-1), min((end-1)/t.width, seriesBins-1)
	if first == last {
		list[last] += float32(s.Wall)
		return
	}
	share := float32(s.Wall) / float32(length)
	list[first] += share * float32((first+1)*t.width-begin)
	for i := first + 1; i < last; i++ {
		list[i] += share * float32(t.width)
	}
	list[last] += share * float32(end-last*t.width)
}

// double doubles the length of the parts.
func (t *series) double() {
	t.width *= 2
	for _, list := range t.lists {
		for i := range list {
			if 2*i+1 < len(list) {
				list[i] = list[2*i] + list[2*i+1]
			} else {
				list[i] = 0
			}
		}
	}
}

// finish makes all series end with the profile. The last part may be shorter than the others: its times are
// made as if it were not. If it is shorter than half of them, it is left out.
func (t *series) finish() {
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

// groups number the groups of records, from 1.
type groups struct {
	of    map[string]uint64
	names []string
}

func (g *groups) number(name string) uint64 {
	n, ok := g.of[name]
	if !ok {
		if g.of == nil {
			g.of = map[string]uint64{}
		}
		g.names = append(g.names, name)
		n = uint64(len(g.names))
		g.of[name] = n
	}
	return n
}
