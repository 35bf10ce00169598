package reader_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collect returns copies of all samples.
func collect(t interface{ Fatal(...any) }, r *reader.Reader) []tachyon.Sample {
	var list []tachyon.Sample
	for s, err := range r.Samples() {
		if err != nil {
			t.Fatal(err)
		}
		c := *s
		c.Stack = append([]uint32{}, s.Stack...)
		list = append(list, c)
	}
	return list
}

// TestRoundTrip writes random samples and reads them back. The samples of each thread are
// in the same order, and the tables are the same.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := writer.Options{
			Layout:       rapid.SampledFrom([]tachyon.Layout{tachyon.Document, tachyon.CPython315}).Draw(t, "layout"),
			Uncompressed: rapid.Bool().Draw(t, "uncompressed"),
			Start:        rapid.Uint64().Draw(t, "start"),
			Interval:     rapid.Uint64().Draw(t, "interval"),
		}
		f := &testenv.File{}
		w, err := writer.New(f, o)
		if err != nil {
			t.Fatal(err)
		}
		names := rapid.SliceOfN(rapid.String(), 1, 10).Draw(t, "names")
		var ids []uint32
		for range rapid.IntRange(1, 300).Draw(t, "frames") {
			ids = append(ids, w.Intern(tachyon.Frame{
				File: rapid.SampledFrom(names).Draw(t, "file"),
				Func: rapid.SampledFrom(names).Draw(t, "func"),
				Line: rapid.Int32().Draw(t, "line"),
			}))
		}
		stack := rapid.SliceOfN(rapid.SampledFrom(ids), 0, 40)
		type key struct {
			thread      uint64
			interpreter uint32
		}
		keys := []key{{1, 0}, {1, 1}, {2, 0}, {1 << 63, 1<<32 - 1}, {0, 0}}
		want := map[key][]tachyon.Sample{}
		latest := map[key][]uint32{}
		for range rapid.IntRange(0, 200).Draw(t, "samples") {
			k := rapid.SampledFrom(keys).Draw(t, "thread")
			s := tachyon.Sample{Thread: k.thread, Interpreter: k.interpreter,
				Status: tachyon.Status(rapid.Byte().Draw(t, "status")), Time: rapid.Uint64().Draw(t, "time")}
			switch last := latest[k]; rapid.IntRange(0, 3).Draw(t, "change") {
			case 0:
				s.Stack = stack.Draw(t, "stack")
			case 1: // the same stack
				s.Stack = last
			case 2: // one call
				s.Stack = append(stack.Draw(t, "push"), last...)
			case 3: // returns and calls
				s.Stack = append(stack.Draw(t, "push"), last[min(len(last), rapid.IntRange(0, 9).Draw(t, "pop")):]...)
			}
			if err := w.Write(&s); err != nil {
				t.Fatal(err)
			}
			s.Stack = append([]uint32{}, s.Stack[:min(len(s.Stack), tachyon.MaxDepth)]...)
			latest[k] = s.Stack
			want[k] = append(want[k], s)
		}
		// A file with metadata has a checksum.
		if err := w.AddMetadata(tachyon.KindSession, tachyon.Session{}); err != nil {
			t.Fatal(err)
		}
		r := testenv.Finish(t, f, w, reader.New)
		defer r.Close()
		got := map[key][]tachyon.Sample{}
		for _, s := range collect(t, r) {
			k := key{s.Thread, s.Interpreter}
			got[k] = append(got[k], s)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("samples differ (-written +read):\n%s", d)
		}
		if h := r.Header(); h.Layout != o.Layout || h.Start != o.Start || h.Interval != o.Interval || int(h.Threads) != len(want) {
			t.Fatalf("header %+v", h)
		}
		if present, err := r.VerifyChecksum(); !present || err != nil {
			t.Fatalf("VerifyChecksum: %t, %v", present, err)
		}
	})
}

