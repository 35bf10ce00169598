package analyze

import (
	"testing"

	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// What the runtime has proved comes first, also if it does not grow.
func TestLeaksProven(t *testing.T) {
	at := func(function string, line int32) tachyon.LeakFrame {
		f := place(function, line)
		return tachyon.LeakFrame{Func: f.Func, File: f.File, Line: f.Line}
	}
	wait := tachyon.Frame{Func: "[chan receive]"}
	leaks := func(sel *stream.Selection, session tachyon.Session) *Leaks {
		t.Helper()
		r := record(t)
		for i := range uint64(20) {
			r.goroutine(tachyon.Goroutine{ID: 10 + i, CreatedBy: "main.serve", CreatedAt: "main.go:7", FirstWeight: 1000})
			r.goroutine(tachyon.Goroutine{ID: 50 + i, CreatedBy: "main.boot", CreatedAt: "main.go:8", FirstWeight: 1000})
			for tick := i*second + 1000; tick <= 20*second; tick += 10_000 {
				r.add(10+i, tick, 0, wait, place("main.watch", 5))
			}
			for tick := uint64(1000); tick <= 20*second; tick += 10_000 {
				r.add(50+i, tick, 0, wait, place("main.stuck", 6))
			}
		}
		session.Source, session.Markers = "native", true
		l := must(FindLeaks(samplesOf(t, stream.Options{Select: sel, Unselected: true}, r.finish(session))))(t)
		return l
	}
	l := leaks(nil, tachyon.Session{Leaks: &tachyon.ProvenLeaks{Count: 23, Groups: []tachyon.ProvenLeak{
		{Count: 12, Frames: []tachyon.LeakFrame{at("sync.(*Cond).Wait", 70), at("main.stuck", 6), at("main.boot", 9)}},
		{Count: 8, Frames: []tachyon.LeakFrame{at("main.stuck", 6), at("main.other", 9)}},
		{Count: 3, Frames: []tachyon.LeakFrame{at("main.unseen", 9)}},
	}}})
	if !l.Asked || l.Proven != 23 || len(l.Groups) != 3 {
		t.Fatalf("%+v", l)
	}
	if g := find(l.Groups, "main.stuck"); g != &l.Groups[0] || g.Proven != 20 || g.Suspect || g.Start != 20 || g.End != 20 || g.CreatedBy != "main.boot" || g.Reason != "chan receive" {
		t.Errorf("%+v", g)
	}
	if g := find(l.Groups, "main.unseen"); g != &l.Groups[1] || g.Proven != 3 || g.End != 0 {
		t.Errorf("%+v", g)
	}
	if g := find(l.Groups, "main.watch"); g == nil || !g.Suspect || g.Proven != 0 {
		t.Errorf("%+v", g)
	}
	// A group that grows gets its number.
	watch := &tachyon.ProvenLeaks{Count: 7, Groups: []tachyon.ProvenLeak{{Count: 7, Frames: []tachyon.LeakFrame{at("main.watch", 5)}}}}
	l = leaks(nil, tachyon.Session{Leaks: watch})
	if len(l.Groups) != 1 || l.Groups[0].Proven != 7 || !l.Groups[0].Suspect || l.Groups[0].PerMinute < 50 {
		t.Errorf("%+v", l.Groups)
	}
	if l = leaks(&stream.Selection{Goroutines: []uint64{11}}, tachyon.Session{Leaks: watch}); l.Proven != 0 || !l.Asked {
		t.Errorf("of a selection: %+v", l)
	}
	if l = leaks(nil, tachyon.Session{Leaks: &tachyon.ProvenLeaks{Unavailable: "too old"}}); l.ProvenUnknown != "too old" || l.Groups[0].Function != "main.watch" {
		t.Errorf("%+v", l)
	}
}
