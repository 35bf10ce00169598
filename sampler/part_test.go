package sampler_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/rotate"
	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// rotating is a sink that rotates its files. Like a session, it adds the goroutines to each file.
type rotating struct{ *rotate.Writer }

func (r rotating) Next(at time.Duration, cut func() sampler.Part) {
	r.Writer.Next(uint64(sessionStart.UnixMicro()+at.Microseconds()), func() func(*writer.Writer) error {
		p := cut()
		return func(w *writer.Writer) error { return addGoroutines(w, p) }
	})
	r.Settle() // wait until the last file is finished; otherwise no new file could begin
}

// oneFile is a sink that does not rotate.
type oneFile struct {
	*writer.Writer
	sampler.OnePart
}

func addGoroutines(w *writer.Writer, p sampler.Part) error {
	return w.WriteRecords(&tachyon.Records{Goroutines: p.Goroutines})
}

var sessionStart = time.UnixMicro(1_700_000_000_000_000)

// A tick has the calls of a source for one tick.
type tick struct {
	at      time.Duration
	samples []source.Sample
	labels  map[uint64]string // new ones, by goroutine
	gone    []uint64
}

// aTick draws a tick that comes after another. Goroutines with ids below 4 belong to the runtime
// and come again after their end.
func aTick(t *rapid.T, before *tick, last map[uint64]time.Duration, ended map[uint64]bool) tick {
	k := tick{at: before.at + time.Duration(rapid.IntRange(1, 400).Draw(t, "step"))*time.Millisecond, labels: map[uint64]string{}}
	for id := range uint64(12) {
		if id == 0 || ended[id] || rapid.IntRange(0, 2).Draw(t, "seen") == 0 {
			continue
		}
		// A source may be late with a sample, but the times of one goroutine increase. Metadata
		// has no times before a file's start. So a late sample before a file's start may get
		// labels that were set later. Therefore late samples here change no labels.
		late := time.Duration(0)
		if id >= 4 {
			late = time.Duration(rapid.IntRange(0, 30).Draw(t, "late")) * time.Millisecond
		}
		at := max(k.at-late, last[id]+time.Microsecond)
		last[id] = at
		if late == 0 && rapid.IntRange(0, 9).Draw(t, "label") == 0 {
			k.labels[id] = fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "value"))
		}
		k.samples = append(k.samples, source.Sample{
			Goroutine: id,
			Status:    rapid.SampledFrom([]tachyon.Status{tachyon.HasGIL | tachyon.OnCPU, 0, tachyon.GILRequested}).Draw(t, "status"),
			Time:      at,
			Gap:       time.Duration(rapid.IntRange(0, 40).Draw(t, "gap")) * time.Millisecond / 2,
			Stack:     []uint32{uint32(rapid.IntRange(0, 5).Draw(t, "leaf")), 6, 7}[rapid.IntRange(0, 1).Draw(t, "cut"):],
		})
		if rapid.IntRange(0, 19).Draw(t, "gone") == 0 {
			k.gone = append(k.gone, id)
			ended[id] = id >= 4
		}
	}
	return k
}

func tell(ticks []tick) func(source.Out) {
	return func(out source.Out) {
		for f := range 8 {
			out.Frame(tachyon.Frame{File: "a.go", Func: fmt.Sprint("f", f), Line: int32(f)})
		}
		seen := map[uint64]bool{}
		for _, k := range ticks {
			out.Batch(func() {
				for _, s := range k.samples {
					if seen[s.Goroutine] {
						s.Gap = 0
					}
					seen[s.Goroutine] = true
					by := "main.main"
					if s.Goroutine < 4 {
						by = "runtime.x"
					}
					out.Goroutine(source.Goroutine{ID: s.Goroutine, CreatedBy: by})
					if v, ok := k.labels[s.Goroutine]; ok {
						out.Labels(s.Goroutine, max(0, s.Time-s.Gap), map[string]string{"k": v})
					}
					out.Sample(&s)
				}
				for _, id := range k.gone {
					out.Gone(id)
				}
			})
		}
	}
}

