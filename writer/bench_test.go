package writer

import (
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"testing"
	"time"

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
	if whence != io.SeekStart {
		return 0, fmt.Errorf("whence %d", whence)
	}
	v.off = off
	return off, nil
}

// A tape is a prepared workload that can be written to a writer many times.
type tape struct {
	o       Options
	frames  []tachyon.Frame
	samples []tachyon.Sample // with the ids that intern gives
	span    uint64           // µs by which each repetition is later than the one before
}

func newTape(t testing.TB, name string, l tachyon.Layout) *tape {
	wl := readWorkload(t, name)
	p := &tape{o: wl.options(l, false), frames: wl.frames()}
	for i := range wl.Samples {
		s := wl.sample(i)
		s.Stack = wl.Stacks[wl.Samples[i][4]]
		p.samples = append(p.samples, s)
		p.span = max(p.span, s.Time-wl.Start)
	}
	return p
}

// intern interns the tape's frames, so that they get the ids in its samples.
func (p *tape) intern(w *Writer) {
	for _, f := range p.frames {
		w.Intern(f)
	}
}

// at returns the ith sample of the endlessly repeated tape.
func (p *tape) at(i int) tachyon.Sample {
	s := p.samples[i%len(p.samples)]
	s.Time += uint64(i/len(p.samples)) * p.span
	return s
}

// A player passes samples to a writer in batches, like a sampler, and measures the writer's
// time.
type player struct {
	w        *Writer
	frames   []tachyon.Frame
	asFrames bool
	took     time.Duration

	batch  [64]tachyon.Sample
	ids    [64 * tachyon.MaxDepth]uint32
	stacks [64 * tachyon.MaxDepth]tachyon.Frame
}

// play writes n samples of a source, from the sample first on.
func (p *player) play(source func(int) tachyon.Sample, first, n int) error {
	for n > 0 {
		m := min(n, len(p.batch))
		used := 0
		for i := range p.batch[:m] {
			s := source(first + i)
			ids := p.ids[used : used+copy(p.ids[used:], s.Stack)]
			if p.asFrames {
				for k, id := range ids {
					p.stacks[used+k] = p.frames[id]
				}
			}
			used += len(ids)
			s.Stack = ids
			p.batch[i] = s
		}
		begin := time.Now()
		if err := p.write(m); err != nil {
			return err
		}
		p.took += time.Since(begin)
		first, n = first+m, n-m
	}
	return nil
}

// write writes the first n samples of the batch.
func (p *player) write(n int) error {
	if !p.asFrames {
		_, err := p.w.WriteBatch(p.batch[:n])
		return err
	}
	used := 0
	for i := range p.batch[:n] {
		s := &p.batch[i]
		if err := p.w.WriteFrames(s, p.stacks[used:used+len(s.Stack)]); err != nil {
			return err
		}
		used += len(s.Stack)
	}
	return nil
}

// bench measures the writer's time for the samples of a source. The clock starts after the
// first before samples, so that the steady state is measured. The time to make the samples
// is not included.
func bench(b *testing.B, p *tape, asFrames bool, source func(int) tachyon.Sample, before int) {
	w, err := New(new(void), p.o)
	if err != nil {
		b.Fatal(err)
	}
	benchWriter(b, w, p, asFrames, source, before)
}

func benchWriter(b *testing.B, w *Writer, p *tape, asFrames bool, source func(int) tachyon.Sample, before int) {
	p.intern(w)
	play := &player{w: w, frames: p.frames, asFrames: asFrames}
	if err := play.play(source, 0, before); err != nil {
		b.Fatal(err)
	}
	runtime.GC() // collect the garbage of the set-up before the clock starts
	play.took = 0
	b.ReportAllocs()
	b.ResetTimer()
	if err := play.play(source, before, b.N); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64(play.took.Nanoseconds())/float64(b.N), "ns/op")
	b.ReportMetric(float64(b.N)/play.took.Seconds(), "samples/s")
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkWrite measures the time to write samples of a CPU-bound service, with frames as
// strings and as ids. The size is that of a file with the workload once.
func BenchmarkWrite(b *testing.B) {
	for _, c := range []struct {
		name     string
		asFrames bool
		edit     func(*Options)
	}{
		{"ids", false, func(*Options) {}},
		{"strings", true, func(*Options) {}},
		{"ids-document", false, func(o *Options) { o.Layout = tachyon.Document }},
		{"ids-compact", false, func(o *Options) { o.Compact = true }},
		{"ids-uncompressed", false, func(o *Options) { o.Uncompressed = true }},
		{"strings-uncompressed", true, func(o *Options) { o.Uncompressed = true }},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := newTape(b, "big", tachyon.CPython315)
			c.edit(&p.o)
			bench(b, p, c.asFrames, p.at, len(p.samples))
			b.ReportMetric(p.size(b), "bytes/sample")
		})
	}
}

// BenchmarkJournal writes the same samples to files with and without a journal.
func BenchmarkJournal(b *testing.B) {
	for _, c := range []struct {
		workload string
		asFrames bool
	}{{"big", false}, {"big", true}, {"interp", false}} {
		for _, off := range []bool{true, false} {
			b.Run(fmt.Sprintf("%s/strings=%v/journal=%v", c.workload, c.asFrames, !off), func(b *testing.B) {
				p := newTape(b, c.workload, tachyon.Document)
				p.o.NoJournal = off
				w, err := Create(filepath.Join(b.TempDir(), "x.tach"), p.o)
				if err != nil {
					b.Fatal(err)
				}
				w.out.f = new(void) // the disk is not what is measured
				benchWriter(b, w, p, c.asFrames, p.at, len(p.samples))
			})
		}
	}
}

// size returns the bytes per sample of a file with the workload once.
func (p *tape) size(t testing.TB) float64 {
	f := new(void)
	w, err := New(f, p.o)
	if err != nil {
		t.Fatal(err)
	}
	play := &player{w: w, frames: p.frames, asFrames: true}
	if err := play.play(p.at, 0, len(p.samples)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return float64(f.size) / float64(len(p.samples))
}

// BenchmarkThreads measures the time of a sample with many threads. It should not depend on
// their number. All threads have the samples of one thread, each from a different sample
// on, so that the records are similar for any number of threads.
func BenchmarkThreads(b *testing.B) {
	p := newTape(b, "big", tachyon.CPython315)
	var one []tachyon.Sample
	for _, s := range p.samples {
		if s.Thread == p.samples[0].Thread {
			one = append(one, s)
		}
	}
	for _, c := range []struct {
		name     string
		asFrames bool
	}{{"ids", false}, {"strings", true}} {
		for _, n := range []int{5, 1000, 100_000} {
			b.Run(fmt.Sprintf("%s/threads=%d", c.name, n), func(b *testing.B) {
				bench(b, p, c.asFrames, func(i int) tachyon.Sample {
					tick, thread := i/n, i%n
					s := one[(tick+thread*7919)%len(one)]
					s.Thread = uint64(1000 + thread)
					s.Time = p.o.Start + uint64(tick)*1000
					return s
				}, max(10*n, len(p.samples)))
			})
		}
	}
}
