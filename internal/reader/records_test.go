package reader_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv/cmp"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
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
	if _, err := tail.End(nil); err != nil {
		panic(err)
	}
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
	return wire.AppendBlock(wire.AppendBlock(nil, first, nil), second, wire.RawFrame)
}

// A goroutine's parts are one goroutine of the metadata.
func TestSection(t *testing.T) {
	data := sectionFile(someBlocks())
	r := openBytes(t, data)
	m := testenv.Must(r.Metadata())
	want := []tachyon.Goroutine{{ID: 2, First: 1, Last: 2}, {ID: 9, Parent: 1, CreatedBy: "main.main", CreatedAt: "m.go:1", First: 5, Last: 8, FirstWeight: 70,
		Labels: []tachyon.LabelSpan{{From: 5, Labels: map[string]string{"a": "b"}}, {From: 7, Labels: map[string]string{}}}}}
	testenv.NoDiff(t, "goroutines", cmp.Diff(want, m.Goroutines))
	var ids []uint64
	for g, err := range r.Goroutines() {
		testenv.OK(t, err)
		ids = append(ids, g.ID)
	}
	if !slices.Equal(ids, []uint64{9, 2, 9}) {
		t.Errorf("parts of %d", ids)
	}
	for g := range r.Goroutines() {
		if g.ID != 9 {
			t.Errorf("%d comes first", g.ID)
		}
		break
	}
	if present, err := r.VerifyChecksum(); !present || err != nil {
		t.Errorf("checksum: %t, %v", present, err)
	}
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
		if want := fmt.Sprintf("offset %d: record section: wrong checksum", start); !errors.Is(err, reader.ErrChecksum) || !strings.Contains(err.Error(), want) {
			t.Fatalf("byte %d: %v", i, err)
		}
		m, err := r.Metadata()
		var format *reader.FormatError
		if err == nil || m != nil || !errors.As(err, &format) || format.Offset < int64(start) || !strings.Contains(err.Error(), "record section: ") {
			t.Fatalf("byte %d: %v, %v", i, m, err)
		}
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
		if bytes.Equal(changed, data) {
			t.Fatalf("the file has no %s", c.old)
		}
		r, err := reader.New(bytes.NewReader(changed))
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", c.new, err, c.want)
			}
			continue
		}
		testenv.OK(t, err)
		if m, err := r.Metadata(); err != nil || len(m.Goroutines) > 0 {
			t.Errorf("%s: %+v, %v", c.new, m, err)
		}
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
	for _, o := range []writer.Options{{}, {Uncompressed: true}, {Layout: tachyon.CPython315, CPython: &writer.CPythonInfo{Stats: &tachyon.Statistics{Rate: 1}}}} {
		file := written(t, o, func(w *writer.Writer) error {
			err := w.WriteFrames(&tachyon.Sample{Thread: 9}, []tachyon.Frame{{Func: "f"}})
			for i := range uint64(n) {
				err = errors.Join(err, w.WriteRecords(&tachyon.Records{Goroutines: []tachyon.Goroutine{goroutine(i)}}))
			}
			return err
		})
		size := float64(len(file)) / n
		if most := map[bool]float64{false: 16, true: 32}[o.Uncompressed]; size > most {
			t.Errorf("%.1f bytes a goroutine, want at most %.0f", size, most)
		}
		r := openBytes(t, file)
		if present, err := r.VerifyChecksum(); !present || err != nil {
			t.Errorf("checksum: %t, %v", present, err)
		}
		if (r.Statistics() != nil) != (o.Layout == tachyon.CPython315) {
			t.Errorf("statistics %v", r.Statistics())
		}
		m, err := r.Metadata()
		if err != nil || len(m.Goroutines) != n {
			t.Fatalf("%v, %v", m, err)
		}
		for i := range uint64(n) {
			if want := goroutine(i); !reflect.DeepEqual(m.Goroutines[i], want) {
				t.Fatalf("goroutine %d is %+v, want %+v", i, m.Goroutines[i], want)
			}
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
		n := testenv.Allocated(func() {
			r := testenv.Must(reader.New(bytes.NewReader(data)))
			defer r.Close()
			m, err := r.Metadata()
			var format *reader.FormatError
			if err != nil && (!errors.As(err, &format) || format.Offset < 0 || format.Offset > int64(len(data)) || m != nil) {
				t.Fatalf("%v, %v", m, err)
			}
			for range r.Batches(nil, tachyon.MaxTime) {
			}
		})
		if bound := 256<<20 + 2000*uint64(len(data)); n > bound {
			t.Errorf("%d bytes allocated for a file of %d, want at most %d", n, len(data), bound)
		}
	})
}
