package writer

import (
	"cmp"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// A void is a file that discards its content and has only an offset and a size.
type void struct{ off, size int64 }

func (v *void) Write(p []byte) (int, error) {
	v.off += int64(len(p))
	v.size = max(v.size, v.off)
	return len(p), nil
}

func (v *void) Seek(off int64, whence int) (int64, error) {
	v.off = off
	return off, nil
}

// A tape plays the samples of a golden file to a writer, again and again, in batches, like a
// sampler. It measures the writer's time.
type tape struct {
	o       Options
	frames  []tachyon.Frame
	samples []tachyon.Sample // with the ids that a new writer gives the frames
	span    uint64           // µs by which each repetition is later than the one before
	next    int              // number of the next sample
	took    time.Duration
}

func newTape(t testing.TB, name string, l tachyon.Layout) *tape {
	r := testenv.Must(reader.Open(goldenPath(l, name)))
	defer r.Close()
	h := r.Header()
	p := &tape{frames: r.Frames(), o: Options{Layout: h.Layout, Start: h.Start, Interval: h.Interval,
		CPython: &CPythonInfo{Version: h.Python, Config: h.Config, Stats: r.Statistics()}}}
	for s := range testenv.All(t, r.Samples()) {
		sample := *s
		sample.Stack = slices.Clone(s.Stack)
		p.samples = append(p.samples, sample)
		p.span = max(p.span, s.Time-p.o.Start)
	}
	if name == "big" {
		// It has a thread's repeats where they end. They were written tick by tick.
		slices.SortStableFunc(p.samples, func(a, b tachyon.Sample) int {
			return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Thread, b.Thread))
		})
	}
	return p
}

// play writes the next n samples. With asFrames it passes stacks of frames, not of ids.
func (p *tape) play(t testing.TB, w *Writer, asFrames bool, n int) {
	if p.next == 0 && !asFrames {
		for _, f := range p.frames {
			w.Intern(f)
		}
	}
	var batch [64]tachyon.Sample
	var stacks [64][tachyon.MaxDepth]tachyon.Frame
	for n > 0 {
		m := min(n, len(batch))
		for i := range batch[:m] {
			s := p.samples[p.next%len(p.samples)]
			s.Time += uint64(p.next/len(p.samples)) * p.span
			if asFrames {
				for k, id := range s.Stack {
					stacks[i][k] = p.frames[id]
				}
			}
			batch[i] = s
			p.next++
		}
		n -= m
		begin, err := time.Now(), error(nil)
		if !asFrames {
			_, err = w.WriteBatch(batch[:m])
		}
		for i := 0; asFrames && i < m && err == nil; i++ {
			err = w.WriteFrames(&batch[i], stacks[i][:len(batch[i].Stack)])
		}
		p.took += time.Since(begin)
		testenv.OK(t, err)
	}
}

// BenchmarkWrite measures the time to write samples of a CPU-bound service. The clock starts when the samples have been written once, so it measures
// the steady state. The size is that of a file with the samples once.
func BenchmarkWrite(b *testing.B) {
	for _, c := range []struct {
		name string
		edit func(*Options)
	}{
		{"ids", func(*Options) {}},
		{"ids-document", func(o *Options) { o.Layout = tachyon.Document }},
		{"ids-uncompressed", func(o *Options) { o.Uncompressed = true }},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := newTape(b, "big", tachyon.CPython315)
			c.edit(&p.o)
			for _, n := range []int{0, b.N} {
				f := new(void)
				w := testenv.Must(New(f, p.o))
				p.next = 0
				p.play(b, w, false, len(p.samples))
				runtime.GC() // collect the garbage of the set-up before the clock starts
				p.took = 0
				b.ReportAllocs()
				b.ResetTimer()
				p.play(b, w, false, n)
				b.StopTimer()
				testenv.OK(b, w.Close())
				if n == 0 {
					defer b.ReportMetric(float64(f.size)/float64(len(p.samples)), "bytes/sample")
				}
			}
			b.ReportMetric(float64(p.took.Nanoseconds())/float64(b.N), "ns/op")
			b.ReportMetric(float64(b.N)/p.took.Seconds(), "samples/s")
		})
	}
}

// BenchmarkJournalCost measures how much the journal reduces the writer's throughput. It
// writes files with and without a journal in turns and compares the times of the fastest
// turns, so that other load on the machine has little effect.
func BenchmarkJournalCost(b *testing.B) {
	for b.Loop() {
		for _, name := range []string{"big", "interp"} {
			const n = 100_000
			var tapes [2]*tape
			var writers [2]*Writer
			took := [2]time.Duration{1 << 62, 1 << 62}
			for i := range tapes {
				p := newTape(b, name, tachyon.Document)
				p.o.NoJournal = i == 0
				w := testenv.Must(Create(filepath.Join(b.TempDir(), "x.tach"), p.o))
				defer w.Close()
				w.out.f = new(void) // the disk is not what is measured
				tapes[i], writers[i] = p, w
			}
			for range 60 {
				for i, p := range tapes {
					p.took = 0
					p.play(b, writers[i], false, n)
					took[i] = min(took[i], p.took)
				}
			}
			b.ReportMetric(float64(took[0])/n, name+"-ns/sample-without")
			b.ReportMetric(float64(took[1])/n, name+"-ns/sample-with")
			b.ReportMetric(100*(float64(took[1])/float64(took[0])-1), name+"-%")
		}
	}
}

// A sample of a known thread with known frames needs no allocation.
func TestNoAllocs(t *testing.T) {
	for _, asFrames := range []bool{false, true} {
		p := newTape(t, "interp", tachyon.Document)
		w := testenv.Must(New(new(void), p.o))
		p.play(t, w, asFrames, 50_000)
		if n := testing.AllocsPerRun(5, func() { p.play(t, w, asFrames, 20_000) }); n > 10 {
			t.Errorf("%v allocations for 20,000 samples (as frames: %v)", n, asFrames)
		}
		testenv.OK(t, w.Close())
	}
}
