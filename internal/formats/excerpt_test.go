package formats

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// TestExcerpt compares an excerpt of two files, the second of which is being written, with what the
// files have after its start: the time of each goroutine and stack, creators, labels and objects.
func TestExcerpt(t *testing.T) {
	const (
		begin  = 1_700_000_000_000_000
		second = begin + 2_000_000
		from   = begin + 1_300_000
		end    = begin + 3_000_000
	)
	dir, random := t.TempDir(), rand.New(rand.NewPCG(1, 2))
	paths := []string{filepath.Join(dir, "x.1.tach"), filepath.Join(dir, "x.2.tach")}
	want, last := map[string]uint64{}, map[uint64]uint64{}
	set := func(i int) map[string]string { return map[string]string{"n": fmt.Sprint(i)} }
	for i, start := range []uint64{begin, second} {
		w := testenv.Must(writer.Create(paths[i], writer.Options{Start: start, Interval: 1000}))
		defer w.Close()
		stop := []uint64{second, end}[i]
		for now := start + 1000; now <= stop; now += 1000 {
			for g := range uint64(20) {
				// Some goroutines are sampled rarely, and some begin in the excerpt. All have a sample of
				// the first file in it.
				if g > 15 && now < from+100_000 || now != from+100_000 && random.IntN(1+int(g)*5) != 0 {
					continue
				}
				f := fmt.Sprintf("main.f%d", random.IntN(5))
				testenv.OK(t, w.WriteFrames(&tachyon.Sample{Thread: g + 1, Time: now}, []tachyon.Frame{{Func: f}, {Func: "main.main"}}))
				weight := uint64(1000)
				if l, ok := last[g]; ok {
					weight = now - max(l, from)
				} else if g > 15 {
					weight = 5000
				}
				if last[g] = now; now > from {
					want[fmt.Sprint(g+1, f)] += weight
				}
			}
		}
		var r tachyon.Records
		for g := range uint64(20) {
			part := tachyon.Goroutine{ID: g + 1, Parent: 1, CreatedBy: "main.main", Labels: []tachyon.LabelSpan{{From: 0, Labels: set(0)}}}
			if i == 0 {
				part.Labels = append(part.Labels, tachyon.LabelSpan{From: 1_000_000, Labels: set(1)}, tachyon.LabelSpan{From: 1_500_000, Labels: set(0)})
			}
			if g > 15 && i == 0 {
				part.FirstWeight = 5000
			}
			if g == 7 && i == 1 {
				part.Labels = nil
			}
			r.Goroutines = append(r.Goroutines, part)
		}
		r.Goroutines = append(r.Goroutines, tachyon.Goroutine{ID: 99, CreatedBy: "main.gone"}) // not in the excerpt
		r.Objects = []tachyon.Object{{Number: 3, Kind: "channel", Capacity: int64(i)}}
		testenv.OK(t, errors.Join(w.WriteRecords(&r), w.Provisional(tachyon.KindSession, &tachyon.Session{PID: 7, Error: "the session was not stopped"})))
		if i == 0 {
			testenv.OK(t, w.Close())
		}
	}
	out := filepath.Join(dir, "out.tach")
	testenv.OK(t, Excerpt(t.Context(), out, paths, time.UnixMicro(from)))
	r := testenv.Must(reader.Open(out))
	defer r.Close()
	got := map[string]uint64{}
	for s := range plain(t, r) {
		got[fmt.Sprint(s.Thread, r.Frames()[s.Stack[0]].Func)] += s.Weight
		if s.Time <= from || s.Time-s.Weight < from {
			t.Errorf("a sample at %d µs with a weight of %d µs", s.Time-from, s.Weight)
		}
	}
	for k, v := range want {
		// Less than one and a half intervals count as one.
		if d := int64(got[k]) - int64(v); d < -500 || d > 500 {
			t.Errorf("goroutine and function %s: %d µs, want %d", k, got[k], v)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%v, want %v", got, want)
	}
	m := testenv.Must(r.Metadata())
	if s := m.Session; s == nil || s.PID != 7 || s.Error != "" || s.Samples != int64(r.Header().Samples) || s.Duration != reader.Micros(end-from) || s.Start.UnixMicro() != from {
		t.Errorf("the session is %+v", s)
	}
	if want := []tachyon.Object{{Number: 3, Kind: "channel", Capacity: 1}}; !reflect.DeepEqual(m.Objects, want) {
		t.Errorf("objects %+v, want %+v", m.Objects, want)
	}
	if len(m.Goroutines) != 20 {
		t.Errorf("%d goroutines", len(m.Goroutines))
	}
	for _, g := range m.Goroutines {
		labels := []tachyon.LabelSpan{{Labels: set(1)}, {From: begin + 1_500_000 - from, Labels: set(0)}}
		if g.ID == 8 {
			labels = append(labels, tachyon.LabelSpan{From: second - from, Labels: map[string]string{}})
		}
		if !reflect.DeepEqual(g.Labels, labels) || g.CreatedBy != "main.main" || g.Parent != 1 || g.Last > end-from {
			t.Errorf("goroutine %+v, want labels %+v", g, labels)
		}
	}
	// Nothing is known of the time before the first file, and files of other sessions do not help.
	if err := Excerpt(t.Context(), out, paths, time.UnixMicro(begin-1)); !errors.Is(err, ErrNoPast) || !strings.Contains(err.Error(), "begin") {
		t.Errorf("before the session: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	if err := Excerpt(ctx, out, paths, time.UnixMicro(from)); !errors.Is(err, gone) {
		t.Errorf("canceled: %v", err)
	}
}

// TestWindow: a window has the time of each goroutine between its start and its end, also where a goroutine is
// sampled before and after only, or only after, and nothing of one that begins later.
func TestWindow(t *testing.T) {
	const begin = 1_700_000_000_000_000
	in, out := filepath.Join(t.TempDir(), "in.tach"), filepath.Join(t.TempDir(), "out.tach")
	w := testenv.Must(writer.Create(in, writer.Options{Start: begin, Interval: 1000}))
	defer w.Close() // it is being written
	sample := func(id, at uint64) {
		testenv.OK(t, w.WriteFrames(&tachyon.Sample{Thread: id, Time: begin + at}, []tachyon.Frame{{Func: fmt.Sprint("f", id)}}))
	}
	for at := uint64(1000); at <= 60_000; at += 1000 {
		sample(1, at) // always
		if at == 10_000 || at == 35_000 || at == 50_000 {
			sample(2, at) // rarely
		}
		if at == 10_000 || at == 50_000 {
			sample(3, at) // not within the window
		}
		if at > 45_000 {
			sample(4, at) // later
		}
		if at == 45_000 {
			sample(5, at) // later, but it has waited for some time
			sample(6, at) // the same, since before the window
		}
	}
	r := &tachyon.Records{}
	weights := map[uint64]uint64{5: 15_000, 6: 44_000}
	for id := range uint64(6) {
		r.Goroutines = append(r.Goroutines, tachyon.Goroutine{ID: id + 1, FirstWeight: weights[id+1], CreatedBy: "main.main", Labels: []tachyon.LabelSpan{{Labels: map[string]string{"a": "b"}}, {From: 50_000, Labels: map[string]string{}}}})
	}
	testenv.OK(t, errors.Join(w.WriteRecords(r), w.Provisional(tachyon.KindSession, &tachyon.Session{PID: 7})))
	testenv.OK(t, Window(t.Context(), out, in, time.UnixMicro(begin+20_000), time.UnixMicro(begin+40_000)))
	o := testenv.Must(reader.Open(out))
	defer o.Close()
	got := map[uint64]uint64{}
	for s := range plain(t, o) {
		got[s.Thread] += s.Weight
		if s.Time <= begin+20_000 || s.Time > begin+40_000 || s.Time-s.Weight < begin+20_000 {
			t.Errorf("a sample at %d µs with a weight of %d µs", s.Time-begin, s.Weight)
		}
	}
	if want := map[uint64]uint64{1: 20_000, 2: 20_000, 3: 20_000, 5: 10_000, 6: 20_000}; !reflect.DeepEqual(got, want) {
		t.Errorf("times of goroutines %v, want %v", got, want)
	}
	m := testenv.Must(o.Metadata())
	if m.Session == nil || m.Session.Duration != 20*time.Millisecond || m.Session.Start.UnixMicro() != begin+20_000 || len(m.Goroutines) != 5 {
		t.Errorf("the session is %+v, goroutines %+v", m.Session, m.Goroutines)
	}
	for _, g := range m.Goroutines {
		if len(g.Labels) != 1 || g.Labels[0].From != 0 || g.Last > 20_000 {
			t.Errorf("goroutine %+v", g)
		}
	}
}
