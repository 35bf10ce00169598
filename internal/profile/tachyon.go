package profile

import (
	"time"

	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/reader"
)

// Detail says what the records of a profile keep apart, besides stacks and states.
type Detail struct {
	Goroutines bool // each goroutine has its own; otherwise a record is of several goroutines
	Labels     bool // each set of labels has its own; the source must have stream.Options.Labels
}

// FromTachyon adds up all samples of a file or another stream, and the time without
// samples, for each goroutine and its labels. A file may be closed afterwards.
func FromTachyon(s reader.Stream) (*Profile, error) {
	src, err := stream.New([]stream.File{{Stream: s}}, stream.Options{Labels: true})
	if err != nil {
		return nil, err
	}
	return FromStream(src, Detail{Goroutines: true, Labels: true})
}

// FromStream adds up all samples of a source, and the time without samples. Memory grows with the
// number of records; see Detail.
func FromStream(src *stream.Source, d Detail) (*Profile, error) {
	a := newAdder(src, d)
	for s, err := range src.Samples() {
		if err != nil {
			return nil, err
		}
		a.add(s)
	}
	p := a.profile()
	Describe(p, src)
	return p, nil
}

// Describe sets what a profile says about the whole from a source whose samples were read.
func Describe(p *Profile, src *stream.Source) {
	h, m := src.Header(), src.Metadata()
	p.Interval, p.Goroutines = reader.Micros(h.Interval), src.Goroutines()
	p.Start, p.Duration = time.UnixMicro(int64(h.Start)), reader.Micros(src.End())
	if s := m.Session; s != nil {
		p.Metadata, p.Program = m, s.Program
		if !s.Start.IsZero() {
			p.Start = s.Start
		}
		if s.Duration > 0 {
			p.Duration = s.Duration
		}
	}
}