// TestConversion copies CPython's own files through a writer. The copies are equal to the
// originals.
func TestConversion(t *testing.T) {
	for _, path := range goldens(t, "cpython-3.15") {
		if strings.Contains(path, "zstd") {
			continue
		}
		in, err := reader.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		h := in.Header()
		f := &testenv.File{}
		w, err := writer.New(f, writer.Options{Layout: h.Layout, Uncompressed: true, Start: h.Start, Interval: h.Interval,
			CPython: &writer.CPythonInfo{Version: h.Python, Config: h.Config, Stats: in.Statistics()}})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range in.Frames() {
			w.Intern(f)
		}
		for s, err := range in.Samples() {
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Write(s); err != nil {
				t.Fatal(err)
			}
		}
		out := testenv.Finish(t, f, w, reader.New)
		ho := out.Header()
		ho.StringOffset, ho.FrameOffset = h.StringOffset, h.FrameOffset
		if d := cmp.Diff(h, ho); d != "" {
			t.Errorf("%s: header differs:\n%s", path, d)
		}
		if d := cmp.Diff(in.Statistics(), out.Statistics()); d != "" {
			t.Errorf("%s: statistics differ:\n%s", path, d)
		}
		if d := cmp.Diff(in.Frames(), out.Frames()); d != "" {
			t.Errorf("%s: frames differ:\n%s", path, d)
		}
	}
}

// TestByteOrder reads the same file in both layouts and both byte orders.
func TestByteOrder(t *testing.T) {
	want := []tachyon.Sample{
		{Thread: 1 << 40, Interpreter: 7, Status: 3, Time: 1010, Stack: []uint32{1, 0}},
		{Thread: 1 << 40, Interpreter: 7, Status: 2, Time: 1020, Stack: []uint32{1, 0}},
		{Thread: 1 << 40, Interpreter: 7, Status: 1, Time: 1320, Stack: []uint32{0}},
		{Thread: 1 << 40, Interpreter: 7, Status: 1, Time: 1319, Stack: []uint32{1, 1, 0}},
	}
	for _, layout := range []tachyon.Layout{tachyon.Document, tachyon.CPython315} {
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			b := builder{layout: layout, order: order, samples: 4, threads: 1, strings: []string{"f", "a.go", "g"}, frames: [][3]int64{{1, 0, -1}, {1, 2, 1 << 31 >> 1}}}
			b.record(1<<40, 7, wire.Full, 10, 3, 2, 1, 0)
			b.record(1<<40, 7, wire.Repeat, 1, 10, 2)
			b.record(1<<40, 7, wire.PopPush, 300, 1, 1, 0)
			b.record(1<<40, 7, wire.Suffix, 1<<64-1, 1, 1, 2, 1, 1)
			t.Run(fmt.Sprint(layout, order), func(t *testing.T) {
				r, err := reader.New(bytes.NewReader(b.bytes()))
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(want, collect(t, r)); d != "" {
					t.Errorf("samples differ (-want +got):\n%s", d)
				}
				if d := cmp.Diff([]tachyon.Frame{{File: "a.go", Func: "f", Line: -1}, {File: "a.go", Func: "g", Line: 1 << 30}}, r.Frames()); d != "" {
					t.Errorf("frames differ (-want +got):\n%s", d)
				}
				if r.Header().BigEndian != (order == binary.BigEndian) {
					t.Error("wrong byte order in the header")
				}
			})
		}
	}
}

// TestLongRecords reads records that are many times longer than the decoder's buffer.
func TestLongRecords(t *testing.T) {
	const n = 300_000
	b := builder{samples: n + 1, threads: 1, strings: []string{""}}
	for i := range 20_000 {
		b.frames = append(b.frames, [3]int64{0, 0, int64(i)})
	}
	stack := []uint64{5, 0, n} // delta, status, depth
	for i := range n {
		stack = append(stack, uint64(i%len(b.frames)))
	}
	b.record(1, 0, wire.Full, stack...)
	repeat := []uint64{n}
	for i := range n {
		repeat = append(repeat, uint64(i*i), uint64(i&0x7f))
	}
	b.record(1, 0, wire.Repeat, repeat...)
	for _, compressed := range []bool{false, true} {
		if compressed {
			b.compress(t)
		}
		r, err := reader.New(bytes.NewReader(b.bytes()))
		if err != nil {
			t.Fatal(err)
		}
		i, time := 0, uint64(1005)
		for s, err := range r.Samples() {
			if err != nil {
				t.Fatal(err)
			}
			if i > 0 {
				time += uint64((i - 1) * (i - 1))
				if s.Status != tachyon.Status((i-1)&0x7f) {
					t.Fatalf("sample %d: status %d", i, s.Status)
				}
			}
			if s.Time != time || len(s.Stack) != n || s.Stack[n-1] != (n-1)%20_000 || s.Stack[40_001] != 1 {
				t.Fatalf("sample %d: time %d, %d frames; want %d", i, s.Time, len(s.Stack), time)
			}
			i++
		}
		if i != n+1 {
			t.Errorf("%d samples", i)
		}
	}
}

