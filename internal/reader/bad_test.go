package reader_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
)

// A verdict is the result of CPython 3.15's reader for a bad file.
type verdict struct {
	File    string
	Verdict string // ok or error
	Message string
	Samples int
}

func verdicts(t testing.TB) []verdict {
	t.Helper()
	b := testenv.Must(os.ReadFile(filepath.Join(testdata, "bad", "MANIFEST.jsonl")))
	var list []verdict
	for d := json.NewDecoder(bytes.NewReader(b)); ; {
		var v verdict
		if err := d.Decode(&v); err == io.EOF {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, v)
	}
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
	for _, v := range verdicts(t) {
		t.Run(v.File, func(t *testing.T) {
			path := filepath.Join(testdata, "bad", v.File)
			want, bad := wants[v.File]
			if samples, ok := better[v.File]; ok {
				v.Verdict, v.Samples = "ok", samples
			}
			// CPython treats an unknown compression as none.
			if (v.Verdict != "ok") != bad && v.File != "compression2.bin" {
				t.Fatalf("CPython says %s (%s), we expect %q", v.Verdict, v.Message, want)
			}
			n, err := drain(reader.Open(path))
			check(t, err, path, want)
			if !bad && n != v.Samples {
				t.Errorf("%d samples, want %d", n, v.Samples)
			}
			b := testenv.Must(os.ReadFile(path))
			m, err := readBytes(b)
			check(t, err, "", want)
			if m != n {
				t.Errorf("%d samples from memory, %d from the file", m, n)
			}
		})
	}
}

// check checks that err is a FormatError with the file's name and the wanted text.
func check(t *testing.T, err error, name, want string) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Error(err)
		}
		return
	}
	var format *reader.FormatError
	if !errors.As(err, &format) {
		t.Fatalf("error %v, want a FormatError", err)
	}
	if format.File != name || !strings.HasPrefix(err.Error(), name) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %q, want one of %q that says %q", err, name, want)
	}
}

// TestUnfinished checks that only a file whose writer was killed gives ErrUnfinished.
func TestUnfinished(t *testing.T) {
	for _, size := range []int{64, 96, 100000} {
		b := make([]byte, size)
		if _, err := readBytes(b); !errors.Is(err, reader.ErrUnfinished) {
			t.Errorf("%d zero bytes: %v, want ErrUnfinished", size, err)
		}
		b[0] = 1
		if _, err := readBytes(b); err == nil || errors.Is(err, reader.ErrUnfinished) {
			t.Errorf("%d bytes of another file: %v", size, err)
		}
	}
	if _, err := reader.Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := reader.Open(t.TempDir()); err == nil {
		t.Error("a directory was opened")
	}
}

// TestSuffixKeepsOutermost reads a SUFFIX record without new frames. It keeps the outermost
// frames, as the format's document says. CPython keeps the innermost ones.
func TestSuffixKeepsOutermost(t *testing.T) {
	list, err := collect(open(t, filepath.Join(testdata, "bad", "suffix_new0_shared_lt_depth.bin")))
	if err != nil || len(list) != 2 || len(list[0].Stack) != 3 || !slices.Equal(list[1].Stack, list[0].Stack[1:]) {
		t.Errorf("samples %v, %v", list, err)
	}
}

// TestTruncated truncates files at every byte. The Reader must return an error, never
// panic, and never yield samples that are not in the file.
func TestTruncated(t *testing.T) {
	for _, path := range []string{"cpython-3.15/tiny.bin", "cpython-3.15/tiny.zstd.bin", "cpython-3.15/meta.bin", "document-v2/tiny.bin", "document-v2/tiny.zstd.bin", "bad/ok_big_endian.bin"} {
		b := testenv.Must(os.ReadFile(filepath.Join(testdata, path)))
		for n := range b {
			if _, err := readBytes(b[:n]); err == nil {
				t.Errorf("%s: no error with %d of %d bytes", path, n, len(b))
			}
		}
		cutSamples(t, path, b)
	}
}

// cutSamples removes bytes only from the sample region and keeps the tables.
func cutSamples(t *testing.T, path string, b []byte) {
	o, at := binary.ByteOrder(binary.LittleEndian), 40
	if b[0] == 'T' {
		o = binary.BigEndian
	}
	if o.Uint32(b[4:]) == 2 {
		at = 32
	}
	strings, frames := o.Uint64(b[at:]), o.Uint64(b[at+8:])
	for n := uint64(64); n < strings; n++ {
		cut := append(bytes.Clone(b[:n]), b[strings:]...)
		o.PutUint64(cut[at:], n)
		o.PutUint64(cut[at+8:], frames-(strings-n))
		if at == 32 {
			o.PutUint64(cut[len(cut)-24:], uint64(len(cut)))
		}
		if _, err := readBytes(cut); err == nil {
			t.Errorf("%s: no error with samples up to %d of %d", path, n, strings)
		}
	}
}

// TestFlipped sets every byte of small files to other values. The Reader must not panic.
func TestFlipped(t *testing.T) {
	testenv.Long(t)
	for _, path := range []string{"cpython-3.15/meta.bin", "document-v2/tiny.bin", "bad/zstd_level1_19.bin"} {
		b := testenv.Must(os.ReadFile(filepath.Join(testdata, path)))
		for i, old := range b {
			for _, v := range []byte{0, 1, 0x7f, 0x80, 0xff, old ^ 1, old + 1} {
				b[i] = v
				readBytes(b)
			}
			b[i] = old
		}
	}
}
