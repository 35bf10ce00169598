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
	name  string
	src   *stream.Source
	start uint64 // of the profile, µs
	tick  uint64 // time between two ticks, µs, at least 1

	end uint64 // time of the latest sample, µs since the start
	to  uint64 // end of the selected time, µs since the start

	damaged func(error) // see Tolerate
	cut     bool        // it was called

	code []profile.Code // by frame
}

// NewSamples returns the samples of a source, for one analysis. The name is for errors. If the source selects
// samples, its option Unselected must be set: to know when a wait ends or who holds a lock, an analysis has to
// see the others too.
func NewSamples(name string, src *stream.Source) *Samples {
	h := src.Header()
	return &Samples{name: name, src: src, start: h.Start, tick: max(1, h.Interval), to: src.Limit()}
}

// Tolerate says that the samples of a damaged profile count up to the damage, instead of none. tell is called once with
// the error.
func (s *Samples) Tolerate(tell func(error)) { s.damaged = tell }

// errNoCreators says that the caller forgot stream.Options.Creators.
var errNoCreators = errors.New("the source was opened without creators")

// named puts the profile's name before an error, for analyses of several profiles.
func (s *Samples) named(err error) error {
	if strings.HasPrefix(err.Error(), s.name+": ") {
		return err
	}
	return fmt.Errorf("%s: %w", s.name, err)
}

// length returns how long the profile is, in µs.
func (s *Samples) length() (uint64, error) {
	end := s.end
	if m := s.src.Metadata().Session; m != nil && m.Duration > 0 {
		end = uint64(m.Duration.Microseconds())
	} else if end == 0 {
		for _, err := range s.all() {
			if err != nil {
				return 0, err
			}
		}
		end = s.end
	}
	return min(end, s.to), nil
}

// goVersion returns the Go version of the profiled program, "" if unknown.
func (s *Samples) goVersion() string {
	if m := s.src.Metadata().Session; m != nil {
		return m.GoVersion
	}
	return ""
}

// interval returns the time between two ticks in µs, at least 1.
func (s *Samples) interval() uint64 { return s.tick }

// stacks returns the number of stacks so far.
func (s *Samples) stacks() int { return len(s.src.Stacks()) }

// caller returns the stack below the innermost frame of a stack. Stack 0 has no frames.
func (s *Samples) caller(stack uint32) uint32 { return s.src.Stacks()[stack].Caller }

// leaf returns the innermost frame of a stack, nil if it has none.
func (s *Samples) leaf(stack uint32) *tachyon.Frame {
	if stack == 0 {
		return nil
	}
	return &s.src.Frames()[s.src.Stacks()[stack].Frame]
}

// own returns the innermost frame of a stack that is the program's own code. If there is none, it is the
// innermost one with the greatest profile.Code; nil if no frame is a function.
func (s *Samples) own(stack uint32) *tachyon.Frame { return s.ownAbove(stack, 0) }

// ownAbove is own for the frames above another stack, which must be one of the callers.
func (s *Samples) ownAbove(stack, below uint32) *tachyon.Frame {
	best, found := profile.WaitFrame, (*tachyon.Frame)(nil)
	for at := stack; at != below && at != 0 && best < profile.ProgramCode; at = s.caller(at) {
		if of := s.codeOf(at); of > best {
			best, found = of, s.leaf(at)
		}
	}
	return found
}

// codeOf returns whose code the innermost frame of a stack is.
func (s *Samples) codeOf(stack uint32) profile.Code {
	id := s.src.Stacks()[stack].Frame
	if n := len(s.src.Frames()); len(s.code) < n {
		s.code = append(s.code, make([]profile.Code, n-len(s.code))...)
	}
	if s.code[id] == profile.UnknownCode {
		s.code[id] = profile.CodeOf(&s.src.Frames()[id])
	}
	return s.code[id]
}

// function returns the innermost frame of a stack that is a function, nil if there is none.
func (s *Samples) function(stack uint32) *tachyon.Frame {
	for ; stack != 0; stack = s.caller(stack) {
		if f := s.leaf(stack); f.File != "" {
			return f
		}
	}
	return nil
}

// A sample is a sample that stands for time. It is valid until the next one.
type sample struct {
	*stream.Sample
	time uint64 // µs since the start; 0 if it is before it. The time for which the sample stands ends here.
	file int    // number of the file that it is in
}

// begin returns the time at which the time begins for which a sample stands.
func (s *sample) begin() uint64 { return s.time - min(s.time, uint64(s.Wall.Microseconds())) }

// all yields the samples. The samples of a goroutine are in order of time. Time without samples is left
// out.
func (s *Samples) all() iter.Seq2[*sample, error] {
	return func(yield func(*sample, error) bool) {
		var out sample
		for x, err := range s.src.Samples() {
			if err != nil && s.damaged != nil && stream.IsDamage(err) {
				if !s.cut {
					s.cut = true
					s.damaged(s.named(err))
				}
				s.to = min(s.to, s.end) // nothing is known of later
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if x.NotSeen {
				continue
			}
			s.set(&out, x)
			if !yield(&out, nil) {
				return
			}
		}
	}
}

// set makes out of a sample of the source.
func (s *Samples) set(out *sample, x *stream.Sample) {
	out.Sample, out.time = x, uint64(max(0, int64(x.Time-s.start)))
	out.file, _ = s.src.File()
	s.end = max(s.end, out.time)
}
