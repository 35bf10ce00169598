package reader_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/decode"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// sectionFile returns a file with a sample and the given bytes as its record section.
func sectionFile(section []byte) []byte {
	var b bytes.Buffer
	h := tachyon.Header{Layout: tachyon.Document, Interval: 1000, Samples: 1, Threads: 1}
	record := binary.LittleEndian.AppendUint64(nil, 1)
	record = append(record, 0, 0, 0, 0, wire.Full, 1, 3, 1, 0)
	b.Write(make([]byte, tachyon.HeaderSize))
	b.Write(record)
	tail := wire.NewTail(&b, &h, int64(b.Len()))
	tail.String("f")
	frame := wire.AppendFrame(nil, h.Layout, 0, 0, 1, nil)
	tail.Checksum(wire.CRC(0, record), &tachyon.Section{Length: int64(len(section)), CRC32C: wire.CRC(0, section)}, int64(len(frame)))
	tail.Frames(frame, 1)
	tail.Records(section)
	testenv.Must(tail.End(nil))
	head := wire.EncodeHeader(&h)
	copy(b.Bytes(), head[:])
	return b.Bytes()
}

// someBlocks returns a section of two blocks.
func someBlocks() []byte {
	var e wire.RecordEncoder
	first := e.AppendGoroutine(nil, &tachyon.Goroutine{ID: 9, Parent: 1, CreatedBy: "main.main", CreatedAt: "m.go:1", First: 5, Last: 6, FirstWeight: 70,
		Labels: []tachyon.LabelSpan{{From: 5, Labels: map[string]string{"a": "b"}}}})
	first = wire.AppendProgress(first, []byte(`{"duration_ns":1000}`))
	e.Reset()
	second := e.AppendGoroutine(nil, &tachyon.Goroutine{ID: 2, First: 1, Last: 2})
	second = e.AppendGoroutine(second, &tachyon.Goroutine{ID: 9, Last: 8, Labels: []tachyon.LabelSpan{{From: 7, Labels: map[string]string{}}}})
	return wire.AppendBlock(wire.AppendBlock(nil, first, nil), second, decode.RawFrame)
}

// A goroutine's parts are one goroutine of the metadata.
func TestSection(t *testing.T) {
	r := openBytes(t, sectionFile(someBlocks()))
	m := testenv.Must(r.Metadata())
	want := []tachyon.Goroutine{{ID: 2, First: 1, Last: 2}, {ID: 9, Parent: 1, CreatedBy: "main.main", CreatedAt: "m.go:1", First: 5, Last: 8, FirstWeight: 70,
		Labels: []tachyon.LabelSpan{{From: 5, Labels: map[string]string{"a": "b"}}, {From: 7, Labels: map[string]string{}}}}}
	testenv.NoDiff(t, "goroutines", cmp.Diff(want, m.Goroutines))
	var ids []uint64
	for g := range testenv.All(t, r.Goroutines()) {
		ids = append(ids, g.ID)
	}
	testenv.SameList(t, "parts", ids, []uint64{9, 2, 9})
	for g := range r.Goroutines() {
		testenv.Same(t, "the first goroutine", g.ID, 9)
		break
	}
	testenv.Same(t, "a checksum", testenv.Must(r.VerifyChecksum()), true)
}

// Each damaged byte of a section is noticed by VerifyChecksum. Metadata returns an error with the
// block's offset, or the content of other bytes.
func TestDamagedSection(t *testing.T) {
	section := someBlocks()
	data := sectionFile(section)
	start := bytes.Index(data, section)
	for i := range section {
		changed := slices.Clone(data)
		changed[start+i] ^= 0x10
		r := openBytes(t, changed)
		_, err := r.VerifyChecksum()
		testenv.Is(t, i, err, reader.ErrChecksum)
		testenv.Fails(t, fmt.Sprint("byte ", i), err, fmt.Sprintf("offset %d: record section: wrong checksum", start))
		m, err := r.Metadata()
		isFormat(t, i, err, start, len(data))
		testenv.Same(t, "metadata", m, nil)
		testenv.Fails(t, fmt.Sprint("byte ", i), err, "record section: ")
	}
}

