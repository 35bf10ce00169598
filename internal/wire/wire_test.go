package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/gotach/profiler/tachyon"
)

func TestStatistics(t *testing.T) {
	one, two, nan := 1.0, 2.0, math.NaN()
	for _, s := range []tachyon.Statistics{
		{Duration: 1.5, Rate: 999},
		{Duration: 1.5, Rate: 999, ErrorRate: &one},
		{Duration: 1.5, Rate: 999, Missed: &two},
		{Duration: 1.5, Rate: 999, ErrorRate: &one, Missed: &two},
	} {
		b := testenv.Must(EncodeStatistics(&s))
		got, size, _, err := DecodeStatistics(append([]byte("frames"), b...), binary.LittleEndian)
		if err != nil || size != len(b) {
			t.Errorf("%d of %d bytes, %v", size, len(b), err)
		}
		testenv.NoDiff(t, "", cmp.Diff(&s, got))
		binary.LittleEndian.PutUint64(b[8:], math.Float64bits(nan))
		if _, _, before, err := DecodeStatistics(b, binary.LittleEndian); err == nil || before != len(b)-8 {
			t.Errorf("a rate that is no number: %v, %d bytes before the end", err, before)
		}
	}
	old := "\x00\x00\x00\x00\x00\x00\xf0\x3f\x00\x00\x00\x00\x00\x00\x00\x40TACHSTAT\x01\x00\x00\x00\x20\x00\x00\x00"
	for _, c := range []struct {
		b            string
		want         *tachyon.Statistics
		size, before int
		fails        bool
	}{
		{old, &tachyon.Statistics{Duration: 1, Rate: 2}, 32, 0, false},
		{"frames" + old, &tachyon.Statistics{Duration: 1, Rate: 2}, 32, 0, false},
		{old[1:], nil, 0, 0, false},                          // no block
		{old[:16] + "tachstat" + old[24:], nil, 0, 0, false}, // nor here
		{old[:24] + "\x02" + old[25:], nil, 0, 0, false},     // another version
		{old[:28] + "\x1f\x00\x00\x00", nil, 0, 4, true},     // too small
		{old[:28] + "\x21\x00\x00\x00", nil, 0, 4, true},     // larger than the file
		{old[:6] + "\xf0\x7f" + old[8:], nil, 0, 32, true},   // infinite
		{old[:8] + old[:6] + "\xf0\x7f" + old[16:], nil, 0, 24, true},
	} {
		got, size, before, err := DecodeStatistics([]byte(c.b), binary.LittleEndian)
		if d := cmp.Diff(c.want, got); d != "" || size != c.size || before != c.before || (err != nil) != c.fails {
			t.Errorf("% x: %+v, %d, %d, %v", c.b, got, size, before, err)
		}
	}
	testenv.Fails(t, "NaN", testenv.Err(EncodeStatistics(&tachyon.Statistics{Missed: &nan})), "the statistics hold NaN")
	testenv.Same(t, "no statistics", len(testenv.Must(EncodeStatistics(nil))), 0)
}

// The offsets in the header and the footer agree with the written bytes.
func TestTail(t *testing.T) {
	for _, statistics := range [][]byte{nil, []byte("statistics")} {
		var b bytes.Buffer
		b.WriteString("region")
		h := tachyon.Header{Layout: tachyon.Document}
		tail := NewTail(&b, &h, 6)
		tail.Strings(AppendString(AppendString(nil, "file"), "function"), 2)
		tail.String("metadata")
		tail.Checksum(7, &tachyon.Section{}, 0)
		tail.Frames(AppendFrame(tail.Buffer(), h.Layout, 0, 1, 64, nil), 1)
		tail.Frames(AppendFrame(tail.Buffer(), h.Layout, 1, 0, -1, nil), 1)
		size, err := tail.End(statistics)
		if err != nil || size != int64(b.Len()) {
			t.Fatalf("%d of %d bytes, %v", size, b.Len(), err)
		}
		foot := DecodeFooter(b.Bytes()[size-tachyon.FooterSize:], binary.LittleEndian)
		testenv.Same(t, "footer", foot, Footer{Strings: 4, Frames: 2, Size: uint64(size)})
		text := b.String()
		const table = "\x04file\x08function\x08metadata" + "\x20" + `{"gotach":"checksum","crc32c":7}`
		testenv.Same(t, "strings", text[h.StringOffset:h.FrameOffset], table)
		testenv.Same(t, "frames", text[h.FrameOffset:size-tachyon.FooterSize], "\x00\x01\x80\x01\x01\x00\x01"+string(statistics))
	}
	// The place of the record section is behind the strings that tell it and the frame table.
	for _, offset := range []int64{64, 9_850, 1e9} {
		var b bytes.Buffer
		section := tachyon.Section{Length: 7}
		tail := NewTail(&b, &tachyon.Header{}, offset)
		tail.Checksum(7, &section, 5)
		tail.Frames([]byte("frame"), 1)
		tail.Records([]byte("records"))
		_, err := tail.End(nil)
		if at := offset + int64(bytes.Index(b.Bytes(), []byte("framerecords"))) + 5; section.Offset != at || !strings.Contains(b.String(), fmt.Sprintf(`"version":1,"offset":%d,"length":7,`, at)) || err != nil {
			t.Errorf("the section is at %d, want %d; %v", section.Offset, at, err)
		}
	}
	// A tail without frames has an empty frame table.
	h := tachyon.Header{}
	if _, err := NewTail(io.Discard, &h, 100).End(nil); err != nil || h.FrameOffset != 100 || h.StringOffset != 100 {
		t.Errorf("%+v, %v", h, err)
	}
}

