package analyze

import (
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"

	"github.com/gotach/profiler/internal/stream"
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
			got, want := l.quantile(q), quantile(lengths, q)
			t.Logf("%s: quantile %v is %d µs, want %d", name, q, got, want)
			if off := max(got, want) - min(got, want); off > 2500 && off > want/20 {
				t.Errorf("%s: quantile %v is %d µs, want %d", name, q, got, want)
			}
		}
		if l.all < 2850 || l.all > 3180 {
			t.Errorf("%s: about %.0f requests, want 3000; %d have samples", name, l.all, len(list))
		}
		if l.short < 8000 || l.short > 14_000 {
			t.Errorf("%s: %d µs between two samples", name, l.short)
		}
	}
}

// handlersAtOnce records 20 s of two HTTP/1 connections with requests that follow at once, of 20 ms each. One of
// 20 takes 60 ms. gap returns the times between two ticks. Between ticks the goroutine waits at one place.
func handlersAtOnce(t *testing.T, gap func() uint64) (s *Samples, n int) {
	r := record(t)
	rng := rand.New(rand.NewPCG(5, 6))
	serve := []tachyon.Frame{{Func: "[sleep]"}, place("time.Sleep", 1), place("main.handle", 12),
		place("net/http.serverHandler.ServeHTTP", 9), place("net/http.conn.serve", 7)}
	const length = 20 * second
	ticks := []uint64{0}
	for last := uint64(0); last < length; {
		last += gap()
		ticks = append(ticks, last)
	}
	next := uint64(100)
	for conn := uint64(10); conn < 12; conn++ {
		at, number := rng.Uint64N(10_000), -1
		ends := at
		var child *tachyon.Goroutine
		done := func() {
			if child != nil && child.Last > 0 {
				r.goroutine(*child)
			}
		}
		for i, tick := range ticks[1:] {
			status := tachyon.Status(0)
			for ends < tick { // the next request begins
				if done(); number >= 0 {
					status = tachyon.Moved
				}
				number, n, next = number+1, n+1, next+1
				if ends += 20_000; number%20 == 19 {
					ends += 40_000
				}
				child = &tachyon.Goroutine{ID: next, Parent: conn, CreatedBy: backgroundRead}
			}
			r.add(conn, tick, status, serve...)
			// The first sample of a goroutine stands for an interval. An additional one makes it the time since
			// the tick before.
			if child.First == 0 {
				child.First = ticks[i] + 1000
				r.add(child.ID, child.First, 0, tachyon.Frame{Func: "[IO wait]"}, place("net/http.(*connReader).backgroundRead", 2))
			}
			child.Last = tick
			r.add(child.ID, tick, 0, tachyon.Frame{Func: "[IO wait]"}, place("net/http.(*connReader).backgroundRead", 2))
		}
		done()
		r.goroutine(tachyon.Goroutine{ID: conn, Last: ticks[len(ticks)-1], FirstWeight: ticks[1]})
	}
	session := tachyon.Session{Source: "native", Markers: true}
	session.TicksAsked, session.TicksReached = length/1000, int64(len(ticks)-1)
	return samplesOf(t, stream.Options{}, r.finish(session)), n
}

// Requests of a connection that follow at once are told apart. Calls of another function are not, and so
// percentiles are ranges.
func TestRequestsAtOnce(t *testing.T) {
	s, n := handlersAtOnce(t, func() uint64 { return 10_000 })
	r, err := FindRequests(s, RequestOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d requests: %+v", n, r)
	if r.Count < n-4 || r.Count > n || r.Lower != nil || (r.P50-micros(20_000)).Abs() > micros(2000) || (r.P99-micros(60_000)).Abs() > micros(3000) {
		t.Errorf("%d requests of %d, p50 %v, p99 %v, %+v", r.Count, n, r.P50, r.P99, r.Lower)
	}
	if r.Slow.Count == 0 || r.Slow.From < micros(50_000) {
		t.Errorf("the slow ones: %+v", r.Slow)
	}
	// Goroutines that tell requests apart tell calls of functions in them apart too.
	if r, err = FindRequests(s, RequestOptions{Func: regexp.MustCompile(`^main\.handle$`)}); err != nil || r.Count < n-4 || r.Lower != nil {
		t.Errorf("by function: %d requests of %d, %+v, %v", r.Count, n, r.Lower, err)
	}
}

// Where the time between two ticks varies, the end of a request lies between the last tick that found it and the next
// one, however long the time before its first one was.
func TestRequestsRareTicks(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	s, n := handlersAtOnce(t, func() uint64 { return 4000 + rng.Uint64N(14_000) })
	list, _ := readFinder(t, s)
	wrong := 0
	for _, r := range list {
		if length := r.after - r.before; length < 20_000 {
			wrong++
		}
	}
	l := estimate(list)
	t.Logf("%d requests, about %.0f; p10 %d µs, p90 %d µs; %d too short", n, l.all, l.quantile(0.1), l.quantile(0.9), wrong)
	if wrong > n/100 || l.quantile(0.1) < 17_000 || l.quantile(0.9) > 22_500 || math.Abs(l.all/float64(n)-1) > 0.02 {
		t.Errorf("%d requests, about %.0f; p10 %d µs, p90 %d µs; %d take less than they can", n, l.all, l.quantile(0.1), l.quantile(0.9), wrong)
	}
}

// A worker calls a function again and again. It waits for 50 ms in each call, and there is no sample between.
// Another one calls it once, and waits all the time.
func TestCallsAtOnce(t *testing.T) {
	r := record(t)
	stack := []tachyon.Frame{{Func: "[sleep]"}, place("time.Sleep", 1), place("main.work", 12), place("main.worker", 7)}
	for at := uint64(1000); at < 20*second; at += 1000 {
		status := tachyon.Status(0)
		if at%50_000 == 0 {
			status = tachyon.Moved
		}
		r.add(10, at, status, stack...)
	}
	r.add(10, 20*second, running, place("main.worker", 8))
	for at := uint64(1000); at < 5*second; at += 1000 {
		r.add(11, at, 0, stack...)
	}
	r.add(11, 5*second, running, place("main.worker", 8))
	out, err := FindRequests(r.close(), RequestOptions{Func: regexp.MustCompile(`^main\.work$`)})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v %+v", out, out.Lower)
	if out.Count != 2 || out.P99 < 19*micros(second) {
		t.Errorf("%d calls, the longest takes %v", out.Count, out.P99)
	}
	if l := out.Lower; l == nil || (l.P50-micros(50_000)).Abs() > micros(1000) || (l.Max-5*micros(second)).Abs() > micros(2000) {
		t.Errorf("without calls that may be several: %+v", l)
	}
}
