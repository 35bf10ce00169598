package reader_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
				testenv.NoDiff(t, "samples", cmp.Diff(want, testenv.Must(collect(r))))
				cut(t, b)
				b.compress()
				cut(t, b)
				testenv.NoDiff(t, "frames", cmp.Diff([]tachyon.Frame{{File: "a.go", Func: "f", Line: -1}, {File: "a.go", Func: "g", Line: 1 << 30}}, r.Frames()))
				testenv.Same(t, "big-endian", r.Header().BigEndian, order == binary.BigEndian)
			})
		}
	}
}

// cut removes bytes only from the sample region and keeps the tables.
func cut(t *testing.T, b builder) {
	whole := b.data
	for n := range whole {
		b.data = whole[:n]
		testenv.FailIf(t, testenv.Err(readBytes(b.bytes())) == nil, "no error with samples up to %d of %d", n, len(whole))
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
			b.compress()
		}
		i, time := 0, uint64(1005)
		for s := range testenv.All(t, openBytes(t, b.bytes()).Samples()) {
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
		testenv.Same(t, "samples", i, n+1)
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
	testenv.FailIf(t, got.Checksum == nil, "no checksum")
	want.Checksum = got.Checksum
	testenv.NoDiff(t, "metadata", cmp.Diff(want, got))
	testenv.Same(t, "objects", fmt.Sprint(len(r.MetadataObjects()), r.MetadataObjects()[2]), `6{"gotach":"future","x":1}`)

	file[70] ^= 1
	present, err := openBytes(t, file).VerifyChecksum()
	testenv.FailIf(t, !present || !errors.Is(err, reader.ErrChecksum), "VerifyChecksum of a changed file: %t, %v", present, err)
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
			testenv.FailIf(t, err != nil || m.Session != nil, "%q: %+v, %v", c.text, m, err)
			continue
		}
		isFormat(t, c.text, err, 64, 64)
		testenv.Fails(t, c.text, err, c.want)
	}
	b := builder{strings: []string{`{"gotach":"session"}`, `{"gotach":"session"}`}}
	testenv.Fails(t, "two sessions", testenv.Err(openBytes(t, b.bytes()).Metadata()), "more than one object of this kind")
}

// A verdict is the result of CPython 3.15's reader for a bad file.
type verdict struct {
	File    string
	Verdict string // ok or error
	Message string
	Samples int
}

