package reader_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
	"github.com/klauspost/compress/zstd"
)

// memoryBound returns the most bytes that reading a file of a size may allocate, with
// garbage: decompression with two windows of 8 MiB and its blocks, the budget of the
// threads, and the tables.
func memoryBound(size int) int { return 64<<20 + 300*size }

// TestHostile reads files that were made to exhaust a reader's memory or time. Each causes
// an error, and the memory is limited by the file's size.
func TestHostile(t *testing.T) {
	testenv.Long(t)
	testenv.Again(t)
	const huge = 1 << 60
	one := func(edit func(*builder)) builder {
		b := builder{samples: 1, threads: 1, strings: []string{""}, frames: [][3]int64{{0, 0, 1}}}
		edit(&b)
		return b
	}
	for _, c := range []struct {
		name string
		file builder
		want string
	}{
		{"repeats", one(func(b *builder) {
			b.layout, b.samples = tachyon.CPython315, huge
			b.record(1, 0, wire.Repeat, huge)
		}), "offset 86: truncated record"},
		{"depth", one(func(b *builder) { b.record(1, 0, wire.Full, 1, 0, huge) }), "offset 79: a stack of more than"},
		{"depth that could be", one(func(b *builder) { b.record(1, 0, wire.Full, 1, 0, 1<<20) }), "offset 82: truncated record"},
		{"shared", one(func(b *builder) { b.record(1, 0, wire.Suffix, 1, 0, huge, huge) }), "of a stack of 0"},
		{"pop", one(func(b *builder) { b.record(1, 0, wire.PopPush, 1, 0, huge, huge) }), "of a stack of 0"},
		{"push", one(func(b *builder) { b.record(1, 0, wire.PopPush, 1, 0, 0, huge) }), "a stack of more than"},
		{"frame", one(func(b *builder) { b.record(1, 0, wire.Full, 1, 0, 1, 1) }), "offset 80: stack refers to frame 1, but the file has 1 frames"},
		{"huge frame", one(func(b *builder) { b.record(1, 0, wire.Full, 1, 0, 1, 1<<63) }), "refers to frame 9223372036854775808, but the file has 1 frames"},
		{"long frame", one(func(b *builder) {
			b.record(1, 0, wire.Full, 1, 0, 1)
			b.data = append(b.data, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00"...)
		}), "longer than 64 bits"},
		{"samples", one(func(b *builder) {
			b.record(1, 0, wire.Full, 1, 0, 0)
			b.record(1, 0, wire.Full, 1, 0, 0)
		}), "offset 80: more samples than the 1"},
		{"fewer samples", one(func(b *builder) { b.samples = 1<<32 - 1; b.record(1, 0, wire.Full, 1, 0, 0) }), "the file has 1 samples"},
		{"more threads", one(func(b *builder) {
			b.samples = 2
			b.record(1, 0, wire.Full, 1, 0, 0)
			b.record(1, 1, wire.Full, 1, 0, 0)
		}), "thread 1 of interpreter 1: more threads than the 1 in the header"},
		{"fewer threads", one(func(b *builder) { b.threads = 1<<32 - 1; b.record(1, 0, wire.Full, 1, 0, 0) }), "the file has 1 threads"},
		{"strings past the table", one(func(b *builder) { b.strings = nil }), "refers to string 0, but the file has 0 strings"},
		{"line", one(func(b *builder) { b.frames[0][2] = 1 << 31 }), "frame 0 of 1: 2147483648 does not fit into 32 bits"},
		{"frames cut", one(func(b *builder) { b.frames = nil; b.frameData, b.count = []byte{0, 0, 0x80}, 1 }), "frame 0 of 1: truncated data"},
		{"frames", one(func(b *builder) { b.frameData, b.count = make([]byte, 8), 3 }), "4 frames do not fit into 11 bytes"},
		{"after the frames", one(func(b *builder) { b.frameData = make([]byte, 8) }), "bytes between frame table and footer"},
		{"bomb of one record", one(func(b *builder) {
			b.samples = 1
			b.data = make([]byte, 16<<20)
			b.data[12] = wire.Full
			b.data[13] = 1
			copy(b.data[15:], "\xff\xff\x3f") // depth 1<<20 - 1
			b.compress()
		}), "the decompressed samples: "},
		{"bomb of stacks", one(func(b *builder) {
			b.samples, b.threads = 100, 100
			zeros := make([]byte, 1<<20)
			for i := range 20 {
				b.record(uint64(i), 0, wire.Full, 1, 0, 1<<20)
				b.data = append(b.data, zeros...)
			}
			b.compress()
		}), "need more memory than the limit for a file of this size"},
		{"bomb of threads", one(func(b *builder) {
			// A thread takes 16 bytes in memory and 3 in the file.
			b.samples, b.threads = 1<<32-1, 1<<32-1
			for i := range 1 << 18 {
				b.record(uint64(i), uint32(i&7), wire.Full, 1, 0, 0)
			}
			b.compress()
		}), "the file has 262144 samples"},
		{"window", one(func(b *builder) {
			var out bytes.Buffer
			z := testenv.Must(zstd.NewWriter(&out, zstd.WithWindowSize(64<<20), zstd.WithEncoderConcurrency(1)))
			z.Write(make([]byte, 1<<20))
			z.Close()
			b.data, b.zstd = out.Bytes(), true
		}), "zstd: window size exceeded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := c.file.bytes()
			var err error
			testenv.Bounded(t, memoryBound(len(data)), func() { _, err = readBytes(data) })
			check(t, err, "", c.want)
		})
	}
}

