// Package reader reads profiles to compute something from them. Its API is not promised (v0): see
// docs/compatibility.md. The command gotach answers many questions; this package is for the others.
//
//	p, err := reader.Open("app.tach") // or all files of a session with rotation
//	if err != nil { … }
//	defer p.Close()
//	for s, err := range p.Samples() {
//		if err != nil { … }
//		sums[s.Stack()[0].Func] += s.Weight
//	}
//
// Each sample stands for some time of one goroutine: from Begin to End, which is the sample's
// Weight. Samples of a goroutine follow one another without gaps from its begin to its end. So sums
// of weights are right, however many samples there are, and at each instant one sample tells of
// each goroutine. Only the runtime's own goroutines have gaps: of them no waits are recorded. The
// samples of a goroutine are in order of time, those of different goroutines are not.
//
// The files are those of gotach, also of a program that still runs or was killed, and those of
// CPython 3.15. They are not trusted: a damaged file causes an error, never a panic, and takes
// limited memory. Time is not limited: a small file may have very many samples.
package reader

import (
	"errors"
	"iter"
	"time"

	decode "github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// A Frame is a place in the source. The innermost one of a goroutine that waits has no file: its
// function says for what, in brackets, such as "[chan receive]".
type Frame = tachyon.Frame

// A Profile is files that are read as one. Only one goroutine at a time may use it.
type Profile struct {
	files  []*decode.Reader
	source *stream.Source
}

// Open opens the files of one session or of several.
func Open(paths ...string) (*Profile, error) {
	p := &Profile{}
	var list []stream.File
	for _, path := range paths {
		r, err := decode.Open(path)
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		p.files = append(p.files, r)
		list = append(list, stream.File{Name: path, Stream: r})
	}
	if len(list) == 0 {
		return nil, errors.New("no files")
	}
	var err error
	if p.source, err = stream.New(list, stream.Options{Labels: true}); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// Close closes the files.
func (p *Profile) Close() error {
	var list []error
	for _, r := range p.files {
		list = append(list, r.Close())
	}
	p.files = nil
	return errors.Join(list...)
}

// Session returns what the files say of the program and of sampling, nil if they are not gotach's.
// It must not be changed.
func (p *Profile) Session() *tachyon.Session { return p.source.Metadata().Session }

// A Sample is some time of a goroutine. It is valid until the next one.
type Sample struct {
	Goroutine  uint64 // its id. With files of several processes, 10^12 is added to those of the second one, and so on
	Begin, End time.Time
	Weight     time.Duration // from Begin to End
	State      string        // "running", "no core", "runnable", "syscall", "C", or what it waits for, such as "chan receive"

	// Waits says that it neither runs nor could run if it had a core of its own. A system call is a
	// wait, unless it is on a core.
	Waits bool
	// Same says that the goroutine has waited since its previous sample, which is of the same wait.
	// A profile of the portable source does not tell two waits at one place apart.
	Same bool

	p     *Profile
	s     *stream.Sample
	stack []Frame  // empty until Stack is called
	ids   []uint32 // memory for Stack
}

// CPU returns how much of the weight was on a CPU: all or nothing.
func (s *Sample) CPU() time.Duration { return s.s.CPU() }

// Stack returns the frames, innermost first. There is at least one in gotach's files. It is valid
// until the next sample.
func (s *Sample) Stack() []Frame {
	if len(s.stack) == 0 {
		frames := s.p.source.Frames()
		s.ids = s.p.source.AppendStack(s.ids[:0], s.s.Stack)
		for _, id := range s.ids {
			s.stack = append(s.stack, frames[id])
		}
	}
	return s.stack
}

// Label returns the value of a pprof label of the goroutine or of a label of its process (such as
// service, version and host), or "".
func (s *Sample) Label(key string) string {
	value, _ := s.p.source.Label(s.s.Labels, key)
	return value
}

// Labels returns the goroutine's own labels, as a new map.
func (s *Sample) Labels() map[string]string {
	if s.s.Labels == nil {
		return nil
	}
	return s.s.Labels.Map()
}

// A wait is where and for what a goroutine waited at its latest sample.
type wait struct {
	stack uint32
	state string
}

// Samples yields all samples. Goroutine time for which there is no sample comes last, with the
// state "not seen", and without Begin and End. An error comes with a nil sample and ends the
// iteration. Samples may be called again, but not while it runs.
func (p *Profile) Samples() iter.Seq2[*Sample, error] {
	return func(yield func(*Sample, error) bool) {
		latest := map[uint64]wait{} // of goroutines that wait
		out := &Sample{p: p}
		for s, err := range p.source.Samples() {
			if err != nil {
				yield(nil, err)
				return
			}
			*out = Sample{p: p, s: s, Goroutine: s.Goroutine, Weight: s.Wall, stack: out.stack[:0], ids: out.ids}
			if s.NotSeen {
				out.State = stream.NotSeen
			} else {
				out.End = time.UnixMicro(int64(s.Time)).UTC()
				out.Begin = out.End.Add(-s.Wall)
				out.State = p.source.State(s.Status, s.Stack)
				now := wait{s.Stack, out.State}
				if out.Waits = stream.Waits(out.State) && out.State != stream.Runnable; out.Waits {
					out.Same = s.Status&tachyon.Moved == 0 && latest[s.Goroutine] == now
					latest[s.Goroutine] = now
				} else {
					delete(latest, s.Goroutine)
				}
			}
			if !yield(out, nil) {
				return
			}
		}
	}
}
