package gotest

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/tachyon"
)

// The labels that goroutines get.
const (
	packageLabel = "package"
	testLabel    = "test"
)

// noSample is the innermost frame where a test ran between two samples: how long is known, but not what it did.
const noSample = "[no sample]"

// labelled is the profile of a process with the labels package and test. Each test has at least one sample: if the
// sampler took none, it has one with the frame [no sample], which stands for the time that the test took.
type labelled struct {
	reader.Stream
	metadata *tachyon.Metadata
	frames   []tachyon.Frame
	spans    map[uint64][]missing // spans without a sample, by goroutine
}

// A missing is a span that has no sample.
type missing struct{ begin, end uint64 }

// newLabelled reads the profile of a process once.
func newLabelled(s reader.Stream, p *process) (*labelled, error) {
	m, err := s.Metadata()
	if err != nil {
		return nil, err
	}
	l := &labelled{Stream: s, spans: map[uint64][]missing{}}
	l.frames = append(slices.Clone(s.Frames()), tachyon.Frame{Func: noSample}, tachyon.Frame{Func: "testing.tRunner"})
	seen := map[uint64]bool{}
	next := map[uint64]int{} // by goroutine, the first span that may have the next sample
	for sample, err := range s.Samples() {
		if err != nil {
			return nil, err
		}
		id := sample.Thread
		seen[id] = true
		list := p.spans[id]
		for i := next[id]; i < len(list) && list[i].begin <= sample.Time; i++ {
			next[id] = i + 1
			if sample.Time > list[i].end && list[i].end > list[i].begin || i+1 < len(list) && list[i+1].begin <= sample.Time {
				l.spans[id] = append(l.spans[id], missing{list[i].begin, list[i].end})
			}
		}
	}
	var added uint64
	for id, list := range p.spans {
		for _, sp := range list[next[id]:] {
			l.spans[id] = append(l.spans[id], missing{sp.begin, sp.end})
		}
	}
	for id, list := range l.spans {
		for i := range list {
			list[i].end = max(list[i].end, list[i].begin+1)
			if !seen[id] {
				added += list[i].end - list[i].begin
			}
		}
	}
	l.metadata = l.describe(m, p, seen)
	if m.Session != nil {
		session := *m.Session
		session.NotSeen -= min(session.NotSeen, reader.Micros(added))
		l.metadata.Session = &session
	}
	return l, nil
}

// Frames returns the frames of the file, and two more.
func (l *labelled) Frames() []tachyon.Frame { return l.frames }

// Metadata returns the metadata with labels.
func (l *labelled) Metadata() (*tachyon.Metadata, error) { return l.metadata, nil }

// Samples yields the samples of the file, and those of the tests that have none.
func (l *labelled) Samples() iter.Seq2[*tachyon.Sample, error] {
	return func(yield func(*tachyon.Sample, error) bool) {
		left := maps.Clone(l.spans)
		unknown := []uint32{uint32(len(l.frames) - 2), uint32(len(l.frames) - 1)}
		add := func(id uint64, at uint64, stack []uint32, status tachyon.Status) bool {
			return yield(&tachyon.Sample{Thread: id, Time: at, Stack: stack, Status: status}, nil)
		}
		last := map[uint64]uint64{} // time of the latest sample, of goroutines with such spans
		for s, err := range l.Stream.Samples() {
			if err != nil {
				yield(nil, err)
				return
			}
			if list := left[s.Thread]; len(list) > 0 && s.Interpreter == tachyon.User {
				for len(list) > 0 && list[0].end <= s.Time {
					// What was before the test keeps the stack that it would have had.
					at, known := last[s.Thread]
					if known && at < list[0].begin && !add(s.Thread, list[0].begin, s.Stack, s.Status) ||
						!add(s.Thread, list[0].end, unknown, 0) {
						return
					}
					last[s.Thread], list = list[0].end, list[1:]
				}
				left[s.Thread], last[s.Thread] = list, s.Time
			}
			if !yield(s, nil) {
				return
			}
		}
		for _, id := range slices.Sorted(maps.Keys(left)) {
			for _, m := range left[id] {
				if !add(id, m.end, unknown, 0) {
					return
				}
			}
		}
	}
}

