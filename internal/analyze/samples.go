package analyze

import (
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// Samples are the samples that an analysis reads, from a stream of files.
type Samples struct {
	Name   string
	Source *stream.Source
	Start  uint64 // of the profile, µs
	tick   uint64 // time between two ticks, µs, at least 1

	End   uint64 // time of the latest sample, µs since the start
	Until uint64 // end of the selected time, µs since the start

	damaged func(error) // see Tolerate
	Cut     bool        // it was called

	code []profile.Code // by frame
}

// NewSamples returns the samples of a source, for one analysis. The name is for errors. If the
// source selects samples, its option Unselected must be set: to know when a wait ends or who holds
// a lock, an analysis has to see the others too.
func NewSamples(name string, src *stream.Source) *Samples {
	h := src.Header()
	return &Samples{Name: name, Source: src, Start: h.Start, tick: max(1, h.Interval), Until: src.Limit()}
}

// Tolerate says that the samples of a damaged profile count up to the damage, instead of none. tell
// is called once with the error.
func (s *Samples) Tolerate(tell func(error)) { s.damaged = tell }

// ErrNoCreators says that the caller forgot stream.Options.Creators.
var ErrNoCreators = errors.New("the source was opened without creators")

// Named puts the profile's name before an error, for analyses of several profiles.
func (s *Samples) Named(err error) error {
	if strings.HasPrefix(err.Error(), s.Name+": ") {
		return err
	}
	return fmt.Errorf("%s: %w", s.Name, err)
}

// Length returns how long the profile is, in µs.
func (s *Samples) Length() (uint64, error) {
	end := s.End
	if m := s.Source.Metadata().Session; m != nil && m.Duration > 0 {
		end = uint64(m.Duration.Microseconds())
	} else if end == 0 {
		for _, err := range s.All() {
			if err != nil {
				return 0, err
			}
		}
		end = s.End
	}
	return min(end, s.Until), nil
}

// GoVersion returns the Go version of the profiled program, "" if unknown.
func (s *Samples) GoVersion() string {
	if m := s.Source.Metadata().Session; m != nil {
		return m.GoVersion
	}
	return ""
}

// Interval returns the time between two ticks in µs, at least 1.
func (s *Samples) Interval() uint64 { return s.tick }

// Stacks returns the number of stacks so far.
func (s *Samples) Stacks() int { return len(s.Source.Stacks()) }

// Caller returns the stack below the innermost frame of a stack. Stack 0 has no frames.
func (s *Samples) Caller(stack uint32) uint32 { return s.Source.Stacks()[stack].Caller }

// Leaf returns the innermost frame of a stack, nil if it has none.
func (s *Samples) Leaf(stack uint32) *tachyon.Frame {
	if stack == 0 {
		return nil
	}
	return &s.Source.Frames()[s.Source.Stacks()[stack].Frame]
}

// ProgramFrame returns the innermost frame of a stack that is the program's own code. If there is
// none, it is the innermost one with the greatest profile.Code; nil if no frame is a function.
func (s *Samples) ProgramFrame(stack uint32) *tachyon.Frame { return s.ProgramFrameAbove(stack, 0) }

// ProgramFrameAbove is ProgramFrame for the frames above another stack, which must be one of the
// callers.
func (s *Samples) ProgramFrameAbove(stack, below uint32) *tachyon.Frame {
	best, found := profile.WaitFrame, (*tachyon.Frame)(nil)
	for at := stack; at != below && at != 0 && best < profile.ProgramCode; at = s.Caller(at) {
		if of := s.CodeOf(at); of > best {
			best, found = of, s.Leaf(at)
		}
	}
	return found
}

// CodeOf returns whose code the innermost frame of a stack is.
func (s *Samples) CodeOf(stack uint32) profile.Code {
	id := s.Source.Stacks()[stack].Frame
	code := At(&s.code, id, len(s.Source.Frames()))
	if *code == profile.UnknownCode {
		*code = profile.CodeOf(&s.Source.Frames()[id])
	}
	return *code
}

// Function returns the innermost frame of a stack that is a function, nil if there is none.
func (s *Samples) Function(stack uint32) *tachyon.Frame {
	for ; stack != 0; stack = s.Caller(stack) {
		if f := s.Leaf(stack); f.File != "" {
			return f
		}
	}
	return nil
}

// A Sample is a sample that stands for time. It is valid until the next one.
type Sample struct {
	*stream.Sample
	At   uint64 // µs since the start; 0 if it is before it. The time for which the sample stands ends here.
	File int    // number of the file that it is in
}

// Begin returns the time at which the time begins for which a sample stands.
func (s *Sample) Begin() uint64 { return s.At - min(s.At, uint64(s.Wall.Microseconds())) }

// All yields the samples. The samples of a goroutine are in order of time. Time without samples is
// left out.
func (s *Samples) All() iter.Seq2[*Sample, error] {
	return func(yield func(*Sample, error) bool) {
		var out Sample
		for x, err := range s.Source.Samples() {
			if err != nil && s.damaged != nil && stream.IsDamage(err) {
				if !s.Cut {
					s.Cut = true
					s.damaged(s.Named(err))
				}
				s.Until = min(s.Until, s.End) // nothing is known of later
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if x.NotSeen {
				continue
			}
			s.Set(&out, x)
			if !yield(&out, nil) {
				return
			}
		}
	}
}

// Set makes out of a sample of the source.
func (s *Samples) Set(out *Sample, x *stream.Sample) {
	out.Sample, out.At = x, uint64(max(0, int64(x.Time-s.Start)))
	out.File, _ = s.Source.File()
	s.End = max(s.End, out.At)
}
