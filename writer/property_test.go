package writer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gotach/profiler/tachyon"
	"pgregory.net/rapid"
)

// A told is a sample with its frames instead of ids, as it was written or read.
type told struct {
	Time   uint64
	Status tachyon.Status
	Stack  []tachyon.Frame
}

type threadID struct {
	Thread uint64
	Interp uint32
}

// byThread adds each thread's samples to into, in order.
func (d *decoded) byThread(into map[threadID][]told) {
	for _, s := range d.samples {
		var stack []tachyon.Frame
		for _, id := range s.Stack {
			stack = append(stack, d.frames[id])
		}
		k := threadID{s.Thread, s.Interpreter}
		into[k] = append(into[k], told{s.Time, s.Status, stack})
	}
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

// writeThenDecode checks that the file has the written samples of every thread in order.
func writeThenDecode(t *rapid.T) {
	dir, err := os.MkdirTemp("", "tachyon")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "x.tach")
	o := Options{
		Layout:       rapid.SampledFrom([]tachyon.Layout{tachyon.Document, tachyon.CPython315}).Draw(t, "layout"),
		Uncompressed: rapid.Bool().Draw(t, "uncompressed"),
		Start:        rapid.Uint64().Draw(t, "start"),
		Interval:     rapid.Uint64().Draw(t, "interval"),
	}
	w, err := Create(path, o)
	if err != nil {
		t.Fatal(err)
	}
	frames := rapid.SliceOfN(drawFrame, 1, 12).Draw(t, "frames")
	threads := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) threadID {
		return threadID{rapid.Uint64().Draw(t, "thread"), rapid.Uint32Max(2).Draw(t, "interpreter")}
	}), 1, 5).Draw(t, "threads")
	last := map[threadID][]tachyon.Frame{}
	want := map[threadID][]told{}
	total := rapid.IntRange(0, 150).Draw(t, "samples")
	for range total {
		k := rapid.SampledFrom(threads).Draw(t, "whose")
		stack := drawStack(t, frames, last[k])
		s := tachyon.Sample{Thread: k.Thread, Interpreter: k.Interp, Status: tachyon.Status(rapid.Byte().Draw(t, "status")),
			Time: o.Start + rapid.OneOf(rapid.Uint64(), rapid.Uint64Max(1000)).Draw(t, "time since start")}
		if rapid.Bool().Draw(t, "as ids") {
			for _, f := range stack {
				s.Stack = append(s.Stack, w.Intern(f))
			}
			err = w.Write(&s)
		} else {
			err = w.WriteFrames(&s, stack)
		}
		if err != nil {
			t.Fatal(err)
		}
		last[k] = stack
		want[k] = append(want[k], told{s.Time, s.Status, asStored(stack, o.Layout)})
	}
	meta := rapid.IntRange(0, 2).Draw(t, "metadata")
	for i := range meta {
		if err := w.AddMetadata("test", i); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got := map[threadID][]told{}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d, err := tryDecode(t, b)
	if err != nil {
		t.Fatal(err)
	}
	if d.header.Start != o.Start || d.header.Interval != o.Interval || d.header.Layout != o.Layout {
		t.Fatalf("header %+v of options %+v", d.header, o)
	}
	if extra := len(d.strings) - d.used; meta > 0 && extra != meta+1 {
		t.Fatalf("%d strings that no frame uses, want %d", extra, meta+1)
	}
	d.byThread(got)
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("written (-), read (+):\n%s", d)
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

func TestWriteThenDecode(t *testing.T) { rapid.Check(t, writeThenDecode) }

func FuzzWriteThenDecode(f *testing.F) { f.Fuzz(rapid.MakeFuzz(writeThenDecode)) }
