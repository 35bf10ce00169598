package page

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
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

// TestUserText: names and labels cannot end the script element or begin an element.
func TestUserText(t *testing.T) {
	text := testenv.Must(os.ReadFile(pageOf(t, Options{}, server(t))))
	if bytes.Contains(text, []byte("<img")) || bytes.Count(text, []byte("</script>")) != bytes.Count(text, []byte("<script")) {
		t.Error("a name of the profile is markup in the page")
	}
	if !bytes.Contains(text, []byte(`\u003c/script\u003e\u003cimg`)) {
		t.Error("the page does not have the name of the profile")
	}
	if !bytes.Contains(text, []byte(`content="default-src &#39;none&#39;; script-src &#39;sha256-`)) {
		t.Error("the page has no policy")
	}
}

// TestTicksTooLate: ticks that were refused for the longest pause did not come too late.
func TestTicksTooLate(t *testing.T) {
	r := newRecording(t)
	r.counts = tachyon.Counts{TicksAsked: 100, TicksReached: 50, TicksForBudget: 20, TicksIdle: 10, TicksRefused: 15}
	r.add(1, 1000, running, frame("main.work", 10))
	d := testenv.Must(Build([]Input{r.input(time.Second)}, Options{}))
	if want := (Fact{"ticks too late", "5"}); !slices.Contains(d.Head.Sides[0].Facts, want) {
		t.Errorf("facts %v, want %v", d.Head.Sides[0].Facts, want)
	}
}

// TestMaxSize: the page becomes as small as asked for, says how, and has the same sums.
func TestMaxSize(t *testing.T) {
	in := busy(t)
	large := testenv.Must(Build([]Input{in}, Options{}))
	size := testenv.Must(large.size())
	small := testenv.Must(Build([]Input{in}, Options{MaxSize: size - 1000}))
	if n, err := small.size(); err != nil || n > size-1000 {
		t.Errorf("%d bytes, want at most %d (%v)", n, size-1000, err)
	}
	if len(large.Head.LeftOut) != 0 || len(small.Head.LeftOut) == 0 {
		t.Errorf("left out: %q and %q", large.Head.LeftOut, small.Head.LeftOut)
	}
	// Much smaller: the steps of time are longer too.
	bytes := int64(0)
	for _, p := range large.Pieces {
		bytes += int64(len(p.Bytes)) * 4 / 3
	}
	least := testenv.Must(Build([]Input{in}, Options{MaxSize: size - bytes/2}))
	if least.Head.Width <= large.Head.Width || len(least.Head.LeftOut) < 2 {
		t.Errorf("steps of %d and %d µs; left out: %q", large.Head.Width, least.Head.Width, least.Head.LeftOut)
	}
	if _, err := Build([]Input{in}, Options{MaxSize: 1000}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a page of 1,000 bytes: %v", err)
	}
	var out strings.Builder
	must(small.WriteHTML(&out))
	head, _, _ := strings.Cut(out.String()[strings.Index(out.String(), `id="head">`)+len(`id="head">`):], "</script>")
	var h Head
	if err := json.Unmarshal([]byte(head), &h); err != nil || h.Sides[0].Duration != 2*time.Second || h.Sides[0].Total != large.Head.Sides[0].Total {
		t.Errorf("head %s: %v", head, err)
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
