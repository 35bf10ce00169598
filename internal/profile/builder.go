package profile

import (
	"encoding/binary"
	"maps"
	"slices"
	"strconv"

	"github.com/gotach/profiler/internal/frames"
)

// A Builder makes a Profile of what is no stream of samples, for which there is [FromSamples]. It
// gives equal frames one number and adds equal records up. The caller sets the fields of Profile
// that describe the profile as a whole.
type Builder struct {
	Profile *Profile

	frames     frames.Table
	starts     bool // some frame has a start line
	goroutines map[uint64]struct{}

	stacks  map[string]uint32 // by the bytes of the frames' numbers
	list    [][]uint32        // the stacks
	sets    map[string]uint32 // label sets by their text
	labels  []map[string]string
	records map[recordKey]int
	buf     []byte
}

// A recordKey identifies a record: records with equal keys are added up.
type recordKey struct {
	goroutine uint64
	system    bool
	state     string
	stack     uint32 // in list
	labels    uint32 // in labels
}

// NewBuilder returns a Builder of an empty profile.
func NewBuilder() *Builder {
	return &Builder{
		Profile:    &Profile{},
		goroutines: map[uint64]struct{}{},
		stacks:     map[string]uint32{},
		sets:       map[string]uint32{"": 0},
		labels:     []map[string]string{nil},
		records:    map[recordKey]int{},
	}
}

// Frame returns the number of a frame. startLine is the line where its function
// starts, 0 if unknown; the first one that is known counts.
func (b *Builder) Frame(f Frame, startLine int32) uint32 {
	p, id := b.Profile, b.frames.Intern(f)
	if p.Frames = b.frames.List(); len(p.StartLines) < len(p.Frames) {
		p.StartLines = append(p.StartLines, 0)
	}
	if startLine > 0 && p.StartLines[id] == 0 {
		p.StartLines[id], b.starts = startLine, true
	}
	return id
}

// Add adds a record to the one like it, if there is one. The Builder copies the
// stack; the labels are shared and must not be changed.
func (b *Builder) Add(r Record) {
	k := recordKey{r.Goroutine, r.System, r.State, b.stack(r.Stack), b.labelSet(r.Labels)}
	if r.Goroutine != 0 {
		b.goroutines[r.Goroutine] = struct{}{}
	}
	b.addTo(b.record(k), &r)
}

// record returns the index of the record with a key, which is a new one if there
// was none.
func (b *Builder) record(k recordKey) int {
	i, ok := b.records[k]
	if !ok {
		i = len(b.Profile.Records)
		b.records[k] = i
		b.Profile.Records = append(b.Profile.Records, Record{
			Goroutine: k.goroutine, System: k.system, State: k.state,
			Labels: b.labels[k.labels], Stack: b.list[k.stack],
		})
	}
	return i
}

// addTo adds r's samples and times to a record.
func (b *Builder) addTo(index int, r *Record) {
	into := &b.Profile.Records[index]
	into.Count += r.Count
	into.Wall = add(into.Wall, r.Wall)
	into.CPU = add(into.CPU, r.CPU)
	b.Profile.Samples += r.Count
}

// stack returns the number of a stack.
func (b *Builder) stack(s []uint32) uint32 {
	b.buf = b.buf[:0]
	for _, id := range s {
		b.buf = binary.LittleEndian.AppendUint32(b.buf, id)
	}
	n, ok := b.stacks[string(b.buf)]
	if !ok {
		n = uint32(len(b.list))
		b.stacks[string(b.buf)] = n
		b.list = append(b.list, slices.Clone(s))
	}
	return n
}

// labelSet returns the number of a set of labels; no labels are number 0.
func (b *Builder) labelSet(labels map[string]string) uint32 {
	if len(labels) == 0 {
		return 0
	}
	b.buf = b.buf[:0]
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		b.buf = strconv.AppendQuote(strconv.AppendQuote(b.buf, k), labels[k])
	}
	n, ok := b.sets[string(b.buf)]
	if !ok {
		n = uint32(len(b.labels))
		b.sets[string(b.buf)] = n
		b.labels = append(b.labels, labels)
	}
	return n
}

// Finish returns the profile. Goroutines is the number of different ones in the
// records, unless the caller has set it.
func (b *Builder) Finish() *Profile {
	p := b.Profile
	if p.Goroutines == 0 {
		p.Goroutines = len(b.goroutines)
	}
	if !b.starts {
		p.StartLines = nil
	}
	return p
}

// Sum adds profiles up into one. Goroutines of equal ids count as one.
func Sum(list []*Profile) *Profile {
	if len(list) == 1 {
		return list[0]
	}
	b := NewBuilder()
	out := b.Profile
	for i, p := range list {
		if i == 0 {
			out.Program, out.Start, out.Interval = p.Program, p.Start, p.Interval
		}
		out.Unitless = out.Unitless || p.Unitless
		if p.Program != out.Program {
			out.Program = ""
		}
		if p.Interval != out.Interval {
			out.Interval = 0
		}
		if !p.Start.IsZero() && p.Start.Before(out.Start) {
			out.Start = p.Start
		}
		out.Duration = add(out.Duration, p.Duration)
		for id, f := range p.Frames {
			b.Frame(f, p.StartLine(uint32(id)))
		}
		remap := frames.Remap{From: p.Frames, To: &b.frames}
		for _, r := range p.Records {
			r.Stack, _ = remap.Stack(r.Stack) // all its frames are p's
			b.Add(r)
		}
	}
	return b.Finish()
}