// drain reads a file to its end and counts the samples.
func drain(r *reader.Reader, err error) (n int, _ error) {
	if err != nil {
		return 0, err
	}
	defer r.Close()
	for _, err := range r.Samples() {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func readBytes(b []byte) (n int, err error) { return drain(reader.New(bytes.NewReader(b))) }

// wants has a part of the error for each bad file, or "" for no error.
var wants = map[string]string{
	"size0.bin":                       "offset 0: the file is empty",
	"size63.bin":                      "offset 63: 63 bytes are too short for a header of 64",
	"size95.bin":                      "offset 95: 95 bytes are too short",
	"zeros96.bin":                     "offset 0: the file is unfinished",
	"magic_TACH_le_rest.bin":          "version 16777216",
	"version0.bin":                    "version 0",
	"compression2.bin":                "offset 56: unknown compression 2",
	"mode_field6.bin":                 "offset 60: unknown profiling mode 6",
	"frame_off_past_end.bin":          "offset 48: the frame table at 1000000",
	"frame_off_63.bin":                "offset 48: the frame table at 63",
	"str_off_u64max.bin":              "offset 40: the string table at 18446744073709551615",
	"frame_count_max.bin":             "offset 134: 4294967295 frames do not fit into 21 bytes",
	"sample_count_low.bin":            "offset 95: record with 2 repeats, but the header counts only 1 more of its 2 samples",
	"sample_count_2_40.bin":           "offset 100: the file has 3 samples, but the header counts 1099511627776",
	"one_byte_appended.bin":           "strings do not fit into",
	"frame_bad_string_idx.bin":        "frame 0 of 3: it refers to string 9, but the file has 3 strings",
	"frame_varint_u32_overflow.bin":   "frame 0 of 3: it refers to string",
	"unknown_encoding4.bin":           "offset 93: unknown encoding 4",
	"trailing_1.bin":                  "truncated record",
	"trailing_13_zero.bin":            "truncated record",
	"full_depth_huge.bin":             "a stack of more than",
	"full_cut.bin":                    "truncated record",
	"repeat_count_too_big.bin":        "truncated record",
	"repeat_cut_in_pair.bin":          "truncated record",
	"suffix_shared_gt_depth.bin":      "SUFFIX record shares 2 frames of a stack of 1",
	"delta_11_bytes.bin":              "longer than 64 bits",
	"delta_cut.bin":                   "truncated record",
	"zstd_empty_region.bin":           "offset 64: truncated zstd data",
	"zstd_garbage.bin":                "offset 64: not a zstd frame",
	"zstd_trailing_garbage.bin":       "offset 96: not a zstd frame",
	"zstd_skippable_first.bin":        "offset 64: not a zstd frame",
	"zstd_raw_flagged_none.bin":       "more threads than the 1 in the header",
	"zstd_bomb_1GiB_plus_unknown.bin": "of the decompressed samples: more than 65536 records without a sample",
	"zstd_256MiB_unknown.bin":         "of the decompressed samples: more than 65536 records without a sample",
	"stats_bad_size31.bin":            "31 bytes of statistics",
	"stats_nan.bin":                   "the statistics hold NaN",
	"stats_inf_error.bin":             "the statistics hold +Inf",
}

// better has the number of samples of each file that we read and CPython rejects, because
// of its limits or its version.
var better = map[string]int{
	"version2_seed_layout.bin": 0,
	"suffix_to_257.bin":        2,
	"poppush_to_257.bin":       2,
}

// TestBad checks that the Reader accepts and rejects the same bad files as CPython, from a
// mapping and from memory, and that errors have the offset.
func TestBad(t *testing.T) {
	manifest := testenv.Must(os.ReadFile(filepath.Join(testdata, "bad", "MANIFEST.jsonl")))
	for line := range bytes.Lines(manifest) {
		var v verdict
		testenv.OK(t, json.Unmarshal(line, &v))
		t.Run(v.File, func(t *testing.T) {
			path := filepath.Join(testdata, "bad", v.File)
			want, bad := wants[v.File]
			if samples, ok := better[v.File]; ok {
				v.Verdict, v.Samples = "ok", samples
			}
			// CPython treats an unknown compression as none.
			testenv.StopIf(t, (v.Verdict != "ok") != bad && v.File != "compression2.bin", "CPython says %s (%s), we expect %q", v.Verdict, v.Message, want)
			n, err := drain(reader.Open(path))
			check(t, err, path, want)
			testenv.FailIf(t, !bad && n != v.Samples, "%d samples, want %d", n, v.Samples)
			m, err := readBytes(testenv.Must(os.ReadFile(path)))
			check(t, err, "", want)
			testenv.Same(t, "samples from memory and from the file", m, n)
		})
	}
}

// check checks that err is a FormatError with the file's name and the wanted text.
func check(t *testing.T, err error, name, want string) {
	t.Helper()
	if want == "" {
		testenv.OK(t, err)
		return
	}
	var format *reader.FormatError
	testenv.StopIf(t, !errors.As(err, &format), "error %v, want a FormatError", err)
	testenv.FailIf(t, format.File != name || !strings.HasPrefix(err.Error(), name) || !strings.Contains(err.Error(), want), "error %q, want one of %q that says %q", err, name, want)
}

// TestUnfinished checks that only a file whose writer was killed gives ErrUnfinished.
func TestUnfinished(t *testing.T) {
	for _, size := range []int{64, 96, 100000} {
		b := make([]byte, size)
		testenv.Is(t, fmt.Sprintf("%d zero bytes", size), testenv.Err(readBytes(b)), reader.ErrUnfinished)
		b[0] = 1
		_, err := readBytes(b)
		testenv.FailIf(t, err == nil || errors.Is(err, reader.ErrUnfinished), "%d bytes of another file: %v", size, err)
	}
	testenv.Is(t, "no file", testenv.Err(reader.Open(filepath.Join(t.TempDir(), "none"))), os.ErrNotExist)
	testenv.Fails(t, "a directory", testenv.Err(reader.Open(t.TempDir())), "it is a folder")
}

// TestSuffixKeepsOutermost reads a SUFFIX record without new frames. It keeps the outermost
// frames, as the format's document says. CPython keeps the innermost ones.
func TestSuffixKeepsOutermost(t *testing.T) {
	list, err := collect(open(t, filepath.Join(testdata, "bad", "suffix_new0_shared_lt_depth.bin")))
	testenv.FailIf(t, err != nil || len(list) != 2 || len(list[0].Stack) != 3 || !slices.Equal(list[1].Stack, list[0].Stack[1:]), "samples %v, %v", list, err)
}

// TestTruncated truncates files at every byte. The Reader must return an error and never panic. TestByteOrder truncates only the samples.
func TestTruncated(t *testing.T) {
	for _, path := range []string{"cpython-3.15/tiny.bin", "cpython-3.15/tiny.zstd.bin", "cpython-3.15/meta.bin", "document-v2/tiny.bin", "document-v2/tiny.zstd.bin", "bad/ok_big_endian.bin"} {
		b := testenv.Must(os.ReadFile(filepath.Join(testdata, path)))
		for n := range b {
			testenv.FailIf(t, testenv.Err(readBytes(b[:n])) == nil, "%s: no error with %d of %d bytes", path, n, len(b))
		}
	}
}
