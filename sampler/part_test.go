package sampler

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
	"pgregory.net/rapid"
)

// TestParts ends a part of a session, when the source has looked at all goroutines. What the second one has is of itself: counts,
// addresses, present labels, and the time of goroutines that were waiting or began before it. Another session's part ends
// because the source has not looked for two seconds.
func TestParts(t *testing.T) {
	var m memory
	s, out := session(t, Config{}, &m)
	at := func(id uint64, t, gap float64) {
		sample(out, source.Sample{Goroutine: id, Time: ms(t), Gap: ms(gap), Leaf: 0x40})
	}
	out.Batch(func() {
		at(5, 1, 0)
		at(6, 1, 0)
		out.Labels(5, ms(4), request("a"))
		out.Labels(5, ms(8), request("b"))
		out.Labels(6, ms(8), request("a"))
		out.Labels(6, ms(9), nil)
		at(5, 10, 0)
		at(7, 10.0005, 0)
		out.Gone(7)
	})
	looked := make(chan struct{})
	s.out.look, m.full = func() <-chan struct{} { return looked }, true
	out.Batch(func() {})
	out.Batch(func() { m.full = false })
	testenv.Same(t, "parts that have ended before the look", len(m.ended), 0)
	close(looked)
	out.Batch(func() {})
	out.Batch(func() {
		at(5, 40, 30)
		at(8, 30, 25)
		at(9, 41, 3)
		out.Labels(9, ms(41), request("c"))
		at(9, 52, 0)
		at(6, 52, 0)
	})
	out.Counted()
	stop(t, s)
	m.end(0, s.Part())
	goroutine := func(id, first, last, weight uint64, labels ...tachyon.LabelSpan) tachyon.Goroutine {
		return tachyon.Goroutine{ID: id, Parent: 1, CreatedBy: "main.main", First: first, Last: last, FirstWeight: weight, Labels: labels}
	}
	one, two := m.ended[0], m.ended[1]
	testenv.Prints(t, "the first part", "10ms 0s 10ms 10ms", one.at, one.part.Start, one.part.End, one.part.Stats.Duration)
	testenv.Prints(t, "the second part", fmt.Sprint("10ms ", two.part.End-ms(10)), two.part.Start, two.part.Stats.Duration)
	testenv.Same(t, "the second part ends later", two.part.End > ms(10), true)
	equal(t, "counts of the first part", one.part.Stats.Counts, tachyon.Counts{TicksAsked: 5, TicksReached: 4, Samples: 4, Dropped: 3, Torn: 2, Cost: time.Second, MaxGoroutines: 3})
	equal(t, "counts of the second part", two.part.Stats.Counts, tachyon.Counts{Samples: 6, MaxGoroutines: 4})
	equal(t, "goroutines of the first part", one.goroutines(), []tachyon.Goroutine{
		goroutine(5, 1000, 10_000, 0, tachyon.LabelSpan{From: 4000, Labels: request("a")}, tachyon.LabelSpan{From: 8000, Labels: request("b")}),
		goroutine(6, 1000, 1000, 0, tachyon.LabelSpan{From: 8000, Labels: request("a")}, tachyon.LabelSpan{From: 9000, Labels: map[string]string{}}),
		goroutine(7, 10_000, 10_000, 0),
	})
	equal(t, "goroutines of the second part", two.goroutines(), []tachyon.Goroutine{
		goroutine(5, 30_000, 30_000, 30_000, tachyon.LabelSpan{Labels: request("b")}),
		goroutine(6, 42_000, 42_000, 51_000),
		goroutine(8, 20_000, 20_000, 25_000),
		goroutine(9, 29_000, 42_000, 0, tachyon.LabelSpan{From: 31_000, Labels: request("c")}),
	})
	equal(t, "addresses of the first part", one.part.PCs.PCs, []tachyon.LeafPC{{Addr: 0x40, Wall: 4, WallTime: 12_000}})
	equal(t, "addresses of the second part", two.part.PCs.PCs, []tachyon.LeafPC{{Addr: 0x40, Wall: 5, WallTime: 120_000}})
	testenv.Prints(t, "progress", "1 42ms 6", len(m.progress), m.progress[0].Duration, m.progress[0].Samples)

	m = memory{full: true}
	s, out = session(t, Config{}, &m)
	s.out.look = func() <-chan struct{} { return make(chan struct{}) }
	for i, want := range []int{0, 0, 0, 1} {
		out.Batch(func() { at(5, float64(i)*1000, 0) })
		testenv.Same(t, fmt.Sprint("parts that have ended after ", i, " s"), len(m.ended), want)
	}
}

