package page

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestCourse adds random times, with longer and longer steps, and compares the sum in each step with a plain array.
func TestCourse(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		width, c := uint64(4), course{}
		var want []int64 // by µs
		for range 100 {
			from := rng.Uint64N(5000)
			to := from + rng.Uint64N(1<<rng.Uint64N(11))
			c.add(width, from, to)
			for len(want) < int(to) {
				want = append(want, 0)
			}
			for i := from; i < to; i++ {
				want[i]++
			}
			if rng.IntN(30) == 0 {
				c.double(width)
				width *= 2
			}
		}
		c.arrange()
		got, count, at := make([]int64, len(want)/int(width)+2), int64(0), 0
		for step := range got {
			if at < len(c.events) && c.events[at].step == uint32(step) {
				got[step] += c.events[at].part
				count += int64(c.events[at].diff)
				at++
			}
			got[step] += count * int64(width)
		}
		if count != 0 || at != len(c.events) {
			t.Fatalf("%d remain, %d events of %d used", count, at, len(c.events))
		}
		for step := range got {
			sum := int64(0)
			for i := step * int(width); i < min(len(want), (step+1)*int(width)); i++ {
				sum += want[i]
			}
			if got[step] != sum {
				t.Fatalf("step %d of %d µs: %d, want %d", step, width, got[step], sum)
			}
		}
	}
}

// TestMoments adds random times while steps become longer, and compares the gaps with those of the sorted times.
func TestMoments(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		width, m, end := uint64(4), moments{}, 500+rng.Uint64N(3000)
		var times []uint64
		for range 1 + rng.IntN(60) {
			at := rng.Uint64N(end)
			if rng.IntN(2) == 0 && len(times) > 0 {
				at = min(end-1, times[rng.IntN(len(times))]+rng.Uint64N(5))
			}
			times = append(times, at)
			m.add(width, at)
			if rng.IntN(20) == 0 {
				m.double(width)
				width *= 2
			}
		}
		long := 2*width + rng.Uint64N(100)
		slices.Sort(times)
		var want []gap
		last := uint64(0)
		for _, at := range append(times, end) {
			if at-last >= long {
				want = append(want, gap{last, at, 1, at - last})
			}
			last = at
		}
		if got := m.find(width, 0, end, long); !slices.Equal(got, want) {
			t.Fatalf("steps of %d, from %d on: gaps %v, want %v; times %v", width, long, got, want, times)
		}
	}
	list := []gap{{0, 10, 1, 10}, {12, 32, 1, 20}, {40, 50, 1, 10}}
	if got, want := joinGaps(list, 2), []gap{{0, 32, 2, 20}, {40, 50, 1, 10}}; !slices.Equal(got, want) {
		t.Errorf("joined: %v, want %v", got, want)
	}
}
