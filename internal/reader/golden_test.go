package reader_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
	"github.com/klauspost/compress/zstd"
)

const testdata = "../../testdata/tachyon"

func TestMain(m *testing.M) { testenv.MainWithoutLeaks(m) }

// goldens returns all golden files of a folder.
func goldens(t testing.TB, folder string) []string {
	t.Helper()
	return testenv.Files(t, filepath.Join(testdata, folder, "*.bin"), 1)
}

// open opens a file until the test ends.
func open(t testing.TB, path string) *reader.Reader {
	return testenv.Closes(t, testenv.Must(reader.Open(path)))
}

// openBytes opens a file in memory until the test ends.
func openBytes(t testing.TB, b []byte) *reader.Reader {
	return testenv.Closes(t, testenv.Must(reader.New(bytes.NewReader(b))))
}

// written returns a file that a writer has made.
func written(t testing.TB, o writer.Options, write func(w *writer.Writer) error) []byte {
	t.Helper()
	f := &testenv.File{}
	w := testenv.Must(writer.New(f, o))
	testenv.OK(t, write(w))
	testenv.OK(t, w.Close())
	return f.Bytes
}

// isFormat checks that err is a FormatError with an offset from least to most.
func isFormat(t testing.TB, what any, err error, least, most int) {
	t.Helper()
	var format *reader.FormatError
	testenv.StopIf(t, !errors.As(err, &format) || format.Offset < int64(least) || format.Offset > int64(most), "%v: error %v, want a FormatError at an offset from %d to %d", what, err, least, most)
}

// collect returns copies of all samples up to an error.
func collect(r *reader.Reader) (list []tachyon.Sample, err error) {
	for s, err := range r.Samples() {
		if err != nil {
			return list, err
		}
		c := *s
		c.Stack = append([]uint32{}, s.Stack...)
		list = append(list, c)
	}
	return list, nil
}

// A builder makes files that no writer would make. Its zero value makes an empty file in
// the document's layout.
type builder struct {
	layout    tachyon.Layout
	order     binary.AppendByteOrder // nil: little-endian
	samples   uint64
	threads   uint32
	data      []byte // sample region as stored in the file
	zstd      bool
	strings   []string
	frames    [][3]int64 // file, function, line
	frameData []byte     // instead of frames
	count     uint32     // number of frames, if frameData is used
}

func (b *builder) appendOrder() binary.AppendByteOrder {
	if b.order == nil {
		return binary.LittleEndian
	}
	return b.order
}

// record appends the fixed part of a record and some varints.
func (b *builder) record(thread uint64, interpreter uint32, encoding wire.Encoding, numbers ...uint64) {
	b.data = b.appendOrder().AppendUint64(b.data, thread)
	b.data = b.appendOrder().AppendUint32(b.data, interpreter)
	b.data = append(b.data, encoding)
	for _, n := range numbers {
		b.data = binary.AppendUvarint(b.data, n)
	}
}

// compress makes a zstd frame of the data.
func (b *builder) compress() { b.data, b.zstd = compress(b.data), true }

func compress(data []byte) []byte {
	return testenv.Must(zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))).EncodeAll(data, nil)
}

