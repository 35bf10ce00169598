package writer

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
	"github.com/klauspost/compress/zstd"
)

const goldens = "../testdata/tachyon"

// A workload is the input of a golden file that CPython wrote.
type workload struct {
	Start    uint64      `json:"start_time_us"`
	Interval uint64      `json:"sample_interval_us"`
	Mode     *uint32     `json:"mode"`
	Features *uint32     `json:"capture_features"`
	Stats    *[4]float64 `json:"stats"`
	Frames   [][7]any    `json:"frames"` // file, function, line, end line, column, end column, opcode
	Stacks   [][]uint32  `json:"stacks"`
	Samples  [][5]uint64 `json:"samples"` // thread, interpreter, time, status, stack
}

func readWorkload(t testing.TB, name string) *workload {
	t.Helper()
	f, err := os.Open(filepath.Join(goldens, "cpython-3.15", name+".bin.workload.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var wl workload
	if err := json.NewDecoder(z).Decode(&wl); err != nil {
		t.Fatal(err)
	}
	return &wl
}

// frames returns the workload's frames in the writer's form.
func (wl *workload) frames() []tachyon.Frame {
	var out []tachyon.Frame
	for _, f := range wl.Frames {
		n := func(i int) int32 {
			if f[i] == nil {
				return -1 // None in CPython: no location
			}
			return int32(f[i].(float64))
		}
		out = append(out, tachyon.Frame{
			File: f[0].(string), Func: f[1].(string), Line: n(2),
			Span: tachyon.Span{Lines: n(3) - n(2), Column: n(4) + 1, Columns: n(5) - n(4), Opcode: int16((n(6) + 1) % 256)},
		})
	}
	return out
}

func (wl *workload) options(l tachyon.Layout, uncompressed bool) Options {
	c := &CPythonInfo{Version: [3]uint8{3, 15, 2}}
	if wl.Mode != nil {
		c.Config = *wl.Mode + 1
	}
	if wl.Features != nil {
		c.Config |= 8 | *wl.Features<<4
	}
	if s := wl.Stats; s != nil {
		c.Stats = &tachyon.Statistics{Duration: s[0], Rate: s[1], ErrorRate: &s[2], Missed: &s[3]}
	}
	return Options{Layout: l, Uncompressed: uncompressed, Start: wl.Start, Interval: wl.Interval, CPython: c}
}

func (wl *workload) sample(i int) tachyon.Sample {
	s := wl.Samples[i]
	return tachyon.Sample{Thread: s[0], Interpreter: uint32(s[1]), Time: s[2], Status: tachyon.Status(s[3])}
}

// write writes the workload to a new file and returns the file's bytes. If ids is true, it
// interns the frames in the order in which CPython does.
func (wl *workload) write(t testing.TB, o Options, ids bool) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.tach")
	w, err := Create(path, o)
	if err != nil {
		t.Fatal(err)
	}
	frames := wl.frames()
	var stack []tachyon.Frame
	for i := range wl.Samples {
		s := wl.sample(i)
		stack = stack[:0]
		for _, f := range wl.Stacks[wl.Samples[i][4]] {
			stack = append(stack, frames[f])
		}
		if ids {
			for i := range min(len(stack), tachyon.MaxDepth) {
				s.Stack = append(s.Stack, w.Intern(stack[i]))
			}
			err = w.Write(&s)
		} else {
			err = w.WriteFrames(&s, stack)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// unpack returns the bytes that a compressed file would have without compression.
func unpack(t tester, b []byte) []byte {
	t.Helper()
	h, err := wire.DecodeHeader(b)
	if err != nil {
		t.Fatal(err)
	}
	if h.Compression == tachyon.CompressionNone {
		return b
	}
	zr, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer zr.Close()
	region, err := zr.DecodeAll(b[tachyon.HeaderSize:h.StringOffset], nil)
	if err != nil {
		t.Fatal(err)
	}
	rest := b[h.StringOffset : len(b)-tachyon.FooterSize]
	foot := wire.DecodeFooter(b[len(b)-tachyon.FooterSize:], wire.Order(&h))
	by := int64(len(region)) - int64(h.StringOffset-tachyon.HeaderSize)
	h.Compression = tachyon.CompressionNone
	h.StringOffset = uint64(int64(h.StringOffset) + by)
	h.FrameOffset = uint64(int64(h.FrameOffset) + by)
	foot.Size = uint64(int64(foot.Size) + by)
	hb, fb := wire.EncodeHeader(&h), wire.EncodeFooter(&foot)
	return bytes.Join([][]byte{hb[:], region, rest, fb[:]}, nil)
}

var goldenNames = []string{"big", "deep", "empty", "emptystack", "interp", "meta", "none", "rle", "tiny", "unicode"}

// From CPython's input the writer makes the same bytes as CPython before compression, and
// about the same size after it.
func TestGoldens(t *testing.T) {
	for _, dir := range []struct {
		name   string
		layout tachyon.Layout
	}{{"cpython-3.15", tachyon.CPython315}, {"document-v2", tachyon.Document}} {
		for _, name := range goldenNames {
			t.Run(dir.name+"/"+name, func(t *testing.T) {
				if name == "big" {
					testenv.Again(t)
				}
				wl := readWorkload(t, name)
				packed, err := os.ReadFile(filepath.Join(goldens, dir.name, name+".zstd.bin"))
				if err != nil {
					t.Fatal(err)
				}
				want := unpack(t, packed)
				for _, ids := range []bool{false, true} {
					got := wl.write(t, wl.options(dir.layout, true), ids)
					diff(t, got, want)
					got = wl.write(t, wl.options(dir.layout, false), ids)
					diff(t, unpack(t, got), want)
					if len(got)*100 > len(packed)*108 {
						t.Errorf("%d bytes compressed, CPython %d: %+.1f %%", len(got), len(packed), 100*float64(len(got)-len(packed))/float64(len(packed)))
					}
				}
			})
		}
	}
}

// The file of a CPU-bound service with 5 threads and a mean stack depth of 38.5 takes little
// more than CPython's 5.14 bytes a sample.
func TestSize(t *testing.T) {
	testenv.Again(t)
	if n := newTape(t, "big", tachyon.CPython315).size(t); n > 5.45 {
		t.Errorf("%.3f bytes a sample", n)
	}
}

// diff fails the test at the first byte that differs.
func diff(t *testing.T, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	at := 0
	for at < len(got) && at < len(want) && got[at] == want[at] {
		at++
	}
	t.Fatalf("%d bytes, want %d; they differ from %d on:\n got % x\nwant % x", len(got), len(want), at,
		got[at:min(len(got), at+48)], want[at:min(len(want), at+48)])
}