// A tick has the calls of a source for one tick.
type tick struct {
	at      time.Duration
	samples []source.Sample
	labels  map[uint64]string // new ones, by goroutine
	gone    []uint64
}

// aTick draws a tick that comes after another. Goroutines with ids below 4 belong to the runtime
// and come again after their end.
func aTick(t *rapid.T, before time.Duration, last map[uint64]time.Duration, ended map[uint64]bool) tick {
	k := tick{at: before + time.Duration(rapid.IntRange(1, 400).Draw(t, "step"))*time.Millisecond, labels: map[uint64]string{}}
	for id := uint64(1); id < 12; id++ {
		if ended[id] || rapid.IntRange(0, 2).Draw(t, "seen") == 0 {
			continue
		}
		_, seen := last[id]
		// A source may be late with a sample, but the times of one goroutine increase. Metadata
		// has no times before a file's start. So a late sample before a file's start may get
		// labels that were set later. Therefore late samples here change no labels.
		late := time.Duration(0)
		if id >= 4 {
			late = time.Duration(rapid.IntRange(0, 30).Draw(t, "late")) * time.Millisecond
		}
		last[id] = max(k.at-late, last[id]+time.Microsecond)
		if late == 0 && rapid.IntRange(0, 9).Draw(t, "label") == 0 {
			k.labels[id] = fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "value"))
		}
		s := source.Sample{
			Goroutine: id,
			Status:    rapid.SampledFrom([]tachyon.Status{tachyon.HasGIL | tachyon.OnCPU, 0, tachyon.GILRequested}).Draw(t, "status"),
			Time:      last[id],
			Stack:     []uint32{uint32(rapid.IntRange(0, 5).Draw(t, "leaf")), 6, 7}[rapid.IntRange(0, 1).Draw(t, "cut"):],
		}
		if !seen {
			s.Gap = time.Duration(rapid.IntRange(0, 40).Draw(t, "gap")) * time.Millisecond / 2
		}
		k.samples = append(k.samples, s)
		if rapid.IntRange(0, 19).Draw(t, "gone") == 0 {
			k.gone = append(k.gone, id)
			ended[id] = id >= 4
		}
	}
	return k
}

// record passes all ticks to a recorder whose parts are so long, and returns the parts. 0 means one part.
func record(t *rapid.T, ticks []tick, every time.Duration) []ended {
	var m memory
	rec := newRecorder(&m, sessionStart, 1000)
	rec.stats, rec.look = func() Stats { return Stats{} }, new(scripted).Look
	for f := range 8 {
		rec.Frame(tachyon.Frame{File: "a.go", Func: fmt.Sprint("f", f), Line: int32(f)})
	}
	for _, k := range ticks {
		m.full = every > 0 && rec.now-rec.part >= every
		rec.Batch(func() {
			for _, s := range k.samples {
				by := "main.main"
				if s.Goroutine < 4 {
					by = "runtime.x"
				}
				rec.Goroutine(source.Goroutine{ID: s.Goroutine, CreatedBy: by})
				if v, ok := k.labels[s.Goroutine]; ok {
					rec.Labels(s.Goroutine, max(0, s.Time-s.Gap), request(v))
				}
				rec.Sample(&s)
			}
			for _, id := range k.gone {
				rec.Gone(id)
			}
		})
	}
	m.end(0, rec.cut())
	testenv.OK(t, rec.err())
	return m.ended
}