// The bytes of EndRegion complete a region, and RawFrame's frames contain the given records.
func TestRegions(t *testing.T) {
	records := bytes.Repeat([]byte("records "), 50_000)
	var open bytes.Buffer
	z := testenv.Must(NewEncoder(0))
	z.Reset(&open)
	testenv.OK(t, testenv.Err(z.Write(records)))
	testenv.OK(t, z.Flush())
	const zstdOn, start = tachyon.CompressionZstd, tachyon.HeaderSize
	d := testenv.Must(zstd.NewReader(nil))
	defer d.Close()
	for name, c := range map[string]struct{ region, want []byte }{
		"open":  {append(open.Bytes(), EndRegion(zstdOn, start+int64(open.Len()), true)...), records},
		"empty": {EndRegion(zstdOn, start, false), nil},
		"raw":   {RawFrame(records), records},
		"none":  {RawFrame(nil), nil},
	} {
		got, err := d.DecodeAll(c.region, nil)
		if err != nil || !bytes.Equal(got, c.want) || len(c.region) == 0 {
			t.Errorf("%s: %d bytes, want %d; %v", name, len(got), len(c.want), err)
		}
	}
	testenv.Same(t, "end of a region of whole frames", len(EndRegion(zstdOn, start+1, false)), 0)
	testenv.Same(t, "end of an uncompressed region", len(EndRegion(tachyon.CompressionNone, start, false)), 0)
}

// The bytes of the parts of a file are those that package tachyon describes.
func TestBytes(t *testing.T) {
	documents := tachyon.Header{Layout: tachyon.Document, Start: 1, Interval: 2, Samples: 3, Threads: 4, StringOffset: 5, FrameOffset: 6, Compression: 1}
	pythons := documents
	pythons.Layout, pythons.Python, pythons.Config = tachyon.CPython315, [3]uint8{3, 15, 7}, 9
	document, cpython := EncodeHeader(&documents), EncodeHeader(&pythons)
	for want, b := range map[tachyon.Header][]byte{documents: document[:], pythons: cpython[:]} {
		testenv.Same(t, "header", testenv.Must(DecodeHeader(b)), want)
		testenv.Fails(t, "63 bytes", testenv.Err(DecodeHeader(b[:63])), "too short for a header")
		other := slices.Clone(b)
		other[4] = 7
		testenv.Fails(t, "version 7", testenv.Err(DecodeHeader(other)), "format version 7")
	}
	foot := EncodeFooter(&Footer{Strings: 1, Frames: 2, Size: 3})
	missed := 2.0
	statistics := testenv.Must(EncodeStatistics(&tachyon.Statistics{Duration: 1, Rate: 1, Missed: &missed}))
	var e RecordEncoder
	span := tachyon.LabelSpan{From: 14, Labels: map[string]string{"k": "v"}}
	goroutine := e.AppendGoroutine(nil, &tachyon.Goroutine{ID: 3, Parent: 2, CreatedBy: "f", CreatedAt: "g", First: 10, Last: 12, FirstWeight: 5, Labels: []tachyon.LabelSpan{span, span}})
	again := e.AppendGoroutine(nil, &tachyon.Goroutine{ID: 4, Last: 13})
	object := func(v any) []byte {
		return testenv.Must(EncodeMetadata("kind", v))
	}
	const zeros = "\x00\x00\x00\x00\x00\x00\x00\x00"
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"header": {document[:], "HCAT\x02\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x04\x00\x00\x00" +
			"\x05\x00\x00\x00\x00\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00" + zeros},
		"header of CPython": {cpython[:], "HCAT\x01\x00\x00\x00\x03\x0f\x07\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00" +
			"\x03\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x09\x00\x00\x00"},
		"footer": {foot[:], "\x01\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00" + zeros + zeros},
		"statistics": {statistics, "\x00\x00\x00\x00\x00\x00\xf0\x3f\x00\x00\x00\x00\x00\x00\xf0\x3f" + zeros + "\x00\x00\x00\x00\x00\x00\x00\x40" +
			"\x02\x00\x00\x00\x00\x00\x00\x00TACHSTAT\x01\x00\x00\x00\x38\x00\x00\x00"},
		"frame":             {AppendFrame(nil, tachyon.Document, 1, 200, -1, nil), "\x01\xc8\x01\x01"},
		"frame of CPython":  {AppendFrame(nil, tachyon.CPython315, 1, 2, 3, &tachyon.Span{Lines: 1, Column: 5, Columns: 2, Opcode: 9}), "\x01\x02\x06\x02\x08\x04\x08"},
		"goroutine":         {goroutine, "\x02\x01f\x02\x01g\x02\x01k\x02\x01v\x14\x02\x06\x3f\x04\x01\x02\x14\x04\x05\x02\x08\x01\x03\x00\x01v\x00\x01\x03\x04"},
		"another goroutine": {again, "\x04\x02\x02\x00\x06"},
		"progress":          {AppendProgress(nil, []byte("{}")), "\x03\x03{}"},
		"object":            {AppendObject(nil, []byte("{}")), "\x03\x04{}"},
		"block":             {AppendBlock([]byte("x"), []byte("ab"), nil), "x\x02\x00\x00\x00\x02\x00\x00\x00\x36\x29\xa2\xe2ab"},
		"metadata":          {object(map[string]int{"n": 1}), `{"gotach":"kind","n":1}`},
		"empty metadata":    {object(struct{}{}), `{"gotach":"kind"}`},
		"a list":            {object([]int{1}), `{"gotach":"kind","kind":[1]}`},
		"encodings":         {[]byte{Repeat, Full, Suffix, PopPush}, "\x00\x01\x02\x03"},
	} {
		testenv.Same(t, name, string(c.got), c.want)
	}
}
