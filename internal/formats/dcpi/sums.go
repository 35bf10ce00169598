package dcpi

import (
	"cmp"
	"fmt"
	"time"

	"github.com/gotach/profiler/internal/profile"
)

// Sums returns the samples of some profiles as one added up, with the procedure
// that each address lies in. Counts of wall_ns are wall time, counts of cpu_ns
// CPU time and, unless there is a wall_ns profile of the same image beside them,
// wall time as well; counts of cycles are both, by the machine's clock rate. Of
// any other event a sample counts as its period in nanoseconds.
//
// Where an executable is gone or another by now, its addresses stay as they are;
// problems says so for each.
func Sums(ps ...*Profile) (sum *profile.Profile, problems []error) {
	s := summer{
		sum:    profile.NewBuilder(),
		images: map[string]*Image{},
		walled: map[string]bool{},
	}
	for _, p := range ps {
		if event, _ := p.Value("event"); event == eventWall {
			s.walled[p.identity()] = true
		}
	}
	for _, p := range ps {
		if err := s.add(p); err != nil {
			problems = append(problems, err)
		}
	}
	return s.sum.Finish(), problems
}

// identity is what profiles of different events of one image on one machine agree in.
func (h *Header) identity() string {
	image, _ := h.Value("image")
	platform, _ := h.Value("platform")
	epoch, _ := h.Value("epoch")
	return image + "\n" + platform + "\n" + epoch
}

type summer struct {
	sum    *profile.Builder
	images map[string]*Image // by path and identity; nil: there is a problem, told already
	walled map[string]bool   // identities that have wall_ns
}

func (s *summer) add(p *Profile) (problem error) {
	path, _ := p.Value("path")
	key := path + "\n" + p.identity()
	image, known := s.images[key]
	if !known {
		image, problem = p.Image()
		s.images[key] = image
	}
	event, _ := p.Value("event")
	sample := p.sampleTime()
	wall, cpu := sample, sample
	counted := true // as samples
	switch {
	case event == eventWall:
		cpu = 0
	case event == eventCPU && s.walled[p.identity()]:
		wall, counted = 0, false // they are among the samples of wall_ns
	}
	sum := s.sum.Profile
	sum.Program = cmp.Or(sum.Program, path)
	sum.Interval = cmp.Or(sum.Interval, sample)
	if t, err := p.Epoch(); err == nil && (sum.Start.IsZero() || t.Before(sum.Start)) {
		sum.Start = t
	}
	for c := range p.Counts() {
		r := profile.Record{
			Stack: []uint32{s.frame(p, image, c.Addr)},
			Wall:  times(c.Count, wall), CPU: times(c.Count, cpu),
		}
		if counted {
			r.Count = int64(c.Count)
		}
		s.sum.Add(r)
	}
	return problem
}

// times is n × d, as long as a Duration can be.
func times(n uint32, d time.Duration) time.Duration {
	if p := time.Duration(n) * d; n == 0 || p/time.Duration(n) == d {
		return p
	}
	return 1<<63 - 1
}

// sampleTime is what a sample stands for.
func (h *Header) sampleTime() time.Duration {
	period := time.Duration(min(h.Period(), 1<<62))
	event, _ := h.Value("event")
	if mhz := time.Duration(min(h.CPUSpeed(), 1<<62)); event == "cycles" && mhz > 0 {
		if period > (1<<62)/1000 {
			return period / mhz * 1000
		}
		return period * 1000 / mhz
	}
	return period
}

// frame returns the number of the frame for an address.
func (s *summer) frame(p *Profile, image *Image, addr uint64) uint32 {
	if image != nil {
		if f, ok := image.Frame(addr); ok {
			return s.sum.Frame(f, 0)
		}
	}
	return s.sum.Frame(profile.Frame{Func: fmt.Sprintf("%s+%#x", p.ImageName(), addr)}, 0)
}