// describe returns the metadata with labels. seen has the threads with samples.
func (l *labelled) describe(m *tachyon.Metadata, p *process, seen map[uint64]bool) *tachyon.Metadata {
	out := *m
	known := map[uint64]*tachyon.Goroutine{}
	for i := range m.Goroutines {
		g := m.Goroutines[i]
		known[g.ID] = &g
	}
	start := l.Header().Start
	since := func(at uint64) uint64 { return at - min(at, start) }
	for id := range seen {
		if known[id] == nil {
			known[id] = &tachyon.Goroutine{ID: id}
		}
	}
	for id, list := range p.spans {
		if known[id] == nil {
			known[id] = &tachyon.Goroutine{ID: id, First: since(list[0].begin)}
		}
		if g := known[id]; !seen[id] && len(l.spans[id]) > 0 {
			first := l.spans[id][0]
			g.FirstWeight = first.end - first.begin
			g.Last = since(list[len(list)-1].end)
		}
	}
	tests := &tests{process: p, known: known, start: start, of: map[uint64]string{}}
	out.Goroutines = nil
	for _, id := range slices.Sorted(maps.Keys(known)) {
		g := *known[id]
		g.Labels = join(tests.spans(id), g.Labels)
		out.Goroutines = append(out.Goroutines, g)
	}
	return &out
}

// tests finds the tests of goroutines.
type tests struct {
	*process
	known map[uint64]*tachyon.Goroutine
	start uint64
	of    map[uint64]string // tests of goroutines that run none themselves
}

// spans returns the labels of a goroutine that come from here.
func (t *tests) spans(id uint64) (list []tachyon.LabelSpan) {
	labels := func(test string) map[string]string {
		set := map[string]string{packageLabel: t.importPath}
		if test != "" {
			set[testLabel] = test
		}
		return set
	}
	own := t.process.spans[id]
	if len(own) == 0 {
		return []tachyon.LabelSpan{{Labels: labels(t.inherited(id))}}
	}
	if len(own) > 1 || id == 1 {
		list = append(list, tachyon.LabelSpan{Labels: labels("")})
	}
	for i, s := range own {
		from := s.begin - min(s.begin, t.start)
		if len(own) == 1 && id != 1 {
			from = 0 // the goroutine exists for this test
		} else {
			from++ // time up to here is not the test's
		}
		if n := len(list); n > 0 && list[n-1].From >= from {
			list = list[:n-1]
		}
		list = append(list, tachyon.LabelSpan{From: from, Labels: labels(s.name)})
		over := s.end - min(s.end, t.start) + 1
		if len(own) > 1 || id == 1 {
			if s.end > s.begin && (i+1 == len(own) || own[i+1].begin > s.end) {
				list = append(list, tachyon.LabelSpan{From: max(over, from+1), Labels: labels("")})
			}
		}
	}
	return list
}

// inherited returns the test of a goroutine that runs none itself: that of the goroutine that started it, at that time.
// If a goroutine between is unknown, it was short: then it is the only test that ran, or "" if several did.
func (t *tests) inherited(id uint64) (test string) {
	if test, ok := t.of[id]; ok {
		return test
	}
	t.of[id] = "" // should there be a circle
	if g := t.known[id]; g != nil && g.Parent != 0 {
		if own := t.process.spans[g.Parent]; len(own) == 0 && t.known[g.Parent] == nil {
			test = t.only(t.start + g.First)
		} else if len(own) == 0 {
			test = t.inherited(g.Parent)
		} else if len(own) == 1 && g.Parent != 1 {
			test = own[0].name
		} else {
			for _, s := range own {
				if s.begin <= t.start+g.First {
					test = s.name
				}
			}
		}
	}
	t.of[id] = test
	return test
}

// only returns the innermost of the tests that ran at a time, or "" if they do not lie within each other.
func (t *tests) only(at uint64) (name string) {
	for _, list := range t.process.spans {
		for _, s := range list {
			if s.begin > at || s.end < at && s.end > s.begin {
				continue
			}
			switch {
			case strings.HasPrefix(s.name, name+"/") || name == "":
				name = s.name
			case !strings.HasPrefix(name, s.name+"/"):
				return ""
			}
		}
	}
	return name
}

// join returns the labels of both lists. If a name is in both, the first list's label counts.
func join(first, second []tachyon.LabelSpan) (out []tachyon.LabelSpan) {
	if len(second) == 0 {
		return first
	}
	var at []uint64
	for _, l := range slices.Concat(first, second) {
		at = append(at, l.From)
	}
	slices.Sort(at)
	for _, from := range slices.Compact(at) {
		set := map[string]string{}
		maps.Copy(set, labelsAt(second, from))
		maps.Copy(set, labelsAt(first, from))
		if n := len(out); n == 0 || !maps.Equal(out[n-1].Labels, set) {
			out = append(out, tachyon.LabelSpan{From: from, Labels: set})
		}
	}
	return out
}

// labelsAt returns the labels at a time.
func labelsAt(list []tachyon.LabelSpan, at uint64) map[string]string {
	i, ok := slices.BinarySearchFunc(list, at, func(l tachyon.LabelSpan, at uint64) int { return cmp.Compare(l.From, at) })
	if !ok {
		i--
	}
	if i < 0 {
		return nil
	}
	return list[i].Labels
}
