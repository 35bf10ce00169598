package reader_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

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
				r := openBytes(t, b.bytes())
				got, err := collect(r)
				if d := cmp.Diff(want, got); d != "" || err != nil {
					t.Errorf("samples differ (-want +got):\n%s%v", d, err)
				}
				testenv.NoDiff(t, "frames", cmp.Diff([]tachyon.Frame{{File: "a.go", Func: "f", Line: -1}, {File: "a.go", Func: "g", Line: 1 << 30}}, r.Frames()))
				if r.Header().BigEndian != (order == binary.BigEndian) {
					t.Error("wrong byte order in the header")
				}
			})
		}
	}
}

// TestLongRecords reads records that are many times longer than the decoder's buffer.
func TestLongRecords(t *testing.T) {
	const n = 100_000
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
		i, time := 0, uint64(1005)
		for s, err := range openBytes(t, b.bytes()).Samples() {
			testenv.OK(t, err)
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
	want := &tachyon.Metadata{
		Session:    &tachyon.Session{Program: "app", PID: 7, VCS: map[string]string{"vcs": "git"}},
		Goroutines: []tachyon.Goroutine{{ID: 1}, {ID: 9, Parent: 1, CreatedBy: "main.main", Labels: []tachyon.LabelSpan{{From: 3, Labels: map[string]string{"a": "b"}}}}},
		PCs:        &tachyon.LeafPCs{TextStart: 4096, TextSize: 100, PCs: []tachyon.LeafPC{{Addr: 4100, CPU: 1, Wall: 2}}},
	}
	file := written(t, writer.Options{}, func(w *writer.Writer) error {
		err := w.WriteFrames(&tachyon.Sample{Thread: 9}, []tachyon.Frame{{File: `{"gotach":"session","program":"not me"}`, Func: "f"}})
		for _, add := range []struct {
			kind string
			v    any
		}{{tachyon.KindSession, want.Session}, {tachyon.KindGoroutines, want.Goroutines[:1]}, {"future", map[string]int{"x": 1}},
			{tachyon.KindGoroutines, want.Goroutines[1:]}, {tachyon.KindPCs, want.PCs}} {
			err = errors.Join(err, w.AddMetadata(add.kind, add.v))
		}
		return err
	})
	r := openBytes(t, file)
	got := testenv.Must(r.Metadata())
	if got.Checksum == nil {
		t.Fatal("no checksum")
	}
	want.Checksum = got.Checksum
	testenv.NoDiff(t, "metadata", cmp.Diff(want, got))
	if list := r.MetadataObjects(); len(list) != 6 || list[2] != `{"gotach":"future","x":1}` {
		t.Errorf("objects %q", list)
	}

	file[70] ^= 1
	present, err := openBytes(t, file).VerifyChecksum()
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
		m, err := openBytes(t, b.bytes()).Metadata()
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
	if _, err := openBytes(t, b.bytes()).Metadata(); err == nil {
		t.Error("two sessions gave no error")
	}
}
