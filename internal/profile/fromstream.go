package profile

import (
	"iter"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
)

// Detail says what the records of a profile keep apart, besides stacks and states.
type Detail struct {
	Goroutines bool // each goroutine has its own; otherwise a record is of several goroutines
	Labels     bool // each set of labels has its own; the source must have stream.Options.Labels
	// Group, if not nil, returns the name of a group; records of different groups are kept apart,
	// those of goroutines are not. It must be the same for all samples of a goroutine with equal
	// stacks and labels.
	Group func(*stream.Sample) string
	// Key, if not nil, is called for each sample; records of different keys are kept apart.
	Key    func(*stream.Sample) uint32
	Series bool // records have series
}

// FromStream adds up all samples of a source, and the time without samples. Memory grows with the
// number of records; see Detail.
func FromStream(src *stream.Source, d Detail) (*Profile, error) {
	return FromSamples(src, src.Samples(), d)
}

// FromSamples adds up samples, which are those of a source with other weights, or some of them.
func FromSamples(src *stream.Source, samples iter.Seq2[*stream.Sample, error], d Detail) (*Profile, error) {
	a := newAdder(src, d)
	for s, err := range samples {
		if err != nil {
			return nil, err
		}
		a.add(s)
	}
	p := a.profile()
	p.describe(src)
	return p, nil
}

// Each adds up all samples of a source like FromStream, with goroutines or labels. It calls yield
// with each record instead of keeping all. At most so many are in memory at once: when there are
// more, they are passed to yield and further samples make new records, which may be like earlier
// ones. yield also gets the profile, of which only Frames is known, and that there are goroutines.
// Each returns the profile without records.
func Each(src *stream.Source, d Detail, most int, yield func(*Profile, *Record) error) (*Profile, error) {
	a := newAdder(src, d)
	a.passing = true
	p := &Profile{}
	all := func() error {
		p.Frames, p.Goroutines = src.Frames(), 1
		a.settle()
		for i := range a.sums {
			r := a.record(&a.sums[i])
			p.Samples += r.Count
			if err := yield(p, &r); err != nil {
				return err
			}
		}
		a.forget()
		return nil
	}
	for s, err := range src.Samples() {
		if err != nil {
			return nil, err
		}
		if a.add(s); len(a.sums) <= most {
			continue
		}
		if err := all(); err != nil {
			return nil, err
		}
	}
	if err := all(); err != nil {
		return nil, err
	}
	p.describe(src)
	return p, nil
}

// describe sets what a profile says about the whole from a source whose samples were read.
func (p *Profile) describe(src *stream.Source) {
	h, m := src.Header(), src.Metadata()
	p.Interval, p.Goroutines = reader.Micros(h.Interval), src.Goroutines()
	p.Start, p.Duration = time.UnixMicro(int64(h.Start)), reader.Micros(src.End())
	if s := m.Session; s != nil {
		p.Metadata, p.Program, p.Unitless = m, s.Program, s.Instant
		if !s.Start.IsZero() {
			p.Start = s.Start
		}
		if s.Duration > 0 || s.Instant {
			p.Duration = s.Duration
		}
	}
}