// TestDocumentIsStrict changes fields that CPython does not check in its own layout.
func TestDocumentIsStrict(t *testing.T) {
	b := builder{strings: []string{"a", "b"}, frames: [][3]int64{{0, 1, 1}}}
	for _, c := range []struct {
		at   int // offset of the byte that is increased by one
		want string
	}{
		{69 + 2 + 8, "offset 79: the footer counts 104 bytes, but the file has 103"},
		{40, "offset 68: the string table ends before the frame table at 69"},
	} {
		data := b.bytes()
		data[c.at]++
		check(t, testenv.Err(readBytes(data)), "", c.want)
	}
}

// TestZstdFrames checks that only a sequence of complete zstd frames is accepted.
func TestZstdFrames(t *testing.T) {
	b := builder{samples: 2, threads: 1, strings: []string{""}, frames: [][3]int64{{0, 0, 1}}}
	b.record(1, 0, wire.Full, 1, 0, 1, 0)
	b.record(1, 0, wire.Repeat, 1, 1, 0)
	data := b.data
	skippable := append([]byte{0x5a, 0x2a, 0x4d, 0x18, 4, 0, 0, 0}, "junk"...)
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	var streamed bytes.Buffer
	z := testenv.Must(zstd.NewWriter(&streamed, zstd.WithEncoderCRC(true), zstd.WithEncoderConcurrency(1)))
	z.Write(data)
	z.Flush()
	z.Close()
	whole := compress(data)
	for _, c := range []struct {
		name   string
		region []byte
		want   string
	}{
		{"one", whole, ""},
		{"with content checksum", streamed.Bytes(), ""},
		{"two", join(compress(data[:9]), compress(data[9:])), ""},
		{"many", join(compress(data[:3]), compress(nil), compress(data[3:20]), compress(data[20:])), ""},
		{"skippable last", join(whole, skippable), "not a zstd frame"},
		{"a byte of junk", join(whole, []byte{0}), "truncated zstd data"},
		{"a byte of a frame", join(whole, whole[:1]), "truncated zstd data"},
		{"three bytes of junk", join(whole, []byte{1, 2, 3}), "truncated zstd data"},
		{"four bytes of junk", join(whole, []byte{1, 2, 3, 4}), "not a zstd frame"},
		{"cut", whole[:len(whole)-1], "truncated zstd data"},
		{"cut checksum", streamed.Bytes()[:streamed.Len()-1], "truncated zstd data"},
		{"wrong checksum", join(streamed.Bytes()[:streamed.Len()-1], []byte{^streamed.Bytes()[streamed.Len()-1]}), "offset 99: zstd: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := b
			f.data, f.zstd = c.region, true
			n, err := readBytes(f.bytes())
			check(t, err, "", c.want)
			testenv.FailIf(t, c.want == "" && n != 2, "%d samples", n)
		})
	}
}

// TestSparse opens a sparse file with larger tables than the limit.
func TestSparse(t *testing.T) {
	b := builder{}
	path := filepath.Join(t.TempDir(), "sparse.tach")
	testenv.OK(t, os.WriteFile(path, b.bytes(), 0o600))
	const size = 2 << 30
	testenv.OK(t, os.Truncate(path, size))
	f := testenv.Closes(t, testenv.Must(os.OpenFile(path, os.O_RDWR, 0)))
	for at, v := range map[int64]uint64{40: size - tachyon.FooterSize, size - tachyon.FooterSize + 8: size} { // frame table, file size
		testenv.OK(t, testenv.Err(f.WriteAt(binary.LittleEndian.AppendUint64(nil, v), at)))
	}
	check(t, testenv.Err(reader.Open(path)), path, "bytes are larger than the limit of")
}

