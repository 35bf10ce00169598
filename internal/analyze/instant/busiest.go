package instant

import (
	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/idle"
	"github.com/gotach/profiler/tachyon"
)

// FindBusiest is Find of the instant at which the most goroutines wait for something that is not
// idle, whatever o.At is. It reads the samples twice more. It is apart from Find because programs
// that link httpprof do not need the rules of what is idle.
func FindBusiest(s *analyze.Samples, o Options) (*Instant, error) {
	at, err := busiest(s)
	if err != nil {
		return nil, err
	}
	out, err := find(s, at, o.States)
	if err == nil {
		out.Busiest = true
	}
	return out, err
}

// instantBins is the number of parts of a profile of which busiest chooses one.
const instantBins = 1 << 12

// busiest returns the instant, in µs since the start, in the middle of that part of the profile in
// which the most goroutines wait that are not idle. It is the end of the profile if none do.
func busiest(s *analyze.Samples) (uint64, error) {
	idles, err := idle.Read(s.Source, nil)
	if err != nil {
		return 0, s.Named(err)
	}
	again := idles.Again()
	length, err := s.Length()
	if err != nil {
		return 0, err
	}
	step := max(1, length/instantBins+1)
	var part, whole [instantBins + 2]int64 // µs in parts of bins; change of the number that wait in whole bins
	for x, err := range s.All() {
		if err != nil {
			return 0, err
		}
		key := again.Add(x.Sample)
		if !analyze.Waits(x.Status) || idles.Is(key) || x.Unselected || x.Interpreter != tachyon.User || gap(s, x.Stack) {
			continue
		}
		from, to := min(x.Begin()/step, instantBins), min(x.At/step, instantBins)
		if from == to {
			part[from] += int64(x.At - x.Begin())
			continue
		}
		part[from] += int64((from+1)*step - x.Begin())
		part[to] += int64(x.At - to*step)
		whole[from+1]++
		whole[to]--
	}
	most, first, last, waiting := int64(0), 0, -1, int64(0) // the first bins in a row that have the most
	for i := range part {
		waiting += whole[i]
		switch sum := part[i] + waiting*int64(step); {
		case sum > most:
			most, first, last = sum, i, i
		case sum == most && last == i-1:
			last = i
		}
	}
	if most == 0 {
		return length, nil
	}
	return min(length, uint64(first+last+1)*step/2), nil
}
