package requests

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// asTicksSee returns requests of known lengths in µs as ticks see them. The time between two ticks varies.
func asTicksSee(rng *rand.Rand, tick float64, lengths []uint64) (list []*request) {
	for _, length := range lengths {
		var ticks []uint64
		for at, end := 0.0, float64(length)+8*tick; at < end; at += tick * (0.6 + 0.8*rng.Float64()) {
			ticks = append(ticks, uint64(at))
		}
		// A beginning before the fourth tick.
		begin := uint64(tick) + rng.Uint64N(uint64(2*tick))
		x := &request{}
		for _, at := range ticks {
			switch {
			case at <= begin:
				x.before = at
			case at <= begin+length:
				if x.first == 0 {
					x.first = at
				}
				x.last = at
			case x.after == 0:
				x.after = at
			}
		}
		if x.first != 0 {
			list = append(list, x)
		}
	}
	return list
}

// Percentiles are much more exact than the time between two ticks, which is 10 ms.
func TestLengths(t *testing.T) {
	var rng *rand.Rand
	for name, one := range map[string]func() uint64{
		"all 23 ms":   func() uint64 { return 23_000 },
		"10 to 40 ms": func() uint64 { return 10_000 + rng.Uint64N(30_000) },
		"12 ms, and 5 % 62 ms": func() uint64 {
			if rng.IntN(20) == 0 {
				return 62_000
			}
			return 12_000
		},
		"3 s": func() uint64 { return 3_000_000 + rng.Uint64N(100_000) },
		// Of the usual ones 40 % have no sample, of the others all have one.
		"6 ms, and 2 % 56 ms": func() uint64 {
			if rng.IntN(50) == 0 {
				return 56_000
			}
			return 5_800 + rng.Uint64N(400)
		},
	} {
		rng = rand.New(rand.NewPCG(3, 4))
		var lengths []uint64
		for range 3000 {
			lengths = append(lengths, one())
		}
		list := asTicksSee(rng, 10_000, lengths)
		l := estimate(list)
		slices.Sort(lengths)
		for _, q := range []float64{0.25, 0.5, 0.9, 0.97, 0.99} {
			got, want := l.quantile(q, l.all), quantile(lengths, q)
			testenv.Within(t, fmt.Sprint(name, ": quantile ", q), got, want-max(2500, want/20), want+max(2500, want/20))
		}
		testenv.Within(t, name+": requests", l.all, 2850, 3180)
		testenv.Within(t, name+": µs between two samples", l.short, 8000, 14_000)
	}
}

// A goroutine makes a call again and again. It waits for 50 ms in each call, for another channel, and there is no sample between.
// Another one makes it once, and waits all the time.
func TestCallsAtOnce(t *testing.T) {
	work := Options{Func: regexp.MustCompile(`^main\.work$`)}
	for name, c := range map[string]struct {
		o      Options
		caller string
		serial bool
	}{
		"worker": {work, "main.worker", true},
		"HTTP/1": {Options{}, "net/http.(*conn).serve", true}, // of Go 1.20, whose goroutines have no parents
		"HTTP/2": {Options{}, "net/http.(*http2serverConn).runHandler", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := analyzetest.Record(t)
			call := analyzetest.Place("main.work", 12)
			if c.o.Func == nil {
				call = analyzetest.Place("net/http.serverHandler.ServeHTTP", 12)
			}
			wait := func(object int32) []tachyon.Frame {
				return []tachyon.Frame{{Func: "[select]", Line: object}, analyzetest.Place("main.wait", 1), call, analyzetest.Place(c.caller, 7)}
			}
			object := int32(1)
			for at := uint64(1000); at < 20*analyzetest.OneSecond; at += 1000 {
				status := tachyon.Status(0)
				if at%50_000 == 0 {
					status = tachyon.Moved
					object++
				}
				r.Add(10, at, status, wait(object)...)
			}
			r.Add(10, 20*analyzetest.OneSecond, analyzetest.Running, analyzetest.Place(c.caller, 8))
			r.Every(1000, 1000, 5*analyzetest.OneSecond-1, 11, 0, wait(0)...)
			r.Add(11, 5*analyzetest.OneSecond, analyzetest.Running, analyzetest.Place(c.caller, 8))
			out := testenv.Must(Find(r.Labelled(), c.o))
			longest := out.P99
			if c.serial {
				longest = out.P99Below
			}
			if out.Count != 2 || longest < 19*analyze.Micros(analyzetest.OneSecond) {
				t.Errorf("%d calls, the longest takes %v", out.Count, longest)
			}
			l := out.Lower
			if l != nil != c.serial || l != nil && ((l.P50-analyze.Micros(50_000)).Abs() > analyze.Micros(1000) || (l.Max-5*analyze.Micros(analyzetest.OneSecond)).Abs() > analyze.Micros(2000)) {
				t.Errorf("without calls that may be several: %+v", l)
			}
		})
	}
}
