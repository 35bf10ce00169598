package page

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
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
		testenv.FailIf(t, count != 0 || at != len(c.events), "%d remain, %d events of %d used", count, at, len(c.events))
		for step := range got {
			sum := int64(0)
			for i := step * int(width); i < min(len(want), (step+1)*int(width)); i++ {
				sum += want[i]
			}
			testenv.FailIf(t, got[step] != sum, "step %d of %d µs: %d, want %d", step, width, got[step], sum)
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
		got := m.find(width, 0, end, long)
		testenv.FailIf(t, !slices.Equal(got, want), "steps of %d, from %d on: gaps %v, want %v; times %v", width, long, got, want, times)
	}
	list := []gap{{0, 10, 1, 10}, {12, 32, 1, 20}, {40, 50, 1, 10}}
	testenv.NoDiff(t, "joined", cmp.Diff([]gap{{0, 32, 2, 20}, {40, 50, 1, 10}}, joinGaps(list, 2)))
}

const MostPages = mostPages

var FindingNames = findingNames

// Findings returns a kind of findings of an input as a page has them.
func Findings(what string, in Input) ([]byte, error) {
	var t sideTables
	if err := t.find(what, in, nil); err != nil {
		return nil, err
	}
	return json.Marshal(t)
}

func (d *Data) Size() (int64, error) { return d.size() }

// TestServerRest: with Rest, readings take a fifth of the time, however many parts are asked for, and those that nobody waits
// for are not read.
func TestServerRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var total atomic.Int64 // of the readings, in ns
		reading := func() time.Duration { return time.Duration(total.Load()) }
		s := NewServer(t.Context(), ServerOptions{Rest: true, Version: func() string { return "" }, Open: func(context.Context, Request) (*Opened, error) {
			const takes = 100 * time.Millisecond
			time.Sleep(takes)
			total.Add(int64(takes))
			return nil, errors.New("nothing to read")
		}})
		defer s.Close()
		begin := time.Now()
		for i := range int64(245) {
			s.status(viewKey{Span: Span{1 + i, 1000}}, 0)
			time.Sleep(40 * time.Millisecond)
		}
		most := time.Since(begin)/(1+restFactor) + 100*time.Millisecond
		testenv.FailIf(t, reading() < most/2 || reading() > most, "in %v there were readings of %v, want %v at most", time.Since(begin), reading(), most)
		before := reading()
		time.Sleep(time.Minute)
		testenv.Within(t, "readings when nobody asks any more", reading()-before, 0, mostPages*100*time.Millisecond)
	})
}

// TestServerUnwanted: a part that had to wait for its turn is not read if no page has asked for it since.
func TestServerUnwanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		s := NewServer(t.Context(), ServerOptions{Version: func() string { return "" }, Open: func(_ context.Context, r Request) (*Opened, error) {
			if r.Span.From == 2 {
				reads.Add(1)
			}
			time.Sleep(2 * unwanted)
			return nil, errors.New("nothing to read")
		}})
		defer s.Close()
		for i := range int64(2) {
			s.status(viewKey{Span: Span{1 + i, 1000}}, 0)
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		testenv.FailIf(t, reads.Load() > 0, "the second part was read")
	})
}
