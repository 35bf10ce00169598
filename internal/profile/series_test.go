package profile

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gotach/profiler/internal/stream"
)

// The time of each sample is in the parts in which it was, whatever the order of the samples, and whether it
// is known how long the profile is.
func TestSeries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.Uint64Range(1000, 10_000_000).Draw(t, "length") // µs
		var s series
		if rapid.Bool().Draw(t, "known") {
			s.init(length)
		} else {
			s.init(0)
		}
		sums := make([]sum, 3)
		s.sums = func() []sum { return sums }
		var list []stream.Sample
		var of []uint32
		now := uint64(1)
		for range rapid.IntRange(1, 200).Draw(t, "samples") {
			now = min(length, now+rapid.Uint64Range(0, length/50).Draw(t, "step"))
			at := now - min(now-1, rapid.SampledFrom([]uint64{0, 0, 0, length / 100, length / 3}).Draw(t, "earlier"))
			wall := rapid.SampledFrom([]uint64{0, 1, 1000, length / 200, length / 20, length}).Draw(t, "wall")
			x := stream.Sample{Time: at, Wall: time.Duration(min(wall, at)) * time.Microsecond}
			n := uint32(rapid.IntRange(0, len(sums)-1).Draw(t, "sum"))
			sums[n].wall += x.Wall
			s.add(n, &x)
			list, of = append(list, x), append(of, n)
		}
		sums = append(sums, sum{wall: time.Hour})
		s.leaveOut(3, time.Hour)
		s.settle()
		if s.of(3) != nil {
			t.Fatal("time that is left out is in a series")
		}
		for n := range uint32(3) {
			want := make([]float64, seriesBins)
			for i, x := range list {
				if of[i] != n {
					continue
				}
				for b := x.Time - uint64(x.Wall.Microseconds()); b < x.Time; {
					part := min(b/s.width, seriesBins-1)
					to := x.Time
					if part < seriesBins-1 {
						to = min(to, (part+1)*s.width)
					}
					want[part] += 1000 * float64(to-b)
					b = to
				}
			}
			got := s.of(int(n))
			for i := range want {
				g := float64(0)
				if got != nil {
					g = float64(got[i])
				}
				if math.Abs(g-want[i]) > 1e-4*float64(sums[n].wall)+1 {
					t.Fatalf("sum %d, part %d of %d µs: %v ns, want %v", n, i, s.width, g, want[i])
				}
			}
		}
	})
}
