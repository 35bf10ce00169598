package stream

import (
	"errors"
	"iter"
	"slices"
)

// Stops are how often goroutines stopped running in a time.
type Stops struct {
	From, Until uint64           // µs, on the clock of Sample.Time
	List        []GoroutineStops // ascending ids in the file; goroutines that are not in it did not stop. Empty: nothing is known of the time
}

// GoroutineStops says how often a goroutine stopped running: it began to wait, was preempted, or
// came out of a system call without a processor to run on. It is counted from visit to visit, so
// what was before its first sample or after its last one is missing.
type GoroutineStops struct {
	Goroutine uint64 // as in Sample
	N         uint64
	AtLeast   bool // it may have stopped more often, see tachyon.GoroutineStops
}

// CountsStops reports whether all files have them.
func (s *Source) CountsStops() bool {
	return !slices.ContainsFunc(s.parts, func(p *Part) bool { return p.Metadata.Session == nil || !p.Metadata.Session.Stops })
}

// Whole reports whether no selection leaves anything out.
func (s *Source) Whole() bool { return s.chooser == nil }

// Stops yields how often goroutines stopped running, file by file and in order of time, about a
// second at a time. The options do not select. It may run at the same time as Samples. A *Stops is
// valid until the next one. An error comes with nil, and ends the iteration.
func (s *Source) Stops() iter.Seq2[*Stops, error] {
	return func(yield func(*Stops, error) bool) {
		for _, p := range s.parts {
			err := s.stopsOf(p, yield)
			s.compact(p.File)
			if err == errStop {
				return
			}
			if err != nil {
				if err = s.Damage(named(p.File, err)); err != nil {
					yield(nil, err)
					return
				}
			}
		}
	}
}

// stopsOf yields those of a file. It returns errStop when yield wants no more.
func (s *Source) stopsOf(p *Part, yield func(*Stops, error) bool) error {
	begin := p.Header.Start + p.Shift
	out := Stops{From: begin, Until: begin}
	for x, err := range p.Stream.Stops() {
		if err != nil {
			return err
		}
		switch until := begin + x.Until; {
		case until < out.Until:
			return errors.New("the times of stops do not ascend")
		case until > out.Until:
			out.From, out.Until = out.Until, until
		}
		out.List = out.List[:0]
		for _, g := range x.List {
			id := g.ID
			if len(s.parts) > 1 {
				id = s.names.ID(p.Process, id)
			}
			out.List = append(out.List, GoroutineStops{id, g.N, g.AtLeast})
		}
		if !yield(&out, nil) {
			return errStop
		}
	}
	return nil
}
