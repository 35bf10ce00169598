package dcpi

import (
	"cmp"
	"fmt"
	"time"

	"github.com/gotach/profiler/internal/profile"
)

// Sums adds the samples of profiles up, by the procedure of each address. Counts of
// wall_ns are wall time. Counts of cpu_ns are CPU time; they are wall time too unless
// there is a wall_ns profile of the same image. Counts of cycles are both, by the
// machine's clock rate. A sample of any other event stands for as many nanoseconds as
// its period has events.
//
// If an executable is gone or another one by now, its addresses are not replaced by
// procedures. problems has an error for each such executable.
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

// identity is equal in the profiles of different events of one image on one machine.
func (h *Header) identity() string {
	image, _ := h.Value("image")
	platform, _ := h.Value("platform")
	epoch, _ := h.Value("epoch")
	return image + "\n" + platform + "\n" + epoch
}

type summer struct {
	sum    *profile.Builder
	images map[string]*Image // by path and identity; nil: there is a problem, which was returned already
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

// times returns n × d, or the longest Duration if the product does not fit.
func times(n uint32, d time.Duration) time.Duration {
	if p := time.Duration(n) * d; n == 0 || p/time.Duration(n) == d {
		return p
	}
	return 1<<63 - 1
}

// sampleTime returns the time that a sample stands for.
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