// readAll writes each part to a file. It returns the samples of all files by goroutine, except those that the
// source did not deliver: the recorder can write one more sample before a goroutine's first one. It also
// returns the sums over all files of the time of each goroutine in each stack, state and label set.
func readAll(t *rapid.T, parts []ended, ticks []tick) (samples map[uint64][]string, sums map[string]time.Duration) {
	delivered := map[string]bool{}
	for _, k := range ticks {
		for _, s := range k.samples {
			delivered[fmt.Sprint(s.Goroutine, us(s.Time))] = true
		}
	}
	samples, sums = map[uint64][]string{}, map[string]time.Duration{}
	for _, part := range parts {
		var f testenv.File
		w := testenv.Must(writer.New(&f, writer.Options{Start: us(part.part.Start), Interval: 1000, Uncompressed: true}))
		for n := range 8 {
			w.Intern(tachyon.Frame{File: "a.go", Func: fmt.Sprint("f", n), Line: int32(n)})
		}
		testenv.OK(t, testenv.Err(w.WriteBatch(part.samples)))
		testenv.OK(t, w.WriteRecords(&tachyon.Records{Goroutines: part.goroutines()}))
		r := testenv.Finish(t, &f, w, reader.New)
		for s := range testenv.All(t, r.Samples()) {
			if delivered[fmt.Sprint(s.Thread, s.Time)] {
				text := fmt.Sprint(s.Interpreter, s.Status, s.Time)
				for _, id := range s.Stack {
					text += r.Frames()[id].Func
				}
				samples[s.Thread] = append(samples[s.Thread], text)
			}
		}
		src := testenv.Must(stream.New([]stream.File{{Stream: r}}, stream.Options{Labels: true}))
		p := testenv.Must(profile.FromStream(src, profile.Detail{Goroutines: true, Labels: true}))
		for _, rec := range p.Records {
			key := fmt.Sprint(rec.Goroutine, rec.State, rec.Labels)
			for _, id := range rec.Stack {
				key += " " + p.Frames[id].Func
			}
			sums[key] += rec.Wall
		}
	}
	return samples, sums
}

// TestPartsAreTheWhole records the same session in one part and in several. The samples of all parts, and the
// time of each stack as readers see it, must be the same.
func TestPartsAreTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var ticks []tick
		last, gone, at := map[uint64]time.Duration{}, map[uint64]bool{}, time.Duration(0)
		for range rapid.IntRange(1, 30).Draw(t, "ticks") {
			k := aTick(t, at, last, gone)
			ticks, at = append(ticks, k), k.at
		}
		every := time.Duration(rapid.IntRange(1, 2000).Draw(t, "every")) * time.Millisecond
		want, wantSums := readAll(t, record(t, ticks, 0), ticks)
		got, sums := readAll(t, record(t, ticks, every), ticks)
		equal(t, "samples", got, want)
		equal(t, "time in stacks", sums, wantSums)
	})
}