func (b *builder) bytes() []byte {
	o := b.appendOrder()
	var tables []byte
	for _, s := range b.strings {
		tables = append(binary.AppendUvarint(tables, uint64(len(s))), s...)
	}
	stringSize := len(tables)
	count := b.count
	tables = append(tables, b.frameData...)
	for _, f := range b.frames {
		tables = binary.AppendUvarint(tables, uint64(f[0]))
		tables = binary.AppendUvarint(tables, uint64(f[1]))
		tables = binary.AppendVarint(tables, f[2])
		if b.layout == tachyon.CPython315 {
			tables = append(tables, 0, 1, 0, 255)
		}
		count++
	}
	var compression uint32
	if b.zstd {
		compression = tachyon.CompressionZstd
	}
	strings := uint64(tachyon.HeaderSize + len(b.data))
	out := o.AppendUint32(nil, tachyon.Magic)
	if b.layout == tachyon.CPython315 {
		out = append(o.AppendUint32(out, 1), 3, 15, 2, 0)
	} else {
		out = o.AppendUint32(out, 2)
	}
	out = o.AppendUint64(o.AppendUint64(out, 1000), 10) // start and interval
	if b.layout == tachyon.CPython315 {
		out = o.AppendUint64(out, b.samples)
	} else {
		out = o.AppendUint32(out, uint32(b.samples))
	}
	out = o.AppendUint32(out, b.threads)
	out = o.AppendUint64(o.AppendUint64(out, strings), strings+uint64(stringSize))
	out = o.AppendUint32(out, compression)
	out = append(out, make([]byte, tachyon.HeaderSize-len(out))...)
	out = append(append(out, b.data...), tables...)
	size := uint64(len(out) + tachyon.FooterSize)
	out = o.AppendUint32(out, uint32(len(b.strings)))
	out = o.AppendUint32(out, count)
	out = o.AppendUint64(out, size)
	return append(out, make([]byte, 16)...)
}

// gunzip returns the content of a compressed file.
func gunzip(t testing.TB, path string) []byte {
	t.Helper()
	z := testenv.Must(gzip.NewReader(bytes.NewReader(testenv.Must(os.ReadFile(path)))))
	return testenv.Must(io.ReadAll(z))
}

// A workload is the input of a golden file.
type workload struct {
	Start    uint64            `json:"start_time_us"`
	Interval uint64            `json:"sample_interval_us"`
	Mode     *uint32           `json:"mode"`
	Features *uint32           `json:"capture_features"`
	Stats    []float64         `json:"stats"`
	Frames   []workloadFrame   `json:"frames"`
	Samples  []json.RawMessage `json:"samples"`
}

type workloadFrame struct {
	File, Func                               string
	Line, EndLine, Column, EndColumn, Opcode int64
}

// UnmarshalJSON reads a frame's list of values.
func (f *workloadFrame) UnmarshalJSON(b []byte) error {
	*f = workloadFrame{Line: -1, EndLine: -1, Column: -1, EndColumn: -1, Opcode: 255} // null: no location
	return json.Unmarshal(b, &[]any{&f.File, &f.Func, &f.Line, &f.EndLine, &f.Column, &f.EndColumn, &f.Opcode})
}

// TestGolden compares the samples of every file with those of CPython's own reader, from a
// mapping, twice, and from a pipe, and the rest with the input from which the file was written.
// TestBig reads the file big.
func TestGolden(t *testing.T) {
	testenv.Again(t)
	for _, path := range slices.Concat(goldens(t, "cpython-3.15"), goldens(t, "document-v2")) {
		name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".bin"), ".zstd")
		if name == "big" {
			continue
		}
		t.Run(strings.TrimPrefix(path, testdata), func(t *testing.T) {
			want := gunzip(t, filepath.Join(testdata, "cpython-3.15", name+".bin.expect.jsonl.gz"))
			in := testenv.Closes(t, testenv.Must(formats.Open(path, formats.Options{})))
			piped := testenv.Closes(t, testenv.Must(formats.OpenReader(bytes.NewReader(testenv.Must(os.ReadFile(path))), "pipe", formats.Options{})))
			for _, in := range []*formats.Input{in, in, piped}[:testenv.Brief(1, 3)] { // Samples starts from the beginning each time
				var b bytes.Buffer
				testenv.OK(t, in.Dump(&b))
				if !bytes.Equal(b.Bytes(), want) {
					testenv.NoDiff(t, "samples", cmp.Diff(strings.Split(string(want), "\n"), strings.Split(b.String(), "\n")))
				}
			}
			var w workload
			testenv.OK(t, json.Unmarshal(gunzip(t, filepath.Join(testdata, "cpython-3.15", name+".bin.workload.json.gz")), &w))
			checkRest(t, open(t, path), &w)
		})
	}
}

