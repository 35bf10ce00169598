package analyze

import (
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// Requests count that have a sample that is selected. What they did is that of all their samples.
func TestSelectRequests(t *testing.T) {
	s, log, _ := serve(t)
	f := s.src
	_, file := f.File()
	find := func(sel stream.Selection, since, until string, o RequestOptions) *Requests {
		t.Helper()
		src := must(stream.New([]stream.File{file}, selection(t, sel, since, until)))(t)
		r := must(FindRequests(NewSamples("x", src), o))(t)
		return r
	}
	all := find(stream.Selection{}, "", "", RequestOptions{})
	slow := 0
	for _, length := range log {
		if length > 40_000 {
			slow++
		}
	}
	sleeping := find(stream.Selection{States: []string{"sleep"}}, "", "", RequestOptions{})
	if sleeping.Count < slow-1 || sleeping.Count > slow+1 {
		t.Errorf("%d requests sleep, want %d", sleeping.Count, slow)
	}
	if d := sleeping.Median; d.States["sleep"] < 38*time.Millisecond || d.States["running"] < time.Millisecond {
		t.Errorf("those that sleep do %v", d.States)
	}
	one := find(stream.Selection{Goroutines: []uint64{10}}, "", "", RequestOptions{})
	if 8*one.Count < all.Count/2 || 8*one.Count > 2*all.Count {
		t.Errorf("%d of %d requests are of one goroutine of 8", one.Count, all.Count)
	}
	// A label selects one request, and its values are requests.
	label := stream.Selection{Labels: []stream.Label{{Key: "request", Value: "150"}}}
	for what, o := range map[string]RequestOptions{"invocation": {}, "label": {Label: "request"}} {
		if r := find(label, "", "", o); r.Count != 1 || r.Slowest[0].Labels["request"] != "150" || (r.Slowest[0].Time-micros(log[150])).Abs() > 2*time.Millisecond {
			t.Errorf("%s: %d requests, %+v", what, r.Count, r.Slowest)
		}
	}
	half := find(stream.Selection{}, "5s", "15s", RequestOptions{})
	if d := half.Count - all.Count/2; d < -all.Count/20 || d > all.Count/20 {
		t.Errorf("%d requests in half of the time, %d in all of it", half.Count, all.Count)
	}
	for _, x := range half.Slowest {
		if x.Start > 10*second {
			t.Errorf("a request begins %d µs after the selected time begins", x.Start)
		}
	}
}

// The slowest requests can be selected: then all they did is yielded, and nothing else.
func TestPickSlowest(t *testing.T) {
	s, log, _ := serve(t)
	_, file := s.src.File()
	slow := slices.Clone(log)
	slices.Sort(slow)
	for name, o := range map[string]RequestOptions{
		"default": {}, "by function": {Func: regexp.MustCompile(`^main\.handle$`)}, "by label": {Label: "request"},
	} {
		r := must(FindSlowRequests(samplesIn(t, file, stream.Options{Labels: true, Unselected: true}), o))(t)
		src := must(stream.New([]stream.File{file}, stream.Options{Select: &stream.Selection{Pick: r.Pick}}))(t)
		for range 2 { // each reading begins anew
			time, own := map[uint64]uint64{}, uint64(0)
			for x := range each(t, src.Samples()) {
				time[x.Goroutine] += uint64(x.Wall.Microseconds())
				if x.Goroutine < 18 {
					own += uint64(x.Wall.Microseconds())
				}
				if x.Goroutine >= 1000 && x.Goroutine < 1300 {
					t.Fatalf("%s: a leaked goroutine is yielded", name)
				}
			}
			want := uint64(0)
			for _, length := range slow[len(slow)-r.Count:] {
				want += length
			}
			if own < want*95/100 || own > want*105/100 || r.Of < len(log)*9/10 || r.Count > len(log)/90 {
				t.Errorf("%s: %d of %d requests have %d µs, want %d", name, r.Count, r.Of, own, want)
			}
			if children := len(time) > 8; children != (o.Label != "") {
				t.Errorf("%s: children are yielded: %v", name, children)
			}
		}
	}
	if _, err := FindSlowRequests(s, RequestOptions{Func: regexp.MustCompile("nothing")}); err == nil {
		t.Error("no error without requests")
	}
}

// samplesIn returns the samples of a file that is open already.
func samplesIn(t *testing.T, file stream.File, o stream.Options) *Samples {
	t.Helper()
	src := must(stream.New([]stream.File{file}, o))(t)
	return NewSamples("x", src)
}

// Selected waits count. A goroutine that is not selected can be the holder.
func TestSelectLocks(t *testing.T) {
	s := stepper{recording: record(t)}
	get, work := in("(*cache).get", 4), in("(*cache).work", 100)
	s.ticks(5, waitsFor(1, 1, get), waitsFor(2, 1, get))
	s.ticks(5, sleeps(1, work, in("(*cache).get", 5)), waitsFor(2, 1, get), waitsFor(3, 1, get))
	s.ticks(5, sleeps(1, in("rest", 200)), sleeps(2, work, in("(*cache).get", 5)), waitsFor(3, 1, get))
	s.objects = mutexes
	f := s.finish(tachyon.Session{Source: "native", Markers: true, Objects: tachyon.AllObjects})
	l := must(FindLocks(samplesOf(t, selection(t, stream.Selection{Goroutines: []uint64{3}}, "", ""), f), LockOptions{Source: readHolderText}))(t)
	checkHolder(t, l, 1, 10, 0, 0, "sleep")
	if x := l.Locks[0]; x.Waited != 10*time.Millisecond || x.Waits != 1 || x.Goroutines != 1 {
		t.Errorf("%+v", x)
	}
	w, err := FindWaits(samplesOf(t, selection(t, stream.Selection{States: []string{"sync.Mutex.Lock"}}, "10ms", ""), f),
		WaitOptions{Goroutine: 3, LockOptions: LockOptions{Source: readHolderText}})
	if err != nil {
		t.Fatal(err)
	}
	// At 10 ms nobody was seen waiting before.
	checkChain(t, w, 5, "sync.Mutex.Lock (*cache).get", "holds sleep (*cache).work")
	if w.Time != 5*time.Millisecond || w.Duration != 5*time.Millisecond {
		t.Errorf("%+v", w)
	}
}

// Whether a wait ends is known also if what comes after it is not selected.
func TestSelectLeaks(t *testing.T) {
	s, _ := leakSession(t, selection(t, stream.Selection{States: []string{"chan receive"}}, "", ""))
	l := must(FindLeaks(s))(t)
	leak, pool := find(l.Groups, "main.serve.func1"), find(l.Groups, "main.worker")
	if leak == nil || !leak.Suspect || pool == nil || pool.Suspect || pool.RanAgain == 0 || find(l.Groups, "main.reply") != nil {
		t.Errorf("%+v, %+v", leak, pool)
	}
}