// TestFollow gives a session's samples from 10 ms on to a second sink. It gets creators and labels of
// goroutines that began before, and none of the time before.
func TestFollow(t *testing.T) {
	var first, second, third, fourth, fifth memory
	s, out := session(t, Config{}, &first)
	at := func(id uint64, t, gap float64) { sample(out, source.Sample{Goroutine: id, Time: ms(t), Gap: ms(gap)}) }
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
	testenv.Prints(t, "after a batch Reach and the next one", "true false", isClosed(early), isClosed(f.Reach()))
	other := testenv.Must(s.Follow(&fourth, ms(21))) // beside the second one
	out.Labels(5, ms(25), request("b"))
	out.Batch(func() {
		at(5, 25, 0)
		at(8, 30, 29) // it may have begun before the second sink
		out.Gone(8)
	})
	ended := make(chan Part)
	go func() { ended <- testenv.Must(f.End()) }()
	for len(s.out.followers.seen) == 2 { // until a batch ends after the call of end
		out.Batch(func() {})
		runtime.Gosched()
	}
	part := <-ended
	equal(t, "samples", second.samples, []tachyon.Sample{
		{Thread: 5, Time: us(ms(20))}, {Thread: 5, Time: us(ms(25))}, {Thread: 8, Time: us(ms(11))}, {Thread: 8, Time: us(ms(30))},
	})
	equal(t, "goroutines", append(second.parts, part.Goroutines...), []tachyon.Goroutine{
		{ID: 5, Parent: 1, CreatedBy: "main.main", First: 10000, Last: 10000, FirstWeight: 10000, Labels: []tachyon.LabelSpan{{Labels: request("a")}}},
		{ID: 5, Last: 15000, Labels: []tachyon.LabelSpan{{From: 15000, Labels: request("b")}}},
		{ID: 8, Parent: 1, CreatedBy: "main.main", First: 1000, Last: 20000},
	})
	st := part.Stats
	testenv.Prints(t, "the part", "10ms 30ms 4 20ms 2 0", part.Start, part.End, st.Samples, st.Duration, st.MaxGoroutines, st.TicksReached)

	// Errors of a second sink end the following only. The session can end meanwhile.
	third.room = 1
	f = testenv.Must(s.Follow(&third, ms(30)))
	out.Batch(func() { at(5, 50, 0); at(6, 51, 0) })
	testenv.Prints(t, "the sink has failed, the session has ended, another sink has failed", "true false false", isClosed(f.Failed()), isClosed(f.Stopped()), isClosed(other.Failed()))
	late := testenv.Must(s.Follow(&fifth, ms(60))) // gets nothing before the session's end
	stop(t, s)
	part, err := f.End()
	testenv.Prints(t, "an error of the second sink", "no space left 1 true", err, part.Stats.Samples, isClosed(f.Stopped()))
	part = testenv.Must(other.End())
	testenv.Prints(t, "a third sink", "21ms 5 5", part.Start, part.Stats.Samples, len(fourth.samples))
	part = testenv.Must(late.End())
	testenv.Prints(t, "one that gets nothing", "60ms 60ms 0 0", part.Start, part.End, len(part.Goroutines), len(fifth.samples))
	testenv.Same(t, "samples of the session", len(first.samples), 11)
	testenv.Is(t, "a session that has ended", testenv.Err(s.Follow(&third, ms(60))), ErrEnded)
}

// TestReach: the session's own sink and a second one have everything up to now after a look at all goroutines, of which they have
// then been told. Before that the second one does not end.
func TestReach(t *testing.T) {
	var own, m memory
	s, out := session(t, Config{}, &own)
	look := make(chan struct{})
	s.src.(*scripted).looked = look
	out.Batch(func() { sample(out, source.Sample{Goroutine: 5, Time: ms(1)}) })
	f := testenv.Must(s.Follow(&m, ms(10)))
	reach, reached := f.Reach(), make(chan struct{})
	go func() { s.Reach(time.Hour, t.Context().Done()); close(reached) }()
	testenv.Await(func() bool {
		s.out.reaches.mu.Lock()
		defer s.out.reaches.mu.Unlock()
		return len(s.out.reaches.waiting) == 1
	})
	out.Batch(func() {})
	testenv.Prints(t, "reached before the look, the session too, with goroutines", "false false 0", isClosed(reach), isClosed(reached), len(own.parts))
	close(look)
	out.Batch(func() { sample(out, source.Sample{Goroutine: 5, Time: ms(20)}) })
	<-reached
	testenv.Prints(t, "reached after the look, samples, goroutines and weight of the first", "true 1 1 10000", isClosed(reach), len(m.samples), len(m.parts), m.parts[0].FirstWeight)
	testenv.Prints(t, "samples and goroutines of the session's own sink", "2 1", len(own.samples), len(own.parts))
	look = make(chan struct{})
	s.src.(*scripted).looked = look
	ended := make(chan Part)
	go func() { ended <- testenv.Must(f.End()) }()
	testenv.Await(func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.waiting) == 1
	})
	out.Batch(func() {})
	testenv.Same(t, "followers that wait for the look", len(s.out.followers.seen), 1)
	close(look)
	out.Batch(func() { sample(out, source.Sample{Goroutine: 5, Time: ms(30)}) })
	part := <-ended
	testenv.Prints(t, "the end, and samples", "30ms 2", part.End, len(m.samples))
	stop(t, s)
	s.Reach(time.Hour, t.Context().Done()) // returns, as the session has ended
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
