package writer

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/decode"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	testcmp "github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"
)

// A told is a sample with its frames instead of ids, as it was written or read.
type told struct {
	Time   uint64
	Status tachyon.Status
	Stack  []tachyon.Frame
}

// contents returns the samples of each thread, in order.
func contents(t *rapid.T, r *reader.Reader) map[reader.Thread][]told {
	got := map[reader.Thread][]told{}
	for s := range testenv.All(t, r.Samples()) {
		var stack []tachyon.Frame
		for _, id := range s.Stack {
			stack = append(stack, r.Frames()[id])
		}
		k := reader.Thread{ID: s.Thread, Interpreter: s.Interpreter}
		got[k] = append(got[k], told{s.Time, s.Status, stack})
	}
	return got
}

var (
	drawName = rapid.OneOf(
		rapid.SampledFrom([]string{"", "main.main", "main.go", "nul\x00", "bad\xff\xfe", "{\"gotach\":1}", "日本語", strings.Repeat("long", 100)}),
		rapid.String(), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 6), func(b []byte) string { return string(b) }))
	drawFrame = rapid.Custom(func(t *rapid.T) tachyon.Frame {
		f := tachyon.Frame{File: drawName.Draw(t, "file"), Func: drawName.Draw(t, "func"), Line: rapid.Int32().Draw(t, "line")}
		if rapid.Bool().Draw(t, "spanned") {
			f.Span = tachyon.Span{
				Lines: rapid.Int32().Draw(t, "lines"), Column: rapid.Int32Min(0).Draw(t, "column"),
				Columns: rapid.Int32().Draw(t, "columns"), Opcode: rapid.Int16Range(0, 255).Draw(t, "opcode"),
			}
		}
		return f
	})
)

// writeThenRead checks that the file has the written samples of every thread in order.
func writeThenRead(t *rapid.T) {
	dir := testenv.Must(os.MkdirTemp("", "tachyon"))
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "x.tach")
	o := Options{
		Layout:       rapid.SampledFrom([]tachyon.Layout{tachyon.Document, tachyon.CPython315}).Draw(t, "layout"),
		Uncompressed: rapid.Bool().Draw(t, "uncompressed"),
		Start:        rapid.Uint64Max(tachyon.MaxTime).Draw(t, "start"),
		Interval:     rapid.Uint64Max(tachyon.MaxTime).Draw(t, "interval"),
	}
	w := testenv.Must(Create(path, o))
	frames := rapid.SliceOfN(drawFrame, 1, 12).Draw(t, "frames")
	threads := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) reader.Thread {
		return reader.Thread{ID: rapid.Uint64().Draw(t, "thread"), Interpreter: rapid.Uint32Max(2).Draw(t, "interpreter")}
	}), 1, 5).Draw(t, "threads")
	last := map[reader.Thread][]tachyon.Frame{}
	want := map[reader.Thread][]told{}
	total := rapid.IntRange(0, 150).Draw(t, "samples")
	for range total {
		k := rapid.SampledFrom(threads).Draw(t, "whose")
		stack := drawStack(t, frames, last[k])
		s := tachyon.Sample{Thread: k.ID, Interpreter: k.Interpreter, Status: tachyon.Status(rapid.Byte().Draw(t, "status")),
			Time: o.Start + rapid.OneOf(rapid.Uint64(), rapid.Uint64Max(1000)).Draw(t, "time since start")}
		if rapid.Bool().Draw(t, "as ids") {
			for _, f := range stack {
				s.Stack = append(s.Stack, w.Intern(f))
			}
			testenv.OK(t, w.Write(&s))
		} else {
			testenv.OK(t, w.WriteFrames(&s, stack))
		}
		last[k] = stack
		want[k] = append(want[k], told{s.Time, s.Status, asStored(stack, o.Layout)})
	}
	meta := rapid.IntRange(0, 2).Draw(t, "metadata")
	for i := range meta {
		testenv.OK(t, w.AddMetadata("test", i))
	}
	testenv.OK(t, w.Close())
	r := testenv.Closes(t, testenv.Must(reader.Open(path)))
	h := r.Header()
	testenv.FailIf(t, h.Start != o.Start || h.Interval != o.Interval || h.Layout != o.Layout || int(h.Threads) != len(want), "header %+v of options %+v", h, o)
	testenv.Same(t, "a checksum", testenv.Must(r.VerifyChecksum()), meta > 0)
	if got := r.MetadataObjects(); meta > 0 && len(got) != meta+1 {
		t.Fatalf("%d metadata objects, want %d and a checksum", len(got), meta)
	}
	if got := contents(t, r); !reflect.DeepEqual(got, want) { // much faster than cmp
		t.Fatalf("written (-), read (+):\n%s", testcmp.Diff(want, got))
	}
}

// drawStack draws a stack that often shares frames with the previous one.
func drawStack(t *rapid.T, frames []tachyon.Frame, last []tachyon.Frame) []tachyon.Frame {
	switch rapid.IntRange(0, 3).Draw(t, "change") {
	case 0:
		return last
	case 1:
		pop := rapid.IntRange(0, len(last)).Draw(t, "pop")
		return append(rapid.SliceOfN(rapid.SampledFrom(frames), 0, 3).Draw(t, "push"), last[pop:]...)
	case 2:
		deep := rapid.IntRange(250, 300).Draw(t, "depth")
		var out []tachyon.Frame
		for i := range deep {
			out = append(out, frames[i%len(frames)])
		}
		return out
	}
	return rapid.SliceOfN(rapid.SampledFrom(frames), 0, 20).Draw(t, "stack")
}

