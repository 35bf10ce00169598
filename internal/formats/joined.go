package formats

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/gotach/profiler/internal/frames"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// joinedFiles is many files that keep their samples.
type joinedFiles struct {
	inputs
	stream func() (*joined, error)
}

func newJoinedFiles(list inputs) *joinedFiles {
	return &joinedFiles{list, sync.OnceValues(func() (*joined, error) { return newJoined(list) })}
}

// files returns the files for a stream.Source.
func (j *joinedFiles) files() (list []stream.File, err error) {
	for _, in := range j.inputs {
		f, err := in.file()
		if err != nil {
			return nil, named(in, err)
		}
		list = append(list, f)
	}
	return list, nil
}

// Series returns all samples as one stream.
func (j *joinedFiles) Series() (reader.Stream, error) {
	s, err := j.stream()
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Info returns what is known about all files together.
func (j *joinedFiles) Info() ([]Field, error) {
	s, err := j.stream()
	if err != nil {
		return nil, err
	}
	return s.Info()
}

// Verify checks each file.
func (j *joinedFiles) Verify() (string, error) {
	s, err := j.stream()
	if err != nil {
		return "", err
	}
	return s.Verify()
}

// joined is many files as one stream. It reads the files anew each time its
// samples are asked for, and renames goroutines, translates frames and shifts times
// on the way.
type joined struct {
	files    []*joinFile // in order of time
	names    stream.Names
	header   tachyon.Header
	frames   frames.Table
	gap      uint32           // the frame of time that is in none of the files
	overview tachyon.Metadata // without goroutines
	several  bool             // processes
	strange  []string         // see stream.Strange
	ended    func(thread uint64, interpreter uint32)
	weights  []reader.FirstWeight // of first samples, by ascending joined id, if that is not the interval
	metadata func() (*tachyon.Metadata, error)
}

// thread is a thread of the joined stream.
type thread struct {
	id          uint64
	interpreter uint32
}

// A joinFile is one of the files.
type joinFile struct {
	*stream.Part
	in   *Input
	s    reader.Stream     // with the joined numbers of objects
	gaps map[thread]uint64 // when the missing time of a joined thread ends, µs

	ended []thread // joined threads whose last sample is in the file
}

// newPart returns an input as a part.
func newPart(in *Input) (*stream.Part, error) {
	s, err := in.Series()
	if err != nil {
		return nil, err
	}
	return stream.NewPart(stream.File{Name: in.Name, Stream: s})
}

// newJoined reads all samples once, to find out which goroutines are in which file
// and when each was first and last seen.
func newJoined(list inputs) (*joined, error) {
	j := &joined{}
	j.metadata = sync.OnceValues(j.all)
	var parts []*stream.Part
	of := map[*stream.Part]*Input{}
	for _, in := range list {
		p, err := newPart(in)
		if err != nil {
			return nil, named(in, err)
		}
		parts = append(parts, p)
		of[p] = in
	}
	stream.Arrange(parts)
	j.names = stream.NewNames(parts)
	j.header = tachyon.Header{Layout: tachyon.Document, Start: parts[0].Header.Start, Interval: parts[0].Header.Interval}
	j.gap = j.frames.Intern(tachyon.Frame{Func: "[not recorded]"})
	sc := joinScan{joined: j, last: map[thread]lastSample{}}
	j.strange = stream.Strange(parts)
	j.several = slices.ContainsFunc(parts, func(p *stream.Part) bool { return p.Process != parts[0].Process })
	numbers := stream.ObjectNumbers{}
	for i, p := range parts {
		f := &joinFile{Part: p, in: of[p], gaps: map[thread]uint64{}}
		j.files = append(j.files, f)
		var err error
		if f.s, err = numbers.Stream(p); err != nil {
			return nil, named(f.in, err)
		}
		var before *stream.Part
		if i > 0 {
			before = parts[i-1]
		}
		p.Begin(before)
		if err := sc.file(i, f); err != nil {
			return nil, named(f.in, err)
		}
	}
	j.header.Threads = uint32(len(sc.last))
	for t, last := range sc.last {
		f := j.files[last.file]
		f.ended = append(f.ended, t)
	}
	for _, f := range j.files { // so that equal files are converted to equal files
		slices.SortFunc(f.ended, func(a, b thread) int {
			return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.interpreter, b.interpreter))
		})
	}
	j.overview = *stream.Join(parts)
	j.overview.Objects = numbers.List()
	// If a goroutine has several, since threads of several interpreters have its id, the last one counts.
	byID := func(a, b reader.FirstWeight) int { return cmp.Compare(a.Goroutine, b.Goroutine) }
	slices.SortStableFunc(j.weights, byID)
	slices.Reverse(j.weights)
	j.weights = slices.CompactFunc(j.weights, func(a, b reader.FirstWeight) bool { return a.Goroutine == b.Goroutine })
	slices.Reverse(j.weights)
	return j, nil
}