// sampleAll makes a fake source pass all ticks to a sink.
func sampleAll(t *rapid.T, sink sampler.Sink, ticks []tick) sampler.Part {
	f := &fake{name: "native", tell: tell(ticks), batches: true}
	s, err := sampler.StartWith(sampler.Config{Start: sessionStart}, sink, native(f), nil)
	if err != nil {
		t.Fatal(err)
	}
	<-f.told
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	return s.Part()
}

// asRead is a sample as a reader returns it, with its frames.
type asRead struct {
	Sample tachyon.Sample
	Frames []tachyon.Frame
}

// readAll returns the samples of all files. It also returns the sums over all files of the time of
// each goroutine in each stack, state and label set.
func readAll(t *rapid.T, paths []string) (list []asRead, sums map[string]time.Duration) {
	sums = map[string]time.Duration{}
	for _, path := range paths {
		r, err := reader.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		for s, err := range r.Samples() {
			if err != nil {
				t.Fatal(err)
			}
			a := asRead{Sample: *s}
			a.Sample.Stack = nil
			for _, id := range s.Stack {
				a.Frames = append(a.Frames, r.Frames()[id])
			}
			list = append(list, a)
		}
		p, err := profile.FromTachyon(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range p.Records {
			key := fmt.Sprint(rec.Goroutine, rec.State, rec.Labels)
			for _, id := range rec.Stack {
				key += " " + p.Frames[id].Func
			}
			sums[key] += rec.Wall
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return list, sums
}

// TestPartsAreTheWhole writes the same session once with and once without rotation. The samples of
// all files, and the time of each stack, must be the same as those of the single file.
func TestPartsAreTheWhole(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		var ticks []tick
		last, ended := map[uint64]time.Duration{}, map[uint64]bool{}
		before := tick{}
		for range rapid.IntRange(1, 60).Draw(t, "ticks") {
			before = aTick(t, &before, last, ended)
			ticks = append(ticks, before)
		}
		o := writer.Options{Start: uint64(sessionStart.UnixMicro()), Interval: 1000, Uncompressed: true}

		whole := filepath.Join(dir, "whole.tach")
		w, err := writer.Create(whole, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := addGoroutines(w, sampleAll(t, oneFile{Writer: w}, ticks)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}

		m, err := rotate.Create(filepath.Join(dir, "x.tach"), rotate.Options{
			Every: time.Duration(rapid.IntRange(1, 2000).Draw(t, "every")) * time.Millisecond, Keep: 1000, KeepBytes: 1 << 40,
			Writer: o,
			Begin:  func(*writer.Writer, uint64) error { return nil },
			Failed: func(err error) { panic(err) },
		})
		if err != nil {
			t.Fatal(err)
		}
		part := sampleAll(t, rotating{m}, ticks)
		if err := m.Close(func(w *writer.Writer) error { return addGoroutines(w, part) }); err != nil {
			t.Fatal(err)
		}

		want, wantSums := readAll(t, []string{whole})
		got, sums := readAll(t, m.Files())
		// Files group repeated stacks of a goroutine; the samples of each goroutine keep their order.
		if d := cmp.Diff(byGoroutine(want, ticks), byGoroutine(got, ticks)); d != "" {
			t.Fatalf("samples of %d files (-want +got):\n%s", len(m.Files()), d)
		}
		if d := cmp.Diff(wantSums, sums); d != "" {
			t.Errorf("time in stacks of %d files (-want +got):\n%s", len(m.Files()), d)
		}
	})
}

// byGoroutine groups samples by goroutine. It leaves out samples that the source did not deliver:
// the recorder can write one more sample before a goroutine's first one.
func byGoroutine(list []asRead, ticks []tick) map[uint64][]asRead {
	told := map[[2]uint64]bool{}
	for _, k := range ticks {
		for _, s := range k.samples {
			told[[2]uint64{s.Goroutine, uint64(sessionStart.Add(s.Time).UnixMicro())}] = true
		}
	}
	m := map[uint64][]asRead{}
	for _, a := range list {
		if told[[2]uint64{a.Sample.Thread, a.Sample.Time}] {
			m[a.Sample.Thread] = append(m[a.Sample.Thread], a)
		}
	}
	return m
}
