package stream

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/tachyon"
)

// A Copy is what a new file with all samples of a source says beside them. The source has
// Options.Markers and Options.Objects, and no selection.
type Copy struct {
	*Source
	// Ended has the threads that have no samples after a file, by its number. The writer can forget
	// them: there may be millions, most of them in one file. It is empty if there is one file.
	Ended   [][]reader.Thread
	Objects []tachyon.Object // by ascending number

	weights map[uint64]uint64 // of goroutines' first samples in several files, in µs, if that is not the interval
}

// Copy reads what is needed for a Copy: of several files all samples, to find out which goroutines
// are in which files.
func (s *Source) Copy() (*Copy, error) {
	c := &Copy{Source: s, weights: map[uint64]uint64{}}
	objects, err := s.Objects() // first, so that they have numbers in the order of the files
	if err != nil {
		return nil, err
	}
	c.Objects = slices.SortedFunc(maps.Values(objects), func(a, b tachyon.Object) int { return cmp.Compare(a.Number, b.Number) })
	if len(s.parts) == 1 {
		return c, nil
	}
	progress := s.o.Progress
	s.o.Progress = nil
	defer func() { s.o.Progress = progress }()
	interval := reader.Micros(s.Header().Interval)
	latest := map[reader.Thread]int{}
	for x, err := range s.Samples() {
		if err != nil {
			return nil, err
		}
		if !x.First {
			continue
		}
		t := reader.Thread{ID: x.Goroutine, Interpreter: x.Interpreter}
		if _, again := latest[t]; !again && x.Wall != interval {
			c.weights[t.ID] = uint64(x.Wall.Microseconds())
		}
		latest[t] = s.present
	}
	c.Ended = make([][]reader.Thread, len(s.parts))
	for t, part := range latest {
		c.Ended[part] = append(c.Ended[part], t)
	}
	for _, list := range c.Ended { // so that equal files are converted to equal files
		slices.SortFunc(list, func(a, b reader.Thread) int {
			return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Interpreter, b.Interpreter))
		})
	}
	return c, nil
}

// Stops yields how often goroutines stopped. Several processes are not in order of time, so of
// these it yields none.
func (c *Copy) Stops() iter.Seq2[*tachyon.Stops, error] {
	return func(yield func(*tachyon.Stops, error) bool) {
		if c.ProcessCount() > 1 {
			return
		}
		start := c.Header().Start
		at := start
		for x, err := range c.Source.Stops() {
			if err != nil {
				yield(nil, err)
				return
			}
			if x.From > at && !yield(&tachyon.Stops{Until: x.From - start}, nil) { // of what was before nothing is known
				return
			}
			at = x.Until
			out := tachyon.Stops{Until: at - start}
			for _, g := range x.List {
				out.List = append(out.List, tachyon.GoroutineStops{ID: g.Goroutine, N: g.N, AtLeast: g.AtLeast})
			}
			if !yield(&out, nil) {
				return
			}
		}
	}
}

// processKeys are what a goroutine of several processes has as labels; see ProcessLabel.
var processKeys = []string{"host", "pid", "process", "service", "version"}

// processLabels returns labels that say which process a goroutine of a file is of, nil if nothing
// is known. The joined session cannot say it.
func (p *Part) processLabels() map[string]string {
	var set map[string]string
	for _, k := range processKeys {
		if p.Metadata.Session == nil {
			break
		}
		if v, ok := ProcessLabel(p.Metadata.Session, k); ok {
			if set == nil {
				set = map[string]string{}
			}
			set[k] = v
		}
	}
	return set
}

// withLabels returns the labels of a goroutine with those of its process.
func withLabels(process, own map[string]string) map[string]string {
	if len(process) == 0 {
		return own
	}
	set := maps.Clone(process)
	maps.Copy(set, own)
	return set
}

// A copiedGoroutine is what EachGoroutine remembers of a goroutine. There may be millions.
type copiedGoroutine struct {
	file    int32 // number of the latest file that says something of it
	labeled bool  // it has labels in what was yielded last
}

// EachGoroutine yields what the files say of the goroutines, file by file. A goroutine may come in
// several parts; see [reader.Reader.Goroutines]. If the files are of several processes, the labels
// say which.
func (c *Copy) EachGoroutine() iter.Seq2[*tachyon.Goroutine, error] {
	if len(c.parts) == 1 {
		return c.parts[0].Stream.Goroutines()
	}
	return func(yield func(*tachyon.Goroutine, error) bool) {
		x := &copying{Copy: c, several: c.ProcessCount() > 1, weights: maps.Clone(c.weights), known: map[uint64]copiedGoroutine{}}
		for i, f := range c.parts {
			var process map[string]string
			if x.several {
				process = f.processLabels()
			}
			for g, err := range f.Stream.Goroutines() {
				if err != nil {
					yield(nil, named(f.File, err))
					return
				}
				if !yield(x.part(i, f, g, process), nil) {
					return
				}
			}
			c.compact(f.File)
		}
		x.rest(func(g *tachyon.Goroutine) bool { return yield(g, nil) })
	}
}

// A copying is one call of EachGoroutine.
type copying struct {
	*Copy
	several bool              // there are several processes
	weights map[uint64]uint64 // as in Copy, without those that were yielded
	known   map[uint64]copiedGoroutine
}

// weight returns the weight of a goroutine's first sample, once.
func (c *copying) weight(id uint64) uint64 {
	w := c.weights[id]
	delete(c.weights, id)
	return w
}

// part returns what a file says of a goroutine.
func (c *copying) part(file int, f *Part, g *tachyon.Goroutine, process map[string]string) *tachyon.Goroutine {
	at := f.Header.Start + f.Shift - c.Header().Start
	id := c.names.ID(f.Process, g.ID)
	k, again := c.known[id]
	part := &tachyon.Goroutine{ID: id, Last: at + g.Last}
	if !again {
		part.CreatedBy, part.CreatedAt, part.First = g.CreatedBy, g.CreatedAt, at+g.First
		if g.Parent != 0 {
			part.Parent = c.names.ID(f.Process, g.Parent)
		}
		part.FirstWeight = c.weight(id)
	}
	if (k.labeled && int(k.file) != file || !again && process != nil) && (len(g.Labels) == 0 || g.Labels[0].From > 0) {
		// The labels of the file before do not go on in this one.
		part.Labels = append(part.Labels, tachyon.LabelSpan{From: at, Labels: withLabels(process, map[string]string{})})
		k.labeled = false
	}
	for _, l := range g.Labels {
		part.Labels = append(part.Labels, tachyon.LabelSpan{From: at + l.From, Labels: withLabels(process, l.Labels)})
		k.labeled = len(l.Labels) > 0
	}
	k.file = int32(file)
	c.known[id] = k
	return part
}

// rest yields goroutines of which the files say nothing: with the labels of their process if there
// are several, and those whose first samples have a weight of their own.
func (c *copying) rest(yield func(*tachyon.Goroutine) bool) {
	for i, f := range c.parts {
		process := f.processLabels()
		if process == nil || !c.several {
			continue
		}
		for _, t := range c.Ended[i] {
			if _, ok := c.known[t.ID]; ok || t.Interpreter == tachyon.Process {
				continue
			}
			c.known[t.ID] = copiedGoroutine{file: int32(i)}
			if !yield(&tachyon.Goroutine{ID: t.ID, FirstWeight: c.weight(t.ID), Labels: []tachyon.LabelSpan{{Labels: process}}}) {
				return
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.weights)) {
		if w := c.weights[id]; w > 0 && !yield(&tachyon.Goroutine{ID: id, FirstWeight: w}) {
			return
		}
	}
}
