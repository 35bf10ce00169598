package reader_test

import (
	"bytes"
	"encoding/binary"
	"path/filepath"
	"testing"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
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
	t.Helper()
	r := testenv.Must(reader.Open(path))
	t.Cleanup(func() { r.Close() })
	return r
}

// openBytes opens a file in memory until the test ends.
func openBytes(t testing.TB, b []byte) *reader.Reader {
	t.Helper()
	r := testenv.Must(reader.New(bytes.NewReader(b)))
	t.Cleanup(func() { r.Close() })
	return r
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
