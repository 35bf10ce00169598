package wire

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/gotach/profiler/tachyon"
)

func TestHeader(t *testing.T) {
	for _, h := range []tachyon.Header{
		{Layout: tachyon.Document, Start: 1, Interval: 2, Samples: 3, Threads: 4, StringOffset: 5, FrameOffset: 6, Compression: 1},
		{Layout: tachyon.CPython315, Start: 1 << 40, Interval: 2, Samples: 3 << 40, Threads: 4, StringOffset: 5, FrameOffset: 6,
			Compression: 1, Python: [3]uint8{3, 15, 1}, Config: 9},
	} {
		b := EncodeHeader(&h)
		got, err := DecodeHeader(b[:])
		if err != nil || got != h {
			t.Errorf("%+v becomes %+v, %v", h, got, err)
		}
		if _, err := DecodeHeader(b[:63]); err == nil {
			t.Error("63 bytes are accepted as a header")
		}
		b[4] = 7
		if _, err := DecodeHeader(b[:]); err == nil {
			t.Error("version 7 is accepted")
		}
	}
}

func TestStatistics(t *testing.T) {
	one, two, nan := 1.0, 2.0, math.NaN()
	for _, s := range []tachyon.Statistics{
		{Duration: 1.5, Rate: 999},
		{Duration: 1.5, Rate: 999, ErrorRate: &one},
		{Duration: 1.5, Rate: 999, Missed: &two},
		{Duration: 1.5, Rate: 999, ErrorRate: &one, Missed: &two},
	} {
		b, err := EncodeStatistics(&s)
		if err != nil {
			t.Fatal(err)
		}
		got, size, _, err := DecodeStatistics(append([]byte("frames"), b...), binary.LittleEndian)
		if err != nil || size != len(b) {
			t.Errorf("%d of %d bytes, %v", size, len(b), err)
		}
		if d := cmp.Diff(&s, got); d != "" {
			t.Error(d)
		}
		binary.LittleEndian.PutUint64(b[8:], math.Float64bits(nan))
		if _, _, before, err := DecodeStatistics(b, binary.LittleEndian); err == nil || before != len(b)-8 {
			t.Errorf("a rate that is no number: %v, %d bytes before the end", err, before)
		}
	}
	if _, err := EncodeStatistics(&tachyon.Statistics{Missed: &nan}); err == nil {
		t.Error("NaN is encoded")
	}
	if b, err := EncodeStatistics(nil); b != nil || err != nil {
		t.Errorf("no statistics are %x, %v", b, err)
	}
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
		if want := (Footer{Strings: 4, Frames: 2, Size: uint64(size)}); foot != want {
			t.Errorf("footer %+v, want %+v", foot, want)
		}
		text := b.String()
		const strings = "\x04file\x08function\x08metadata" + "\x20" + `{"gotach":"checksum","crc32c":7}`
		if got := text[h.StringOffset:h.FrameOffset]; got != strings {
			t.Errorf("strings %q", got)
		}
		if got, want := text[h.FrameOffset:size-tachyon.FooterSize], "\x00\x01\x80\x01\x01\x00\x01"+string(statistics); got != want {
			t.Errorf("frames %q, want %q", got, want)
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
	z, err := NewEncoder(0)
	if err != nil {
		t.Fatal(err)
	}
	z.Reset(&open)
	if _, err := z.Write(records); err != nil {
		t.Fatal(err)
	}
	if err := z.Flush(); err != nil {
		t.Fatal(err)
	}
	const zstdOn, start = tachyon.CompressionZstd, tachyon.HeaderSize
	d, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
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
	if b := EndRegion(zstdOn, start+1, false); len(b) > 0 {
		t.Errorf("a region of whole frames ends with %x", b)
	}
	if b := EndRegion(tachyon.CompressionNone, start, false); len(b) > 0 {
		t.Errorf("an uncompressed region ends with %x", b)
	}
}