// checkRest checks the header, the statistics, the frames' places, and that there is no metadata.
func checkRest(t *testing.T, r *reader.Reader, w *workload) {
	t.Helper()
	h := r.Header()
	testenv.Same(t, "start, interval and samples", [3]uint64{h.Start, h.Interval, h.Samples}, [3]uint64{w.Start, w.Interval, uint64(len(w.Samples))})
	m, err := r.Metadata()
	testenv.FailIf(t, err != nil || m.Session != nil || m.Checksum != nil || len(r.MetadataObjects()) > 0, "Metadata of a file without metadata: %+v, %v", m, err)
	testenv.Same(t, "a checksum", testenv.Must(r.VerifyChecksum()), false)
	if h.Layout == tachyon.Document {
		return
	}
	for _, f := range r.Frames() {
		f := workloadFrame{f.File, f.Func, int64(f.Line), int64(f.Line + f.Span.Lines),
			int64(f.Span.Column - 1), int64(f.Span.Column - 1 + f.Span.Columns), int64(uint8(f.Span.Opcode - 1))}
		testenv.FailIf(t, !slices.Contains(w.Frames, f), "frame %+v is not in the input", f)
	}
	var config uint32
	if w.Mode != nil {
		config = *w.Mode + 1
	}
	if w.Features != nil {
		config |= 8 | *w.Features<<4
	}
	testenv.FailIf(t, h.Config != config || h.Python != [3]uint8{3, 15, 2}, "Python %v, config %#x, want %#x", h.Python, h.Config, config)
	var stats []float64
	if s := r.Statistics(); s != nil {
		stats = []float64{s.Duration, s.Rate, *s.ErrorRate, *s.Missed}
	}
	testenv.SameList(t, "statistics", stats, w.Stats)
}

// TestBig reads 200,000 samples in both layouts. Their checksum is that of the samples that CPython
// reads: TestPeerCPython compares them.
func TestBig(t *testing.T) {
	testenv.Again(t)
	for _, folder := range []string{"cpython-3.15", "document-v2"} {
		r := open(t, filepath.Join(testdata, folder, "big.zstd.bin"))
		frames := make([]uint64, len(r.Frames()))
		for i, f := range r.Frames() {
			frames[i] = uint64(crc32.ChecksumIEEE(fmt.Append(nil, f.File, f.Func, f.Line)))
		}
		sum := crc32.NewIEEE()
		var b []byte
		for s := range testenv.All(t, r.Samples()) {
			b = b[:0]
			for _, v := range []uint64{s.Thread, uint64(s.Interpreter), s.Time, uint64(s.Status), uint64(len(s.Stack))} {
				b = binary.LittleEndian.AppendUint64(b, v)
			}
			for _, id := range s.Stack {
				b = binary.LittleEndian.AppendUint64(b, frames[id])
			}
			sum.Write(b)
		}
		testenv.Same(t, folder, sum.Sum32(), uint32(0xe44ff920))
	}
}

// BenchmarkBig reads 200,000 samples of 5 threads, 38.5 frames deep on
// average, compressed with zstd. CPython's own reader does 488,000 a second.
func BenchmarkBig(b *testing.B) {
	for _, folder := range []string{"document-v2", "cpython-3.15"} {
		b.Run(folder, func(b *testing.B) {
			r := open(b, filepath.Join(testdata, folder, "big.zstd.bin"))
			b.ReportAllocs()
			samples, sum := 0, 0
			for b.Loop() {
				for s, err := range r.Samples() {
					if err != nil { // OK would take longer than the sample
						b.Fatal(err)
					}
					samples++
					sum += len(s.Stack)
				}
			}
			testenv.StopIf(b, sum == 0, "no frames")
			b.ReportMetric(float64(samples)/b.Elapsed().Seconds(), "samples/s")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(samples), "ns/sample")
		})
	}
}
