package sampler_test

import (
	"errors"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// TestFollow gives a session's samples from 10 ms on to a second sink. It gets creators and labels of
// goroutines that began before, and none of the time before.
func TestFollow(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	set := func(s string) map[string]string { return map[string]string{"request": s} }
	begun, joined, come := make(chan bool), make(chan bool), make(chan bool)
	var ended atomic.Bool
	full := errors.New("full")
	f := &fake{name: "native", batches: true, tell: func(out source.Out) {
		sample := func(id uint64, at, gap time.Duration) {
			out.Goroutine(source.Goroutine{ID: id, Parent: 1, CreatedBy: "main.main"})
			out.Sample(&source.Sample{Goroutine: id, Time: at, Gap: gap})
		}
		out.Batch(func() {
			sample(5, ms(1), 0)
			sample(6, ms(2), 0)
			sample(7, ms(2), 0)
			out.Gone(7)
		})
		out.Labels(5, ms(3), set("a"))
		out.Batch(func() { sample(5, ms(3), 0) })
		close(begun)
		<-joined
		out.Batch(func() {
			sample(6, ms(9), 0)
			sample(5, ms(20), 0)
		})
		out.Labels(5, ms(25), set("b"))
		out.Batch(func() {
			sample(5, ms(25), 0)
			sample(8, ms(30), ms(29)) // it may have begun before the second sink
			out.Gone(8)
		})
		close(come)
		for !ended.Load() {
			out.Batch(func() {})
			time.Sleep(time.Millisecond)
		}
		out.Batch(func() { sample(5, ms(50), 0) })
	}}
	var first, second, third memory
	s, err := sampler.StartWith(sampler.Config{}, &first, native(f), nil)
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	end, err := s.Follow(&second, ms(10))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Follow(&third, ms(10)); !errors.Is(err, sampler.ErrFollowed) {
		t.Errorf("a third sink: %v", err)
	}
	close(joined)
	<-come
	part, err := end()
	if err != nil {
		t.Fatal(err)
	}
	third.write = func(int) error { return full }
	end, err = s.Follow(&third, ms(30))
	if err != nil {
		t.Fatal(err)
	}
	ended.Store(true)
	<-f.told
	s.Stop()
	if _, err := end(); !errors.Is(err, full) || s.Stop() != nil {
		t.Errorf("an error of the second sink: %v; of the session: %v", err, s.Stop())
	}
	if _, err := s.Follow(&third, ms(60)); err == nil {
		t.Error("a session that has ended can be followed")
	}
	base := first.samples[0].Time - 1000
	var times []uint64
	for _, s := range second.samples {
		times = append(times, s.Thread*1000+(s.Time-base)/1000)
	}
	if want := []uint64{5020, 5025, 8011, 8030}; !reflect.DeepEqual(times, want) {
		t.Errorf("goroutines and times are %v, want %v", times, want)
	}
	want := []tachyon.Goroutine{
		{ID: 5, Parent: 1, CreatedBy: "main.main", First: 10000, Last: 15000, FirstWeight: 10000, Labels: []tachyon.LabelSpan{{Labels: set("a")}, {From: 15000, Labels: set("b")}}},
		{ID: 8, Parent: 1, CreatedBy: "main.main", First: 1000, Last: 20000},
	}
	if got := append(second.parts, part.Goroutines...); !reflect.DeepEqual(got, want) {
		t.Errorf("goroutines %+v\nwant %+v", got, want)
	}
	if part.Start != ms(10) || part.End != ms(30) || part.Stats.Samples != 4 || part.Stats.Duration != ms(20) || part.Stats.MaxGoroutines != 2 {
		t.Errorf("the part is %+v", part)
	}
	if n := len(first.samples); n != 10 {
		t.Errorf("the session has %d samples", n)
	}
}