// TestMetadata reads only gotach's objects from the strings that no frame uses.
func TestMetadata(t *testing.T) {
	f := &testenv.File{}
	w, err := writer.New(f, writer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteFrames(&tachyon.Sample{Thread: 9}, []tachyon.Frame{{File: `{"gotach":"session","program":"not me"}`, Func: "f"}}); err != nil {
		t.Fatal(err)
	}
	want := &tachyon.Metadata{
		Session:    &tachyon.Session{Program: "app", PID: 7, VCS: map[string]string{"vcs": "git"}},
		Goroutines: []tachyon.Goroutine{{ID: 1}, {ID: 9, Parent: 1, CreatedBy: "main.main", Labels: []tachyon.LabelSpan{{From: 3, Labels: map[string]string{"a": "b"}}}}},
		PCs:        &tachyon.LeafPCs{TextStart: 4096, TextSize: 100, PCs: []tachyon.LeafPC{{Addr: 4100, CPU: 1, Wall: 2}}},
	}
	for _, add := range []struct {
		kind string
		v    any
	}{{tachyon.KindSession, want.Session}, {tachyon.KindGoroutines, want.Goroutines[:1]}, {"future", map[string]int{"x": 1}},
		{tachyon.KindGoroutines, want.Goroutines[1:]}, {tachyon.KindPCs, want.PCs}} {
		if err := w.AddMetadata(add.kind, add.v); err != nil {
			t.Fatal(err)
		}
	}
	r := testenv.Finish(t, f, w, reader.New)
	got, err := r.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	if got.Checksum == nil {
		t.Fatal("no checksum")
	}
	want.Checksum = got.Checksum
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("metadata differs (-want +got):\n%s", d)
	}
	if list := r.MetadataObjects(); len(list) != 6 || list[2] != `{"gotach":"future","x":1}` {
		t.Errorf("objects %q", list)
	}

	f.Bytes[70] ^= 1
	r, err = reader.New(bytes.NewReader(f.Bytes))
	if err != nil {
		t.Fatal(err)
	}
	present, err := r.VerifyChecksum()
	if !present || !errors.Is(err, reader.ErrChecksum) {
		t.Errorf("VerifyChecksum of a changed file: %t, %v", present, err)
	}
}

func TestMetadataForeignOrBroken(t *testing.T) {
	for _, c := range []struct {
		text string
		want string // a part of the error
	}{
		{"", ""}, {"main.go", ""}, {"{", ""}, {`{"a":1,"gotach":"session"}`, ""}, {`{"gotach":1}`, ""}, {`["gotach"]`, ""}, {`{"gotach"`, ""},
		{`{"gotach":"later","x":[1]}`, ""},
		{`{"gotach":"session","pid":"x"}`, `metadata of kind "session"`},
		{`{"gotach":"goroutines","goroutines":[`, `metadata of kind "goroutines"`},
		{`{"gotach":"later"`, `metadata of kind "later": not a JSON object`},
	} {
		b := builder{strings: []string{c.text}}
		r, err := reader.New(bytes.NewReader(b.bytes()))
		if err != nil {
			t.Fatal(err)
		}
		m, err := r.Metadata()
		if c.want == "" {
			if err != nil || m.Session != nil {
				t.Errorf("%q: %+v, %v", c.text, m, err)
			}
			continue
		}
		var format *reader.FormatError
		if !errors.As(err, &format) || format.Offset != 64 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want %q at 64", c.text, err, c.want)
		}
	}
	b := builder{strings: []string{`{"gotach":"session"}`, `{"gotach":"session"}`}}
	r, err := reader.New(bytes.NewReader(b.bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Metadata(); err == nil {
		t.Error("two sessions gave no error")
	}
}
