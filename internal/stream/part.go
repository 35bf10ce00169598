package stream

import (
	"cmp"
	"iter"
	"slices"

	"github.com/gotach/profiler/tachyon"
)

// A Part is a file among others: where it belongs in time, and whose goroutines it has.
type Part struct {
	File
	Header   tachyon.Header
	Metadata *tachyon.Metadata // at least without goroutines and objects
	Process  Process
	Runtime  bool   // waits of the runtime's goroutines count in it, and in others of the files they do not
	Hole     bool   // the file before it in its session is not there
	Shift    uint64 // µs to add to its times; known when the file before it was read
	End      uint64 // time of its last sample, shifted, µs; known when it was read
}

// A Process identifies a process. Goroutine ids are unique within one.
type Process struct {
	Host  string
	PID   int
	Start int64 // µs, of the session
	File  int   // number of the file, from 1, if it does not say which process it is of
}

// newPart returns a file as a part. It has neither Process nor place yet.
func newPart(f File) (*Part, error) {
	m, err := f.Stream.Overview()
	if err != nil {
		return nil, err
	}
	return &Part{File: f, Header: f.Stream.Header(), Metadata: m}, nil
}

// Number returns the number of the file in its session, 0 if unknown.
func (p *Part) Number() int {
	if p.Metadata.Session == nil {
		return 0
	}
	return p.Metadata.Session.Part
}

// Interpreter returns the interpreter of a thread in the joined stream. If some files leave
// out waits of the runtime's goroutines, those of the other files become ordinary
// goroutines, whose waits count.
func (p *Part) Interpreter(i uint32) uint32 {
	if p.Runtime && i == tachyon.Runtime {
		return tachyon.User
	}
	return i
}

// countsAll reports whether the waits of the runtime's goroutines count in the file.
func (p *Part) countsAll() bool {
	return !p.Metadata.Session.Markers || p.Metadata.Session.System
}

// mixed reports whether gotach recorded all files, and waits of the runtime's goroutines do
// not count in some of them.
func mixed(parts []*Part) (out bool) {
	for _, p := range parts {
		if p.Metadata.Session == nil {
			return false
		}
		out = out || !p.countsAll()
	}
	return out
}

// wallClock is in the year 2000, in µs. Clocks that show an earlier time are not
// wall clocks.
const wallClock = 946_684_800_000_000

// arrange puts files in order of time and finds out which belong together. Files without a wall
// clock come last.
func arrange(parts []*Part) {
	clockless := func(p *Part) int {
		if p.Header.Start < wallClock {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(parts, func(a, b *Part) int {
		return cmp.Or(clockless(a)-clockless(b), cmp.Compare(a.Header.Start, b.Header.Start), cmp.Compare(a.Number(), b.Number()))
	})
	if len(parts) == 1 {
		return
	}
	mixed := mixed(parts)
	latest := map[Process]int{} // the number of the latest file
	for i, p := range parts {
		p.Process = Process{File: i + 1}
		p.Runtime = mixed && p.countsAll()
		if s := p.Metadata.Session; s != nil {
			begin := s.SessionStart
			if begin.IsZero() {
				begin = s.Start
			}
			p.Process = Process{Host: s.Host, PID: s.PID, Start: begin.UnixMicro()}
			p.Hole = p.Number() > latest[p.Process]+1
			latest[p.Process] = p.Number()
		}
	}
}

// Begin sets where the part begins, given the one before it, which is nil for the first one.
func (p *Part) Begin(before *Part) {
	if before != nil && p.Header.Start < wallClock {
		p.Shift = before.End - p.Header.Start
	}
	p.End = p.Header.Start + p.Shift
}

// missing returns how many µs between a thread's samples in two files are in none of the files:
// from last, the time of its latest sample in the files before, to begin, where the time for which
// its first sample in the part stands begins. said reports whether begin is from the metadata.
func (p *Part) missing(last, begin uint64, said bool) uint64 {
	// The previous sample may be in a file that is not among the files. The last file of a killed
	// program may have no metadata; then a hole in the numbers tells.
	if !said && !p.Hole {
		return 0
	}
	return uint64(max(0, int64(begin-last)))
}

// ProcessCount returns of how many processes the files are.
func (s *Source) ProcessCount() int {
	seen := map[Process]bool{}
	for _, p := range s.parts {
		seen[p.Process] = true
	}
	return len(seen)
}

// Processes yields a source for each process, in the order of their first files. It returns nil if
// all files are of one process. A source is valid until the next one.
func (s *Source) Processes() iter.Seq2[*Source, error] {
	var order []Process
	files := map[Process][]File{}
	for _, p := range s.parts {
		if files[p.Process] == nil {
			order = append(order, p.Process)
		}
		files[p.Process] = append(files[p.Process], p.File)
	}
	if len(order) < 2 {
		return nil
	}
	return func(yield func(*Source, error) bool) {
		o := s.o
		o.Progress = nil // of one process, not of all
		for _, process := range order {
			one, err := New(files[process], o)
			if err == nil {
				one.many = s.many
			}
			if !yield(one, err) {
				return
			}
			for _, f := range files[process] {
				s.compact(f)
			}
		}
	}
}
