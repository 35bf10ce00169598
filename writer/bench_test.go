package writer

import (
	"fmt"
	"io"
	"runtime"
	"testing"
)

// A void takes a file and keeps its size alone.
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

// A tape is a workload made ready to be played into a writer again and again.
type tape struct {
	o       Options
	frames  []Frame
	samples []Sample  // with ids as by intern
	stacks  [][]Frame // of samples
	span    uint64    // µs from one playing to the next
}

func newTape(t testing.TB, name string, l Layout) *tape {
	wl := readWorkload(t, name)
	p := &tape{o: wl.options(l, false), frames: wl.frames()}
	byFrames := make([][]Frame, len(wl.Stacks))
	for i, s := range wl.Stacks {
		for _, f := range s {
			byFrames[i] = append(byFrames[i], p.frames[f])
		}
	}
	for i := range wl.Samples {
		s := wl.sample(i)
		s.Stack = wl.Stacks[wl.Samples[i][4]]
		p.samples = append(p.samples, s)
		p.stacks = append(p.stacks, byFrames[wl.Samples[i][4]])
		p.span = max(p.span, s.Time-wl.Start)
	}
	return p
}

// intern gives the tape's frames the ids that its samples have.
func (p *tape) intern(w *Writer) {
	for _, f := range p.frames {
		w.Intern(f)
	}
}

func (p *tape) play(w *Writer, asFrames bool, n int) error {
	var s Sample
	for i := range n {
		k := i % len(p.samples)
		s = p.samples[k]
		s.Time += uint64(i/len(p.samples)) * p.span
		var err error
		if asFrames {
			err = w.WriteFrames(&s, p.stacks[k])
		} else {
			err = w.Write(&s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func rate(b *testing.B) {
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "samples/s")
}

// How fast samples of a CPU-bound service are written, with frames as strings
// and as ids. A playing of the workload goes before the clock starts, so that
// what is measured is the steady state. The size is that of a file of one playing.
func BenchmarkWrite(b *testing.B) {
	for _, c := range []struct {
		name     string
		asFrames bool
		edit     func(*Options)
	}{
		{"ids", false, func(*Options) {}},
		{"strings", true, func(*Options) {}},
		{"ids-compact", false, func(o *Options) { o.Compact = true }},
		{"ids-uncompressed", false, func(o *Options) { o.Uncompressed = true }},
		{"strings-uncompressed", true, func(o *Options) { o.Uncompressed = true }},
		{"ids-document", false, func(o *Options) { o.Layout = Document }},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := newTape(b, "big", CPython315)
			c.edit(&p.o)
			var size int64
			{
				v := new(void)
				w, err := New(v, p.o)
				if err != nil {
					b.Fatal(err)
				}
				if err := p.play(w, true, len(p.samples)); err != nil {
					b.Fatal(err)
				}
				if err := w.Close(); err != nil {
					b.Fatal(err)
				}
				size = v.size
			}
			w, err := New(new(void), p.o)
			if err != nil {
				b.Fatal(err)
			}
			p.intern(w)
			if err := p.play(w, c.asFrames, len(p.samples)); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			if err := p.play(w, c.asFrames, b.N); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			rate(b)
			b.ReportMetric(float64(size)/float64(len(p.samples)), "bytes/sample")
			if err := w.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// A crowd plays the stacks of one thread of a workload in n threads, each a bit
// ahead of the one before, a tick after the other: the records are the same for
// any n but for the thread's id.
type crowd struct {
	n      int
	tape   *tape
	stacks [][]uint32
	frames [][]Frame
	i      int
}

func newCrowd(p *tape, n int) *crowd {
	c := &crowd{n: n, tape: p}
	for i, s := range p.samples {
		if s.Thread == p.samples[0].Thread {
			c.stacks = append(c.stacks, s.Stack)
			c.frames = append(c.frames, p.stacks[i])
		}
	}
	return c
}

func (c *crowd) play(w *Writer, asFrames bool, samples int) error {
	var s Sample
	for range samples {
		tick, thread := c.i/c.n, c.i%c.n
		c.i++
		k := (tick + thread%5*len(c.stacks)/5) % len(c.stacks)
		s = Sample{Thread: uint64(1000 + thread), Status: 3, Time: c.tape.o.Start + uint64(tick)*1000, Stack: c.stacks[k]}
		var err error
		if asFrames {
			err = w.WriteFrames(&s, c.frames[k])
		} else {
			err = w.Write(&s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// What many threads cost: the time a sample should not depend on their number.
func BenchmarkThreads(b *testing.B) {
	p := newTape(b, "big", CPython315)
	for _, c := range []struct {
		name     string
		asFrames bool
	}{{"ids", false}, {"strings", true}} {
		for _, n := range []int{5, 1000, 100_000} {
			b.Run(fmt.Sprintf("%s/threads=%d", c.name, n), func(b *testing.B) {
				w, err := New(new(void), p.o)
				if err != nil {
					b.Fatal(err)
				}
				p.intern(w)
				crowd := newCrowd(p, n)
				if err := crowd.play(w, c.asFrames, max(20*n, len(p.samples))); err != nil {
					b.Fatal(err)
				}
				runtime.GC() // what the setting up left is not the samples' to pay
				b.ReportAllocs()
				b.ResetTimer()
				if err := crowd.play(w, c.asFrames, b.N); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				rate(b)
				if err := w.Close(); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}
