package runs

import "time"

// levelParts is the number of parts of a session for which there is a level.
const levelParts = 1000

// A level adds up stretches of time: how many there are at once, as the mean of each part of a
// session.
type level struct {
	width time.Duration // of a part
	edges []float64     // ns in parts where a stretch begins or ends
	whole []int         // change in the number of stretches that have all of a part, from this one on
}

func newLevel(end time.Duration) *level {
	return &level{width: max(1, end/levelParts+1), edges: make([]float64, levelParts), whole: make([]int, levelParts+1)}
}

// add adds a stretch.
func (l *level) add(begin, end time.Duration) {
	begin = max(0, min(begin, levelParts*l.width-1))
	end = max(begin, min(end, levelParts*l.width-1))
	first, last := int(begin/l.width), int(end/l.width)
	if first == last {
		l.edges[first] += float64(end - begin)
		return
	}
	l.edges[first] += float64(time.Duration(first+1)*l.width - begin)
	l.edges[last] += float64(end - time.Duration(last)*l.width)
	l.whole[first+1]++
	l.whole[last]--
}

// means returns the mean of each part.
func (l *level) means() []float64 {
	out := make([]float64, levelParts)
	whole := 0
	for i := range out {
		whole += l.whole[i]
		out[i] = float64(whole) + l.edges[i]/float64(l.width)
	}
	return out
}