// asStored returns a stack in the form in which a file stores it.
func asStored(stack []tachyon.Frame, l tachyon.Layout) []tachyon.Frame {
	var out []tachyon.Frame
	for _, f := range stack[:min(len(stack), tachyon.MaxDepth)] {
		f.File, f.Func = strings.ToValidUTF8(f.File, "\uFFFD"), strings.ToValidUTF8(f.Func, "\uFFFD")
		if l == tachyon.Document {
			f.Span = tachyon.Span{}
		}
		out = append(out, f)
	}
	return out
}

func TestWriteThenRead(t *testing.T) { rapid.Check(t, writeThenRead) }

func FuzzWriteThenRead(f *testing.F) { f.Fuzz(rapid.MakeFuzz(writeThenRead)) }

var folders = map[tachyon.Layout]string{tachyon.CPython315: "cpython-3.15", tachyon.Document: "document-v2"}

func goldenPath(l tachyon.Layout, name string) string {
	return filepath.Join("../testdata/tachyon", folders[l], name+".zstd.bin")
}

// unpack returns the bytes that a compressed file would have without compression.
func unpack(t testing.TB, b []byte) []byte {
	t.Helper()
	h := testenv.Must(decode.Header(b))
	if h.Compression == tachyon.CompressionNone {
		return b
	}
	zr := testenv.Must(zstd.NewReader(nil))
	defer zr.Close()
	region := testenv.Must(zr.DecodeAll(b[tachyon.HeaderSize:h.StringOffset], nil))
	rest := b[h.StringOffset : len(b)-tachyon.FooterSize]
	foot := decode.Footer(b[len(b)-tachyon.FooterSize:], decode.Order(&h))
	by := tachyon.HeaderSize + uint64(len(region)) - h.StringOffset // may wrap
	h.Compression = tachyon.CompressionNone
	h.StringOffset, h.FrameOffset, foot.Size = h.StringOffset+by, h.FrameOffset+by, foot.Size+by
	hb, fb := wire.EncodeHeader(&h), wire.EncodeFooter(&foot)
	return bytes.Join([][]byte{hb[:], region, rest, fb[:]}, nil)
}

// From the samples of CPython's files, as ids and as frames, the writer makes the same bytes as CPython
// before compression, and about the same size after it. The file big fills several buffers. (The file
// rle is left out: the order in which CPython got its samples cannot be seen in it.)
func TestGoldens(t *testing.T) {
	testenv.Again(t)
	for layout, folder := range folders {
		for _, name := range []string{"big", "deep", "empty", "emptystack", "interp", "meta", "none", "tiny", "unicode"} {
			ways := []int{0, 3, 1, 2}[:testenv.Brief(2, 4)]
			if name == "big" { // it takes long: once in each layout, with -short in one
				if ways = ways[:1]; layout == tachyon.Document {
					ways = []int{3}[:testenv.Brief(0, 1)]
				}
			}
			if len(ways) == 0 {
				continue
			}
			packed := testenv.Must(os.ReadFile(goldenPath(layout, name)))
			want, p := unpack(t, packed), newTape(t, name, layout)
			for _, i := range ways {
				var f disk
				p.next, p.o.Uncompressed = 0, i&1 == 1
				w := testenv.Must(New(&f, p.o))
				p.play(t, w, i&2 == 2, len(p.samples))
				testenv.OK(t, w.Close())
				got := unpack(t, f.Bytes)
				testenv.FailIf(t, !bytes.Equal(got, want), "%s/%s, way %d: %d other bytes, want %d", folder, name, i, len(got), len(want))
				// CPython's zstd takes 5.14 bytes for a sample of big.
				n := len(f.Bytes)
				testenv.FailIf(t, !p.o.Uncompressed && (n*100 > len(packed)*108 || name == "big" && n*100 > 545*len(p.samples)), "%s: %d bytes compressed, CPython %d", name, n, len(packed))
			}
		}
	}
}

// Without a CPythonInfo, CPython's layout says that the profile is of wall-clock time.
func TestConfig(t *testing.T) {
	var f testenv.File
	w := testenv.Must(New(&f, Options{Layout: tachyon.CPython315}))
	testenv.Same(t, "mode", testenv.Finish(t, &f, w, reader.New).Header().Config, 1)
}

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
	r := testenv.Closes(t, testenv.Must(reader.Open(goldenPath(l, name))))
	h := r.Header()
	p := &tape{frames: r.Frames(), o: Options{Layout: h.Layout, Start: h.Start, Interval: h.Interval,
		CPython: &CPythonInfo{Version: h.Python, Config: h.Config, Stats: testenv.Must(r.StatisticsBlock())}}}
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
				w := testenv.Closes(b, testenv.Must(Create(filepath.Join(b.TempDir(), "x.tach"), p.o)))
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
		n := testing.AllocsPerRun(5, func() { p.play(t, w, asFrames, 20_000) })
		testenv.FailIf(t, n > 10, "%v allocations for 20,000 samples (as frames: %v)", n, asFrames)
		testenv.OK(t, w.Close())
	}
}
