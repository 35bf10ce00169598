package sampler

import (
	"runtime"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// TestFollow gives a session's samples from 10 ms on to a second sink. It gets creators and labels of
// goroutines that began before, and none of the time before.
func TestFollow(t *testing.T) {
	var first, second, third, fourth memory
	s, out := session(t, Config{}, &first)
	at := func(id uint64, t, gap float64) {
		sample(out, source.Sample{Goroutine: id, Time: ms(t), Gap: ms(gap)})
	}
	out.Batch(func() {
		at(5, 1, 0)
		at(6, 2, 0)
		at(7, 2, 0)
		out.Gone(7)
	})
	out.Labels(5, ms(3), request("a"))
	out.Batch(func() { at(5, 3, 0) })
	f := testenv.Must(s.Follow(&second, ms(10)))
	early := f.Reach() // a batch that runs already may lack the samples of now
	out.Batch(func() {
		at(6, 9, 0)
		at(5, 20, 0)
		testenv.Same(t, "reached before the end of the batch", isClosed(early), false)
	})
	if late := f.Reach(); !isClosed(early) || isClosed(late) {
		t.Errorf("after a batch Reach is %v, the next one %v", isClosed(early), isClosed(late))
	}
	other := testenv.Must(s.Follow(&fourth, ms(21))) // beside the second one
	out.Labels(5, ms(25), request("b"))
	out.Batch(func() {
		at(5, 25, 0)
		at(8, 30, 29) // it may have begun before the second sink
		out.Gone(8)
	})
	ended := make(chan Part)
	go func() {
		part, err := f.End()
		testenv.Same(t, "End", err, nil)
		ended <- part
	}()
	for len(s.out.followers.seen) == 2 { // until a batch ends after the call of end
		out.Batch(func() {})
		runtime.Gosched()
	}
	part := <-ended
	var got []tachyon.Sample
	for _, c := range []struct {
		id uint64
		at float64
	}{{5, 20}, {5, 25}, {8, 11}, {8, 30}} {
		got = append(got, tachyon.Sample{Thread: c.id, Time: us(ms(c.at))})
	}
	equal(t, "samples", second.samples, got)
	equal(t, "goroutines", append(second.parts, part.Goroutines...), []tachyon.Goroutine{
		{ID: 5, Parent: 1, CreatedBy: "main.main", First: 10000, Last: 10000, FirstWeight: 10000, Labels: []tachyon.LabelSpan{{Labels: request("a")}}},
		{ID: 5, Last: 15000, Labels: []tachyon.LabelSpan{{From: 15000, Labels: request("b")}}},
		{ID: 8, Parent: 1, CreatedBy: "main.main", First: 1000, Last: 20000},
	})
	if part.Start != ms(10) || part.End != ms(30) || part.Stats.Samples != 4 || part.Stats.Duration != ms(20) || part.Stats.MaxGoroutines != 2 || part.Stats.TicksReached != 0 {
		t.Errorf("the part is %+v", part)
	}

	// Errors of a second sink end the following only. The session can end meanwhile.
	third.room = 1
	f = testenv.Must(s.Follow(&third, ms(30)))
	out.Batch(func() { at(5, 50, 0); at(6, 51, 0) })
	if !isClosed(f.Failed()) || isClosed(f.Stopped()) || isClosed(other.Failed()) {
		t.Error("the error of the sink is not told, or it is told of another one")
	}
	stop(t, s)
	if part, err := f.End(); err != errFull || part.Stats.Samples != 1 || !isClosed(f.Stopped()) {
		t.Errorf("an error of the second sink: %v, %+v", err, part)
	}
	if part, err := other.End(); err != nil || part.Start != ms(21) || part.Stats.Samples != 5 || len(fourth.samples) != 5 {
		t.Errorf("a third sink: %v, %+v", err, part)
	}
	testenv.Same(t, "samples of the session", len(first.samples), 11)
	testenv.Is(t, "a session that has ended", testenv.Err(s.Follow(&third, ms(60))), ErrEnded)
}

// TestReachOfSession: the session's own sink has everything after a look, too, and is told of all goroutines.
func TestReachOfSession(t *testing.T) {
	var m memory
	s, out := session(t, Config{}, &m)
	look := make(chan struct{})
	s.src.(*scripted).looked = look
	reached := make(chan struct{})
	go func() { s.Reach(t.Context()); close(reached) }()
	testenv.Await(func() bool {
		s.out.reaches.mu.Lock()
		defer s.out.reaches.mu.Unlock()
		return len(s.out.reaches.waiting) == 1
	})
	out.Batch(func() { sample(out, source.Sample{Goroutine: 5, Time: ms(1)}) })
	if isClosed(reached) || len(m.parts) != 0 {
		t.Error("Reach does not wait for the look")
	}
	close(look)
	out.Batch(func() { sample(out, source.Sample{Goroutine: 5, Time: ms(2)}) })
	if <-reached; len(m.samples) != 2 || len(m.parts) != 1 {
		t.Errorf("after the look: %+v, %+v", m.samples, m.parts)
	}
	stop(t, s)
	s.Reach(t.Context()) // returns, as the session has ended
}

// TestReach: the second sink has everything up to now after a look at all goroutines, of which it has then been told. Before
// that it does not end.
func TestReach(t *testing.T) {
	s, out := session(t, Config{}, &memory{})
	look := make(chan struct{})
	s.src.(*scripted).looked = look
	out.Batch(func() { sample(out, source.Sample{Goroutine: 5, Time: ms(1)}) })
	var m memory
	f := testenv.Must(s.Follow(&m, ms(10)))
	reach := f.Reach()
	out.Batch(func() {})
	testenv.Same(t, "reached before the look", isClosed(reach), false)
	close(look)
	out.Batch(func() { sample(out, source.Sample{Goroutine: 5, Time: ms(20)}) })
	if !isClosed(reach) || len(m.samples) != 1 || len(m.parts) != 1 || m.parts[0].FirstWeight != 10_000 {
		t.Errorf("after the look: %v, %+v, %+v", isClosed(reach), m.samples, m.parts)
	}
	look = make(chan struct{})
	s.src.(*scripted).looked = look
	ended := make(chan Part)
	go func() {
		part, _ := f.End()
		ended <- part
	}()
	testenv.Await(func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.waiting) == 1
	})
	out.Batch(func() {})
	testenv.Same(t, "followers that wait for the look", len(s.out.followers.seen), 1)
	close(look)
	out.Batch(func() { sample(out, source.Sample{Goroutine: 5, Time: ms(30)}) })
	if part := <-ended; part.End != ms(30) || len(m.samples) != 2 {
		t.Errorf("the end: %+v, %+v", part, m.samples)
	}
}

// A session can end before the second sink has got anything.
func TestFollowNothing(t *testing.T) {
	s, out := session(t, Config{}, &memory{})
	out.Batch(func() { sample(out, source.Sample{Goroutine: 5, Time: ms(1)}) })
	var m memory
	f := testenv.Must(s.Follow(&m, ms(10)))
	stop(t, s)
	if part, err := f.End(); err != nil || part.Start != ms(10) || part.End != ms(10) || len(part.Goroutines)+len(m.samples) > 0 {
		t.Errorf("%+v, %v", part, err)
	}
}

// What the session's own sink does not take is not lost for a second one.
func TestFollowUnwilling(t *testing.T) {
	s, out := session(t, Config{}, &unwilling{shut: true})
	var m memory
	out.Batch(func() { sample(out, source.Sample{Goroutine: 5, Time: ms(1)}) })
	f := testenv.Must(s.Follow(&m, ms(1)))
	out.Batch(func() { sample(out, source.Sample{Goroutine: 5, Time: ms(2)}) })
	stop(t, s)
	if part, err := f.End(); err != nil || part.Stats.Samples != 1 || part.Stats.Dropped != 0 || part.Stats.Unwritten != 0 {
		t.Errorf("%+v, %v", part.Stats, err)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
