package formats

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/gotach/profiler/internal/frames"
	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
)

// joined is many files as one stream. It reads the files anew each time its
// samples are asked for, and renames goroutines, translates frames and shifts times
// on the way.
type joined struct {
	inputs
	files    []*joinFile // in order of time
	header   tachyon.Header
	frames   frames.Table
	gap      uint32 // the frame of time that is in none of the files
	metadata tachyon.Metadata
}

// process identifies a process. Goroutine ids are unique within one.
type process struct {
	host  string
	pid   int
	start int64 // µs, of the session
	file  int   // number of the file, if that does not name its process
}

// thread is a thread of the joined stream.
type thread struct {
	id          uint64
	interpreter uint32
}

// A joinFile is one of the files.
type joinFile struct {
	in      *Input
	s       reader.Stream
	m       *tachyon.Metadata
	h       tachyon.Header
	process process
	whole   bool              // all samples count; in the joined stream some of other files do not
	shift   uint64            // µs to add to its times
	end     uint64            // time of its last sample, shifted, µs
	hole    bool              // the file before it in its session is not there
	ids     map[uint64]uint64 // of its process's goroutines in the joined stream
	gaps    map[thread]uint64 // when the missing time of a joined thread ends, µs
}

// part returns the number of the file in its session, 0 if unknown.
func (f *joinFile) part() int {
	if f.m.Session == nil {
		return 0
	}
	return f.m.Session.Part
}

// countsAll reports whether the waits of the runtime's goroutines count in the file.
func (f *joinFile) countsAll() bool { return !f.m.Session.Markers || f.m.Session.System }

// mixed reports whether gotach recorded all files, and waits of the runtime's goroutines do
// not count in some of them.
func mixed(files []*joinFile) (out bool) {
	for _, f := range files {
		if f.m.Session == nil {
			return false
		}
		out = out || !f.countsAll()
	}
	return out
}

// interpreter returns the interpreter of a thread in the joined stream. If some files leave
// out waits of the runtime's goroutines, those of the other files become ordinary
// goroutines, whose waits count.
func (f *joinFile) interpreter(i uint32) uint32 {
	if f.whole && i == tachyon.Runtime {
		return tachyon.User
	}
	return i
}

func newJoinFile(in *Input) (*joinFile, error) {
	s, err := in.Series()
	if err != nil {
		return nil, err
	}
	m, err := s.Metadata()
	if err != nil {
		return nil, err
	}
	return &joinFile{in: in, s: s, m: m, h: s.Header(), gaps: map[thread]uint64{}}, nil
}

// wallClock is in the year 2000, in µs. Clocks that show an earlier time are not
// wall clocks.
const wallClock = 946_684_800_000_000