// The place of a section is checked. A section of a later version is left out.
func TestSectionPlace(t *testing.T) {
	data := sectionFile(someBlocks())
	at := bytes.Index(data, someBlocks())
	for _, c := range []struct{ old, new, want string }{
		{`"length":`, `"langth":`, "the record section of 0 bytes at "},
		{fmt.Sprintf(`"offset":%d`, at), fmt.Sprintf(`"offset":%d`, at+1), "is not between frame table and footer"},
		{`"version":1`, `"version":"`, `metadata of kind "records"`},
		{`"gotach":"records"`, `"gotach":"recordz"`, "unexpected bytes between frame table and footer"},
		{`"version":1`, `"version":2`, ""},
	} {
		changed := bytes.Replace(data, []byte(c.old), []byte(c.new), 1)
		testenv.FailIf(t, bytes.Equal(changed, data), "the file has no %s", c.old)
		r, err := reader.New(bytes.NewReader(changed))
		if c.want != "" {
			testenv.Fails(t, c.new, err, c.want)
			continue
		}
		testenv.OK(t, err)
		testenv.Same(t, c.new, len(testenv.Must(r.Metadata()).Goroutines), 0)
	}
}

// Both layouts have the section, also with many blocks; its size is small.
func TestManyGoroutines(t *testing.T) {
	const n = 8000
	goroutine := func(i uint64) tachyon.Goroutine {
		first := i*200 + testenv.Mix(i)%100
		return tachyon.Goroutine{ID: 100 + i, Parent: 1, CreatedBy: "net/http.(*Server).Serve", CreatedAt: "server.go:1", First: first, Last: first + testenv.Mix(i+1)%30_000,
			Labels: []tachyon.LabelSpan{{From: first, Labels: map[string]string{"n": fmt.Sprint(i)}}}}
	}
	for _, o := range []writer.Options{{}, {Uncompressed: true}, {Layout: tachyon.CPython315, CPython: &writer.CPythonInfo{Stats: testenv.Must(decode.EncodeStatistics(&tachyon.Statistics{Rate: 1}))}}} {
		file := written(t, o, func(w *writer.Writer) error {
			err := w.WriteFrames(&tachyon.Sample{Thread: 9}, []tachyon.Frame{{Func: "f"}})
			for i := range uint64(n) {
				err = errors.Join(err, w.WriteRecords(&tachyon.Records{Goroutines: []tachyon.Goroutine{goroutine(i)}}))
			}
			return err
		})
		size := float64(len(file)) / n
		testenv.FailIf(t, size > map[bool]float64{false: 16, true: 32}[o.Uncompressed], "%.1f bytes a goroutine", size)
		r := openBytes(t, file)
		testenv.Same(t, "a checksum", testenv.Must(r.VerifyChecksum()), true)
		testenv.Same(t, "statistics are there", r.Statistics() != nil, o.Layout == tachyon.CPython315)
		m := testenv.Must(r.Metadata())
		testenv.Same(t, "goroutines", len(m.Goroutines), n)
		for i := range uint64(n) {
			want := goroutine(i)
			testenv.FailIf(t, !reflect.DeepEqual(m.Goroutines[i], want), "goroutine %d is %+v, want %+v", i, m.Goroutines[i], want)
		}
	}
}

// FuzzRecords reads arbitrary record sections. The first byte chooses if the rest is a section, or the
// records of a block. Metadata must not panic, and its memory must be limited.
func FuzzRecords(f *testing.F) {
	section := someBlocks()
	f.Add(append([]byte{0}, section...))
	f.Add(append([]byte{1}, section[wire.BlockHeader:]...))
	f.Add([]byte("\x01\x05\x02\x02\x02\x07\x02\x06\x02\x02\x20\x02\x7f\x00\x03\x02\x02\x3f"))
	f.Add([]byte("\x01\x02\x01a\x0a\x02\x02\x20\x02\x01\x02\x00\x01\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		section := b[1:]
		if b[0]&1 == 1 {
			section = wire.AppendBlock(nil, section, nil)
		}
		data := sectionFile(section)
		testenv.Bounded(t, 256<<20+2000*len(data), func() {
			r := testenv.Closes(t, testenv.Must(reader.New(bytes.NewReader(data))))
			m, err := r.Metadata()
			if err != nil {
				isFormat(t, m, err, 0, len(data))
			}
			for range r.Batches(nil, tachyon.MaxTime) {
			}
		})
	})
}

