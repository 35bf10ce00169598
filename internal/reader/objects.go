package reader

import (
	"iter"

	"github.com/gotach/profiler/tachyon"
)

// WithoutObjects returns a stream in which frames of waits have line 0. In a file the line is
// the number of the object waited for, which other formats and sums by line must not show as
// a line of source. It returns s itself if no frame has such a number.
func WithoutObjects(s Stream) Stream {
	list := s.Frames()
	var p *plain
	for id := range list {
		if !IsObject(&list[id]) {
			continue
		}
		if p == nil {
			p = &plain{Stream: s, frames: append([]tachyon.Frame(nil), list...), ids: map[uint32]uint32{}}
		}
		p.frames[id].Line = 0
	}
	if p == nil {
		return s
	}
	first := map[string]uint32{} // by function
	for id, f := range p.frames {
		if f.File != "" || f.Line != 0 || f.Span != (tachyon.Span{}) {
			continue
		}
		if same, ok := first[f.Func]; ok {
			p.ids[uint32(id)] = same
		} else {
			first[f.Func] = uint32(id)
		}
	}
	return p
}

// WithObjects returns a stream in which objects have other numbers. rename returns the new number of
// an object; different objects must have different ones. It returns s itself if no frame has a number.
func WithObjects(s Stream, rename func(number int32) int32) Stream {
	list := s.Frames()
	var frames []tachyon.Frame
	for id := range list {
		if !IsObject(&list[id]) {
			continue
		}
		if frames == nil {
			frames = append(frames, list...)
		}
		frames[id].Line = rename(list[id].Line)
	}
	if frames == nil {
		return s
	}
	return &plain{Stream: s, frames: frames}
}

// IsObject reports whether a frame's line is the number of an object; see [tachyon.Object].
func IsObject(f *tachyon.Frame) bool {
	n := len(f.Func)
	return f.File == "" && f.Line > 0 && n > 2 && f.Func[0] == '[' && f.Func[n-1] == ']'
}

// plain is a stream without numbers of objects, or with other ones.
type plain struct {
	Stream
	frames []tachyon.Frame
	ids    map[uint32]uint32 // of frames that are equal to an earlier one now: that one
}

// Unwrap returns the stream with the file's numbers.
func (p *plain) Unwrap() Stream { return p.Stream }

// Frames returns the frames with the changed lines. The ids are those of the file.
func (p *plain) Frames() []tachyon.Frame { return p.frames }

// Samples yields the samples. Equal stacks have equal frame ids.
func (p *plain) Samples() iter.Seq2[*tachyon.Sample, error] {
	return func(yield func(*tachyon.Sample, error) bool) {
		var out tachyon.Sample
		var stack []uint32
		for s, err := range p.Stream.Samples() {
			if err == nil && len(s.Stack) > 0 { // only the innermost frame can be a wait
				if id, ok := p.ids[s.Stack[0]]; ok {
					stack = append(stack[:0], s.Stack...)
					stack[0] = id
					out = *s
					out.Stack = stack
					s = &out
				}
			}
			if !yield(s, err) {
				return
			}
		}
	}
}
