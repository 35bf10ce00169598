package writer

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
	"github.com/klauspost/compress/zstd"
)

var folders = map[tachyon.Layout]string{tachyon.CPython315: "cpython-3.15", tachyon.Document: "document-v2"}

func goldenPath(l tachyon.Layout, name string) string {
	return filepath.Join("../testdata/tachyon", folders[l], name+".zstd.bin")
}

func openGolden(t testing.TB, l tachyon.Layout, name string) *reader.Reader {
	t.Helper()
	return testenv.Must(reader.Open(goldenPath(l, name)))
}

// optionsOf returns the options of a writer that makes the file again.
func optionsOf(r *reader.Reader) Options {
	h := r.Header()
	return Options{Layout: h.Layout, Start: h.Start, Interval: h.Interval,
		CPython: &CPythonInfo{Version: h.Python, Config: h.Config, Stats: r.Statistics()}}
}

// unpack returns the bytes that a compressed file would have without compression.
func unpack(t testing.TB, b []byte) []byte {
	t.Helper()
	h := testenv.Must(wire.DecodeHeader(b))
	if h.Compression == tachyon.CompressionNone {
		return b
	}
	zr := testenv.Must(zstd.NewReader(nil))
	defer zr.Close()
	region := testenv.Must(zr.DecodeAll(b[tachyon.HeaderSize:h.StringOffset], nil))
	rest := b[h.StringOffset : len(b)-tachyon.FooterSize]
	foot := wire.DecodeFooter(b[len(b)-tachyon.FooterSize:], wire.Order(&h))
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
			packed := testenv.Must(os.ReadFile(goldenPath(layout, name)))
			want, p := unpack(t, packed), newTape(t, name, layout)
			for _, i := range []int{0, 3, 1, 2}[:testenv.Brief(2, 4)] {
				if name == "big" && i != map[tachyon.Layout]int{tachyon.Document: 3}[layout] {
					continue // it takes long: once in each layout
				}
				var f disk
				p.next, p.o.Uncompressed = 0, i&1 == 1
				w := testenv.Must(New(&f, p.o))
				p.play(t, w, i&2 == 2, len(p.samples))
				testenv.OK(t, w.Close())
				t.Run(fmt.Sprint(folder, "/", name, i), func(t *testing.T) { diff(t, unpack(t, f.b), want) })
				// CPython's zstd takes 5.14 bytes for a sample of big.
				if n := len(f.b); !p.o.Uncompressed && (n*100 > len(packed)*108 || name == "big" && n*100 > 545*len(p.samples)) {
					t.Errorf("%s: %d bytes compressed, CPython %d", name, n, len(packed))
				}
			}
		}
	}
}

// Without a CPythonInfo, CPython's layout says that the profile is of wall-clock time.
func TestConfig(t *testing.T) {
	var f testenv.File
	w := testenv.Must(New(&f, Options{Layout: tachyon.CPython315}))
	if r := testenv.Finish(t, &f, w, reader.New); r.Header().Config != 1 {
		t.Errorf("%+v", r.Header())
	}
}

// diff fails the test at the first byte that differs.
func diff(t *testing.T, got, want []byte) {
	t.Helper()
	at := 0
	for at < len(got) && at < len(want) && got[at] == want[at] {
		at++
	}
	if at < max(len(got), len(want)) {
		t.Fatalf("%d bytes, want %d; they differ from %d on:\n got % x\nwant % x", len(got), len(want), at,
			got[at:min(len(got), at+48)], want[at:min(len(want), at+48)])
	}
}