// TestLateTimes: times beyond tachyon.MaxTime are errors that say where they are. Samples alone yields all times.
func TestLateTimes(t *testing.T) {
	b := builder{samples: 3, threads: 1, strings: []string{""}, frames: [][3]int64{{0, 0, 1}}}
	b.record(1, 0, wire.Full, 5, 0, 1, 0)
	b.record(1, 0, wire.Repeat, 1, math.MaxUint64, 0) // back by 1 µs
	b.record(1, 0, wire.Full, tachyon.MaxTime-1004, 0, 1, 0)
	batches := func(data []byte) (err error) {
		r := openBytes(t, data)
		for _, e := range r.Batches(nil, tachyon.MaxTime) {
			err = errors.Join(err, e)
		}
		return err
	}
	testenv.OK(t, batches(b.bytes()))
	late := b
	late.samples = 4
	late.record(1, 0, wire.Repeat, 1, 1, 0)
	check(t, batches(late.bytes()), "", "a sample's time of 9007199254740993 µs is beyond the limit of 9007199254740992")
	testenv.Same(t, "samples", testenv.Must(readBytes(late.bytes())), 4)
	full := b
	full.samples = 4
	full.record(1, 0, wire.Full, 1<<62, 0, 1, 0)
	check(t, batches(full.bytes()), "", "is beyond the limit of")

	for at, want := range map[int]string{8: "offset 8: the start of ", 16: "offset 16: the interval of "} {
		data := bytes.Clone(b.bytes())
		binary.LittleEndian.PutUint64(data[at:], tachyon.MaxTime+1)
		_, err := readBytes(data)
		check(t, err, "", want)
		binary.LittleEndian.PutUint64(data[at:], tachyon.MaxTime)
		testenv.OK(t, testenv.Err(reader.New(bytes.NewReader(data))))
	}

	for _, g := range []tachyon.Goroutine{
		{First: 1 << 62}, {Last: 1 << 63}, {FirstWeight: tachyon.MaxTime + 1}, {Labels: []tachyon.LabelSpan{{From: tachyon.MaxTime + 1}}},
	} {
		r := openBytes(t, written(t, writer.Options{}, func(w *writer.Writer) error {
			return w.WriteRecords(&tachyon.Records{Goroutines: []tachyon.Goroutine{g}})
		}))
		_, err := r.Metadata()
		check(t, err, "", "a time of goroutine 0 is beyond the limit")
		if _, err = r.FirstWeights(); g.Labels == nil {
			check(t, err, "", "a time of goroutine 0 is beyond the limit")
		}
		r = openBytes(t, written(t, writer.Options{}, func(w *writer.Writer) error {
			return w.AddMetadata(tachyon.KindGoroutines, map[string]any{"goroutines": []tachyon.Goroutine{g}})
		}))
		check(t, testenv.Err(r.Metadata()), "", "a time of goroutine 0 is beyond the limit")
	}
	for _, d := range []time.Duration{-1, math.MaxInt64} {
		r := openBytes(t, written(t, writer.Options{}, func(w *writer.Writer) error {
			return w.AddMetadata(tachyon.KindSession, tachyon.Session{Duration: d})
		}))
		check(t, testenv.Err(r.Overview()), "", "the session's duration of ")
		path := filepath.Join(t.TempDir(), "x.tach")
		w := testenv.Closes(t, testenv.Must(writer.Create(path, writer.Options{})))
		testenv.OK(t, w.Provisional(tachyon.KindSession, tachyon.Session{}))
		testenv.OK(t, w.WriteRecords(&tachyon.Records{Progress: &tachyon.Progress{Duration: d}}))
		r = open(t, path)
		check(t, testenv.Err(r.Overview()), path, "the session's duration of ")
		check(t, testenv.Err(r.Metadata()), path, "the session's duration of ")
	}
}
