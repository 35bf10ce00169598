package page

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

const (
	maxRuns    = 1 << 20 // of all goroutines while a page is built, 16 bytes each
	perGroup   = 5000    // goroutines of a group that have a row, at first
	leastRows  = 8       // below that, short runs are joined before goroutines are left out
	maxParents = 1 << 17 // of a file
	mostLabels = 200     // bytes of a goroutine's labels
	nothing    = math.MaxUint32
	coarser    = 4 // how many times longer the runs become that are joined
)

// A life is what a goroutine did, one thing after the other.
type life struct {
	id      uint64
	parent  uint64
	side    uint8
	group   uint32
	labels  *stream.Labels
	start   uint64 // µs on the page's axis
	end     uint64
	runs    []run
	ordinal int // in its group

	before       uint64 // µs of its first sample that are before the start of its side
	beforeRecord uint32
}

// A run is time in which a goroutine's samples are of one record.
type run struct {
	record uint32 // or nothing: nothing is known
	length uint64 // µs
}

// lives are the goroutines that have a row of their own.
type lives struct {
	list    []*life
	of      map[lifeKey]*life
	members map[uint32]int // by group
	omitted int
	limit   int    // members of a group
	grain   uint64 // µs
	runs    int
}

type lifeKey struct {
	side        uint8
	interpreter uint32
	id          uint64
}

func newLives() *lives {
	return &lives{of: map[lifeKey]*life{}, members: map[uint32]int{}, limit: perGroup}
}

// find returns the row of a sample's goroutine, nil if it has none.
func (l *lives) find(r *reading, s *stream.Sample, record uint32, at uint64) *life {
	key := lifeKey{r.side, s.Interpreter, s.Goroutine}
	x, ok := l.of[key]
	if ok {
		return x
	}
	group := r.records[record].group
	l.members[group]++
	if l.members[group] > l.limit {
		l.omitted++
		if len(l.of) < maxParents {
			l.of[key] = nil
		}
		return nil
	}
	x = &life{id: s.Goroutine, side: r.side, group: group, start: at, end: at, ordinal: l.members[group], parent: r.parent(s)}
	l.of[key] = x
	l.list = append(l.list, x)
	return x
}

// add adds the time of a sample. before is the part of it that is before the start of the side.
func (l *lives) add(r *reading, slot *latestSample, s *stream.Sample, record uint32, from, to, before uint64) {
	if s.Interpreter == tachyon.Process {
		return
	}
	if s.First || !slot.found {
		slot.life, slot.found = l.find(r, s, record, from), true
	}
	x := slot.life
	if x == nil {
		return
	}
	if before > 0 && x.before == 0 {
		x.before, x.beforeRecord = before, record
	}
	if s.Labels != nil {
		x.labels = s.Labels
	}
	if from > x.end {
		l.note(x, nothing, from-x.end)
	}
	l.note(x, record, to-min(to, max(from, x.end)))
	x.end = max(x.end, to)
	if l.runs > maxRuns {
		l.shrink()
	}
}

func (l *lives) note(x *life, record uint32, length uint64) {
	if length == 0 {
		return
	}
	if n := len(x.runs); n > 0 && (x.runs[n-1].record == record || length < l.grain) {
		x.runs[n-1].length += length
		return
	}
	x.runs = append(x.runs, run{record, length})
	l.runs++
}

// shrink leaves goroutines of large groups out, or joins short runs to those before them if the
// groups are small.
func (l *lives) shrink() {
	for before := l.runs; l.runs > before*3/4 && l.limit > 0; {
		largest := 0
		for _, x := range l.list {
			largest = max(largest, x.ordinal)
		}
		if largest > leastRows {
			l.limit = max(leastRows, min(largest, l.limit)/2)
			l.list = slices.DeleteFunc(l.list, func(x *life) bool {
				if x.ordinal <= l.limit {
					return false
				}
				l.runs -= len(x.runs)
				x.runs, x.end = nil, math.MaxUint64 // add notes nothing more
				l.omitted++
				return true
			})
			continue
		}
		l.grain = max(firstWidth, l.grain*coarser)
		l.runs = 0
		for _, x := range l.list {
			old := x.runs
			x.runs = x.runs[:0:0]
			for _, r := range old {
				l.note(x, r.record, r.length)
			}
		}
		if l.grain > 4*tachyon.MaxTime { // each has one run, and gets no others
			l.limit = 0
		}
	}
}