// Header returns the header of the joined stream.
func (j *joined) Header() tachyon.Header { return j.header }

// Frames returns the frames of all files.
func (j *joined) Frames() []tachyon.Frame { return j.frames.List() }

// Metadata returns the metadata of all files together.
func (j *joined) Metadata() (*tachyon.Metadata, error) { return j.metadata() }

// Overview returns the metadata of all files together without goroutines.
func (j *joined) Overview() (*tachyon.Metadata, error) { return &j.overview, nil }

// Objects yields the objects of all files.
func (j *joined) Objects() iter.Seq2[*tachyon.Object, error] {
	return func(yield func(*tachyon.Object, error) bool) {
		for i := range j.overview.Objects {
			if !yield(&j.overview.Objects[i], nil) {
				return
			}
		}
	}
}

// WhenEnded sets what Samples tells that a thread has no further samples. It is told once per thread, after the file
// with the last one. There may be millions of threads, most of them in one file.
func (j *joined) WhenEnded(tell func(thread uint64, interpreter uint32)) { j.ended = tell }

// Samples yields the samples of all files, one file after the other.
func (j *joined) Samples() iter.Seq2[*tachyon.Sample, error] {
	return func(yield func(*tachyon.Sample, error) bool) {
		for _, f := range j.files {
			if !j.file(f, yield) {
				return
			}
			if j.ended == nil {
				continue
			}
			for _, t := range f.ended {
				j.ended(t.id, t.interpreter)
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
			out.Thread, out.Time = j.names.ID(f.Process, s.Thread), s.Time+f.Shift
			out.Interpreter = f.Interpreter(s.Interpreter)
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

// Info returns what is known about all files together.
func (j *joined) Info() ([]Field, error) {
	var u *usage
	if j.overview.Session != nil {
		var err error
		if u, err = readUsage(j, &Options{}); err != nil {
			return nil, err
		}
	}
	l := streamInfo(j.header, &j.overview, u)
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
	last map[thread]lastSample // so far
}

type lastSample struct {
	time uint64 // µs
	file int    // its number
}

// file reads the samples of a file, given its number.
func (sc *joinScan) file(number int, f *joinFile) error {
	remap := frames.Remap{From: f.s.Frames(), To: &sc.frames}
	remap.All()
	said, err := reader.FirstWeights(f.s)
	if err != nil {
		return err
	}
	var threads []thread
	var last []uint64
	for s, err := range reader.WithMarkers(f.s) {
		if err != nil {
			return err
		}
		at := s.Time + f.Shift
		if s.First {
			t := thread{sc.names.ID(f.Process, s.Thread), f.Interpreter(s.Interpreter)}
			threads, last = append(threads, t), append(last, at)
			_, ok := reader.TakeWeight(said, s.Thread)
			sc.seam(f, t, at-s.Weight, s.Weight, ok)
		}
		last[s.Index] = at
		if int64(at-f.End) > 0 {
			f.End = at
		}
		sc.header.Samples++
	}
	for i, t := range threads {
		sc.last[t] = lastSample{last[i], number}
	}
	if !sc.several {
		return nil
	}
	for g, err := range reader.Goroutines(f.s) { // names all, so that later readings only look names up
		if err != nil {
			return err
		}
		sc.names.ID(f.Process, g.ID)
		if g.Parent != 0 {
			sc.names.ID(f.Process, g.Parent)
		}
	}
	return nil
}

// seam keeps the weight of a thread's first sample in a file right. The weight begins
// at the time begin. said reports whether it is from the metadata.
func (sc *joinScan) seam(f *joinFile, t thread, begin, weight uint64, said bool) {
	last, seen := sc.last[t]
	if !seen {
		if weight != sc.header.Interval {
			sc.weights = append(sc.weights, reader.FirstWeight{Goroutine: t.id, Weight: weight})
		}
		return
	}
	if f.Missing(last.time, begin, said) > 0 {
		f.gaps[t] = begin
		sc.header.Samples++
	}
}