// FuzzReader reads arbitrary bytes. The Reader must not panic, its memory must stay within
// the limits, and the samples must agree with the header and the tables.
func FuzzReader(f *testing.F) {
	for _, folder := range []string{"bad", "cpython-3.15", "document-v2"} {
		for _, path := range goldens(f, folder) {
			b := testenv.Must(os.ReadFile(path))
			if len(b) < 40_000 {
				f.Add(b)
				for i := range min(len(b), 8) {
					broken := slices.Clone(b)
					broken[i*len(b)/8] ^= 0x55
					f.Add(broken)
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		testenv.Bounded(t, memoryBound(len(b)), func() { fuzzRead(t, b) })
	})
}

func fuzzRead(t *testing.T, b []byte) {
	r, err := reader.New(bytes.NewReader(b))
	if err != nil {
		isFormat(t, r, err, 0, len(b))
		return
	}
	defer r.Close()
	r.Metadata()
	r.VerifyChecksum()
	n, threads := uint64(0), map[reader.Thread]bool{}
	for s, err := range r.Samples() {
		if err != nil {
			isFormat(t, s, err, 0, math.MaxInt)
			return
		}
		n++
		for _, id := range s.Stack {
			_ = r.Frames()[id]
		}
		if len(threads) < 1000 {
			threads[reader.Thread{ID: s.Thread, Interpreter: s.Interpreter}] = true
		}
		if n == 100_000 { // probably a decompression bomb
			return
		}
	}
	h := r.Header()
	testenv.FailIf(t, n != h.Samples || len(threads) < 1000 && uint64(len(threads)) > uint64(h.Threads), "%d samples of %d threads, but no error with the header %+v", n, len(threads), h)
}

// FuzzMetadata puts arbitrary text in place of metadata and calls all its users.
func FuzzMetadata(f *testing.F) {
	f.Add(`{"gotach":"session","program":"p","goos":"linux","pid":1,"start":"2026-01-02T03:04:05Z","duration_ns":1000,"source":"native","vcs":{"vcs.revision":"x"}}`,
		`{"gotach":"goroutines","goroutines":[{"id":1,"created_by":"main.main","created_at":"m.go:3","first_us":1,"last_us":9,"labels":[{"from_us":2,"labels":{"k":"v"}},{"from_us":3,"labels":{}}]}]}`)
	f.Add(`{"gotach":"pcs","text_start":4096,"text_size":100,"pcs":[{"a":4100,"c":1,"w":2,"ct":10,"wt":20},{"a":4101,"w":1}]}`, `{"gotach":"checksum","crc32c":0}`)
	f.Add(`{"gotach":"session","rate":-1,"interval":1e99,"start":"0000-00-00"}`, `{"gotach":"session"}`)
	f.Add(`{"gotach":"goroutines","goroutines":[{},{},{},null]}`, `{"gotach":"another","x":[[[[[[]]]]]]}`)
	f.Add(`{"gotach":null`, `{"other":1}`)
	f.Fuzz(func(t *testing.T, first, second string) {
		b := builder{samples: 2, threads: 1, strings: []string{"f.go", "f", first, second}, frames: [][3]int64{{0, 1, 1}}}
		b.record(1, 0, wire.Full, 1, 3, 1, 0)
		b.record(1, 0, wire.Repeat, 1, 1000, 0)
		data := b.bytes()
		testenv.Bounded(t, memoryBound(len(data)), func() {
			fuzzMetadata(t, data)
			in, err := formats.OpenReader(bytes.NewReader(data), "fuzz", formats.Options{})
			if err != nil {
				return
			}
			defer in.Close()
			_, _ = in.Info()
			_, _ = in.Report(profile.ReportOptions{})
			_ = in.Write(io.Discard, "pprof", formats.Options{})
		})
	})
}

func fuzzMetadata(t *testing.T, data []byte) {
	r, err := reader.New(bytes.NewReader(data))
	if err != nil && strings.Contains(err.Error(), "record section") || err != nil && strings.Contains(err.Error(), `metadata of kind "records"`) {
		return // the text names a section that is not there
	}
	testenv.OK(t, err)
	defer r.Close()
	m, err := r.Metadata()
	if err != nil {
		isFormat(t, "Metadata", err, 0, len(data))
		testenv.Same(t, "metadata", m, nil)
		return
	}
	for _, o := range r.MetadataObjects() {
		testenv.Same(t, o, json.Valid([]byte(o)), true)
	}
	present, err := r.VerifyChecksum()
	testenv.FailIf(t, present != (m.Checksum != nil) || !present && err != nil, "checksum %v, VerifyChecksum: %v, %v", m.Checksum, present, err)
}