// parent returns the goroutine that created a sample's goroutine, 0 if unknown.
func (r *reading) parent(s *stream.Sample) uint64 {
	n, f := r.src.File()
	if r.file != n+1 {
		r.file, r.parents = n+1, map[uint64]uint64{}
		for g, err := range f.Stream.Goroutines() {
			if err != nil || len(r.parents) >= maxParents {
				break // whoever reads the samples gets the error
			}
			if g.Parent != 0 {
				r.parents[g.ID] = g.Parent
			}
		}
	}
	id := stream.GoroutineInFile(s.Goroutine)
	if p := r.parents[id]; p != 0 {
		return p + s.Goroutine - id
	}
	return 0
}

// piece returns the goroutines. number is what became of the records.
func (l *lives) piece(number []uint32) (Piece, error) {
	slices.SortStableFunc(l.list, func(a, b *life) int {
		return cmp.Or(cmp.Compare(a.side, b.side), cmp.Compare(a.start, b.start), cmp.Compare(a.id, b.id))
	})
	var labels stream.Table[string]
	labels.Of("")
	var before, beforeRecord []int64
	var ids, parents, sides, groups, label, starts, counts, records, lengths []int64
	for _, x := range l.list {
		ids, parents = append(ids, int64(x.id)), append(parents, int64(x.parent))
		sides, groups = append(sides, int64(x.side)), append(groups, int64(x.group))
		label, starts, counts = append(label, int64(labels.Of(labelText(x.labels)))), append(starts, int64(x.start)), append(counts, int64(len(x.runs)))
		before, beforeRecord = append(before, int64(x.before)), append(beforeRecord, int64(number[x.beforeRecord]))
		for _, r := range x.runs {
			n := int64(-1)
			if r.record != nothing {
				n = int64(number[r.record])
			}
			records, lengths = append(records, n), append(lengths, int64(r.length))
		}
	}
	members := make([]int64, len(l.members)) // of each group, also those without a row
	for group, n := range l.members {
		members = append(members, make([]int64, max(0, int(group)+1-len(members)))...)
		members[group] = int64(n)
	}
	return newPiece("goroutines", map[string]any{"labels": labels.List}, []column{
		{"gId", ids}, {"gParent", parents}, {"gSide", sides}, {"gGroup", groups}, {"gLabels", label}, {"gStart", starts}, {"gRuns", counts}, {"gBefore", before}, {"gBeforeRecord", beforeRecord},
		{"members", members}, {"runRecord", records}, {"runLength", lengths},
	})
}

// leftOut says what is not in the rows.
func (l *lives) leftOut() (list []string) {
	if l.omitted > 0 {
		list = append(list, fmt.Sprintf("%d of %d goroutines have no row of their own; their groups have their time", l.omitted, l.omitted+len(l.list)))
	}
	if l.grain > 0 {
		list = append(list, fmt.Sprintf("in rows of goroutines, what lasted less than %v is part of what was before it", time.Duration(min(l.grain, tachyon.MaxTime))*time.Microsecond))
	}
	return list
}

// labelText returns labels as text: key=value, with spaces between.
func labelText(l *stream.Labels) string {
	if l == nil {
		return ""
	}
	var list []string
	set := l.Map()
	for _, k := range slices.Sorted(maps.Keys(set)) {
		list = append(list, k+"="+set[k])
	}
	text := strings.Join(list, " ")
	if len(text) > mostLabels {
		text = strings.ToValidUTF8(text[:mostLabels], "") + "…"
	}
	return text
}