// newJoined reads all samples once, to find out which goroutines are in which file
// and when each was first and last seen.
func newJoined(list inputs) (content, error) {
	j := &joined{inputs: list}
	for _, in := range list {
		f, err := newJoinFile(in)
		if err != nil {
			return nil, named(in, err)
		}
		j.files = append(j.files, f)
	}
	early := func(f *joinFile) int { // files with a wall clock come first
		if f.h.Start < wallClock {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(j.files, func(a, b *joinFile) int {
		return cmp.Or(early(a)-early(b), cmp.Compare(a.h.Start, b.h.Start), cmp.Compare(a.part(), b.part()))
	})
	first := j.files[0]
	j.header = tachyon.Header{Layout: tachyon.Document, Start: first.h.Start, Interval: first.h.Interval}
	j.gap = j.frames.Intern(tachyon.Frame{Func: "[not recorded]"})
	sc := joinScan{
		joined: j, ids: map[process]map[uint64]uint64{}, used: map[uint64]bool{},
		last: map[thread]uint64{}, weights: map[uint64]uint64{}, known: map[uint64]*tachyon.Goroutine{},
	}
	numbers := objectNumbers{}
	mixed := mixed(j.files)
	parts := map[process]int{} // the latest one's number
	for i, f := range j.files {
		f.process = process{file: i + 1}
		f.whole = mixed && f.countsAll()
		if s := f.m.Session; s != nil {
			begin := s.SessionStart
			if begin.IsZero() {
				begin = s.Start
			}
			f.process = process{host: s.Host, pid: s.PID, start: begin.UnixMicro()}
			f.hole = f.part() > parts[f.process]+1
			parts[f.process] = f.part()
		}
		f.s = numbers.stream(f)
		if i > 0 && f.h.Start < wallClock {
			f.shift = j.files[i-1].end - f.h.Start
		}
		if err := sc.file(f); err != nil {
			return nil, named(f.in, err)
		}
	}
	j.header.Threads = uint32(len(sc.last))
	j.metadata = tachyon.Metadata{Session: joinSessions(j.files), PCs: joinPCs(j.files), Objects: numbers.list()}
	for id, weight := range sc.weights {
		g, _ := sc.goroutine(id)
		g.FirstWeight = weight
	}
	for _, id := range slices.Sorted(maps.Keys(sc.known)) {
		j.metadata.Goroutines = append(j.metadata.Goroutines, *sc.known[id])
	}
	return j, nil
}

// Header returns the header of the joined stream.
func (j *joined) Header() tachyon.Header { return j.header }

// Frames returns the frames of all files.
func (j *joined) Frames() []tachyon.Frame { return j.frames.List() }

// Metadata returns the metadata of all files together.
func (j *joined) Metadata() (*tachyon.Metadata, error) { return &j.metadata, nil }

// Samples yields the samples of all files, one file after the other.
func (j *joined) Samples() iter.Seq2[*tachyon.Sample, error] {
	return func(yield func(*tachyon.Sample, error) bool) {
		for _, f := range j.files {
			if !j.file(f, yield) {
				return
			}
		}
	}
}

// file yields the samples of a file. It returns false when yield wants no more.
func (j *joined) file(f *joinFile, yield func(*tachyon.Sample, error) bool) bool {
	remap := frames.Remap{From: f.s.Frames(), To: &j.frames}
	begun := make(map[thread]bool, len(f.gaps))
	var out tachyon.Sample
	for s, err := range f.s.Samples() {
		if err == nil {
			out = *s
			out.Thread, out.Time = f.ids[s.Thread], s.Time+f.shift
			out.Interpreter = f.interpreter(s.Interpreter)
			out.Stack, err = remap.Stack(s.Stack)
		}
		if err != nil {
			yield(nil, named(f.in, err))
			return false
		}
		if len(begun) < len(f.gaps) {
			t := thread{out.Thread, out.Interpreter}
			if until, ok := f.gaps[t]; ok && !begun[t] {
				begun[t] = true
				gap := tachyon.Sample{Thread: t.id, Interpreter: t.interpreter, Time: until, Stack: []uint32{j.gap}}
				if !yield(&gap, nil) {
					return false
				}
			}
		}
		if !yield(&out, nil) {
			return false
		}
	}
	return true
}

// Series returns j itself.
func (j *joined) Series() (reader.Stream, error) { return j, nil }

// Info returns what is known about all files together.
func (j *joined) Info() ([]Field, error) {
	var u *usage
	if j.metadata.Session != nil {
		var err error
		if u, err = readUsage(j); err != nil {
			return nil, err
		}
	}
	l := streamInfo(j.header, &j.metadata, u)
	l.number("frames", "frames", int64(len(j.Frames())))
	l.number("files", "files", int64(len(j.files)))
	return l, nil
}

// Verify checks each file.
func (j *joined) Verify() (string, error) {
	for _, f := range j.files {
		if _, err := f.in.Verify(); err != nil {
			return "", named(f.in, err)
		}
	}
	found, err := verifyStream(j)
	return fmt.Sprintf("%d files, %s", len(j.files), found), err
}

// A joinScan is the state of newJoined while it reads the files.
type joinScan struct {
	*joined
	ids     map[process]map[uint64]uint64
	used    map[uint64]bool   // joined ids
	last    map[thread]uint64 // time of its last sample so far, µs
	weights map[uint64]uint64 // of first samples, by joined id, if that is not the interval
	known   map[uint64]*tachyon.Goroutine
}

// id returns the id of a goroutine in the joined stream.
func (sc *joinScan) id(ids map[uint64]uint64, id uint64) uint64 {
	const apart = 1_000_000_000_000
	to, ok := ids[id]
	if !ok {
		for to = id; sc.used[to]; {
			to += apart
		}
		ids[id], sc.used[to] = to, true
	}
	return to
}

// goroutine returns the joined metadata of a goroutine, given its joined id.
func (sc *joinScan) goroutine(id uint64) (g *tachyon.Goroutine, fresh bool) {
	if g = sc.known[id]; g == nil {
		g, fresh = &tachyon.Goroutine{ID: id}, true
		sc.known[id] = g
	}
	return g, fresh
}

// file reads the samples and the metadata of a file.
func (sc *joinScan) file(f *joinFile) error {
	if f.ids = sc.ids[f.process]; f.ids == nil {
		f.ids = map[uint64]uint64{}
		sc.ids[f.process] = f.ids
	}
	remap := frames.Remap{From: f.s.Frames(), To: &sc.frames}
	remap.All()
	said := f.m.FirstWeights()
	f.end = f.h.Start + f.shift
	var threads []thread
	var last []uint64
	for s, err := range reader.WithMarkers(f.s) {
		if err != nil {
			return err
		}
		at := s.Time + f.shift
		if s.First {
			t := thread{sc.id(f.ids, s.Thread), f.interpreter(s.Interpreter)}
			threads, last = append(threads, t), append(last, at)
			_, ok := said[s.Thread]
			sc.seam(f, t, at-s.Weight, s.Weight, ok)
			delete(said, s.Thread)
		}
		last[s.Index] = at
		if int64(at-f.end) > 0 {
			f.end = at
		}
		sc.header.Samples++
	}
	for i, t := range threads {
		sc.last[t] = last[i]
	}
	sc.goroutines(f)
	return nil
}

// seam keeps the weight of a thread's first sample in a file right. The weight begins
// at the time begin. said reports whether it is from the metadata.
func (sc *joinScan) seam(f *joinFile, t thread, begin, weight uint64, said bool) {
	last, seen := sc.last[t]
	if !seen {
		if weight != sc.header.Interval {
			sc.weights[t.id] = weight
		}
		return
	}
	// Its previous sample may be in a file that is not among the inputs. The last
	// file of a killed program has no metadata; then a hole in the numbers tells.
	if (said || f.hole) && int64(begin-last) > 0 {
		f.gaps[t] = begin
		sc.header.Samples++
	}
}

// goroutines adds a file's metadata of goroutines.
func (sc *joinScan) goroutines(f *joinFile) {
	at := f.h.Start + f.shift - sc.header.Start
	for _, g := range f.m.Goroutines {
		id := sc.id(f.ids, g.ID)
		k, fresh := sc.goroutine(id)
		if fresh {
			k.CreatedBy, k.CreatedAt, k.First = g.CreatedBy, g.CreatedAt, at+g.First
			if g.Parent != 0 {
				k.Parent = sc.id(f.ids, g.Parent)
			}
		}
		k.Last = max(k.Last, at+g.Last)
		if n := len(k.Labels); n > 0 && len(k.Labels[n-1].Labels) > 0 && (len(g.Labels) == 0 || g.Labels[0].From > 0) {
			k.Labels = append(k.Labels, tachyon.LabelSpan{From: at, Labels: map[string]string{}})
		}
		for _, l := range g.Labels {
			k.Labels = append(k.Labels, tachyon.LabelSpan{From: at + l.From, Labels: l.Labels})
		}
	}
}
