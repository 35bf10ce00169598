package writer

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
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

// contents returns the samples of each thread, in order.
func contents(t *rapid.T, r *reader.Reader) map[threadID][]told {
	got := map[threadID][]told{}
	for s, err := range r.Samples() {
		testenv.OK(t, err)
		var stack []tachyon.Frame
		for _, id := range s.Stack {
			stack = append(stack, r.Frames()[id])
		}
		k := threadID{s.Thread, s.Interpreter}
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
	w, err := Create(path, o)
	testenv.OK(t, err)
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
		testenv.OK(t, err)
		last[k] = stack
		want[k] = append(want[k], told{s.Time, s.Status, asStored(stack, o.Layout)})
	}
	meta := rapid.IntRange(0, 2).Draw(t, "metadata")
	for i := range meta {
		testenv.OK(t, w.AddMetadata("test", i))
	}
	testenv.OK(t, w.Close())
	r := testenv.Must(reader.Open(path))
	defer r.Close()
	if h := r.Header(); h.Start != o.Start || h.Interval != o.Interval || h.Layout != o.Layout || int(h.Threads) != len(want) {
		t.Fatalf("header %+v of options %+v", h, o)
	}
	if present, err := r.VerifyChecksum(); present != (meta > 0) || err != nil {
		t.Fatalf("checksum: %t, %v", present, err)
	}
	if got := r.MetadataObjects(); meta > 0 && len(got) != meta+1 {
		t.Fatalf("%d metadata objects, want %d and a checksum", len(got), meta)
	}
	if got := contents(t, r); !reflect.DeepEqual(got, want) { // much faster than cmp
		t.Fatalf("written (-), read (+):\n%s", cmp.Diff(want, got))
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
