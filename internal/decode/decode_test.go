package decode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

func TestStatistics(t *testing.T) {
	one, two, nan := 1.0, 2.0, math.NaN()
	for _, with := range [][2]*float64{{}, {&one}, {nil, &two}, {&one, &two}} {
		s := tachyon.Statistics{Duration: 1.5, Rate: 999, ErrorRate: with[0], Missed: with[1]}
		b := testenv.Must(EncodeStatistics(&s))
		got, size, _, err := Statistics(append([]byte("frames"), b...), binary.LittleEndian)
		testenv.FailIf(t, err != nil || size != len(b), "%d of %d bytes, %v", size, len(b), err)
		testenv.NoDiff(t, "", cmp.Diff(&s, got))
		binary.LittleEndian.PutUint64(b[8:], math.Float64bits(nan))
		_, _, before, err := Statistics(b, binary.LittleEndian)
		testenv.FailIf(t, err == nil || before != len(b)-8, "a rate that is no number: %v, %d bytes before the end", err, before)
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
		got, size, before, err := Statistics([]byte(c.b), binary.LittleEndian)
		d := cmp.Diff(c.want, got)
		testenv.FailIf(t, d != "" || size != c.size || before != c.before || (err != nil) != c.fails, "% x: %+v, %d, %d, %v", c.b, got, size, before, err)
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
		tail := wire.NewTail(&b, &h, 6)
		tail.Strings(wire.AppendString(wire.AppendString(nil, "file"), "function"), 2)
		tail.String("metadata")
		tail.Checksum(7, &tachyon.Section{}, 0)
		tail.Frames(wire.AppendFrame(tail.Buffer(), h.Layout, 0, 1, 64, nil), 1)
		tail.Frames(wire.AppendFrame(tail.Buffer(), h.Layout, 1, 0, -1, nil), 1)
		size, err := tail.End(statistics)
		testenv.FailIf(t, err != nil || size != int64(b.Len()), "%d of %d bytes, %v", size, b.Len(), err)
		foot := Footer(b.Bytes()[size-tachyon.FooterSize:], binary.LittleEndian)
		testenv.Same(t, "footer", foot, wire.Footer{Strings: 4, Frames: 2, Size: uint64(size)})
		text := b.String()
		const table = "\x04file\x08function\x08metadata" + "\x20" + `{"gotach":"checksum","crc32c":7}`
		testenv.Same(t, "strings", text[h.StringOffset:h.FrameOffset], table)
		testenv.Same(t, "frames", text[h.FrameOffset:size-tachyon.FooterSize], "\x00\x01\x80\x01\x01\x00\x01"+string(statistics))
	}
	// The place of the record section is behind the strings that tell it and the frame table.
	for _, offset := range []int64{64, 9_850, 1e9} {
		var b bytes.Buffer
		section := tachyon.Section{Length: 7}
		tail := wire.NewTail(&b, &tachyon.Header{}, offset)
		tail.Checksum(7, &section, 5)
		tail.Frames([]byte("frame"), 1)
		tail.Records([]byte("records"))
		testenv.OK(t, testenv.Err(tail.End(nil)))
		at := offset + int64(strings.Index(b.String(), "framerecords")) + 5
		testenv.Same(t, "the section's place", section.Offset, at)
		testenv.Has(t, "the tail", b.String(), fmt.Sprintf(`"version":1,"offset":%d,"length":7,`, at))
	}
	// A tail without frames has an empty frame table.
	h := tachyon.Header{}
	_, err := wire.NewTail(io.Discard, &h, 100).End(nil)
	testenv.FailIf(t, err != nil || h.FrameOffset != 100 || h.StringOffset != 100, "%+v, %v", h, err)
}

// The bytes of wire.EndRegion complete a region, and RawFrame's frames contain the given records.
func TestRegions(t *testing.T) {
	records := bytes.Repeat([]byte("records "), 50_000)
	var open bytes.Buffer
	z := testenv.Must(wire.NewEncoder(0))
	z.Reset(&open)
	testenv.OK(t, testenv.Err(z.Write(records)))
	testenv.OK(t, z.Flush())
	const zstdOn, start = tachyon.CompressionZstd, tachyon.HeaderSize
	d := testenv.Must(zstd.NewReader(nil))
	defer d.Close()
	for name, c := range map[string]struct{ region, want []byte }{
		"open":  {append(open.Bytes(), wire.EndRegion(zstdOn, start+int64(open.Len()), true)...), records},
		"empty": {wire.EndRegion(zstdOn, start, false), nil},
		"raw":   {RawFrame(records), records},
		"none":  {RawFrame(nil), nil},
	} {
		got, err := d.DecodeAll(c.region, nil)
		testenv.FailIf(t, err != nil || !bytes.Equal(got, c.want) || len(c.region) == 0, "%s: %d bytes, want %d; %v", name, len(got), len(c.want), err)
	}
	testenv.Same(t, "end of a region of whole frames", len(wire.EndRegion(zstdOn, start+1, false)), 0)
	testenv.Same(t, "end of an uncompressed region", len(wire.EndRegion(tachyon.CompressionNone, start, false)), 0)
}

// The bytes of the parts of a file are those that package tachyon describes.
func TestBytes(t *testing.T) {
	documents := tachyon.Header{Layout: tachyon.Document, Start: 1, Interval: 2, Samples: 3, Threads: 4, StringOffset: 5, FrameOffset: 6, Compression: 1}
	pythons := documents
	pythons.Layout, pythons.Python, pythons.Config = tachyon.CPython315, [3]uint8{3, 15, 7}, 9
	document, cpython := wire.EncodeHeader(&documents), wire.EncodeHeader(&pythons)
	for want, b := range map[tachyon.Header][]byte{documents: document[:], pythons: cpython[:]} {
		testenv.Same(t, "header", testenv.Must(Header(b)), want)
		testenv.Fails(t, "63 bytes", testenv.Err(Header(b[:63])), "too short for a header")
		other := slices.Clone(b)
		other[4] = 7
		testenv.Fails(t, "version 7", testenv.Err(Header(other)), "format version 7")
	}
	foot := wire.EncodeFooter(&wire.Footer{Strings: 1, Frames: 2, Size: 3})
	missed := 2.0
	statistics := testenv.Must(EncodeStatistics(&tachyon.Statistics{Duration: 1, Rate: 1, Missed: &missed}))
	var e wire.RecordEncoder
	span := tachyon.LabelSpan{From: 14, Labels: map[string]string{"k": "v"}}
	goroutine := e.AppendGoroutine(nil, &tachyon.Goroutine{ID: 3, Parent: 2, CreatedBy: "f", CreatedAt: "g", First: 10, Last: 12, FirstWeight: 5, Labels: []tachyon.LabelSpan{span, span}})
	again := e.AppendGoroutine(nil, &tachyon.Goroutine{ID: 4, Last: 13})
	object := func(v any) []byte {
		return testenv.Must(wire.EncodeMetadata("kind", v))
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
		"frame":             {wire.AppendFrame(nil, tachyon.Document, 1, 200, -1, nil), "\x01\xc8\x01\x01"},
		"frame of CPython":  {wire.AppendFrame(nil, tachyon.CPython315, 1, 2, 3, &tachyon.Span{Lines: 1, Column: 5, Columns: 2, Opcode: 9}), "\x01\x02\x06\x02\x08\x04\x08"},
		"goroutine":         {goroutine, "\x02\x01f\x02\x01g\x02\x01k\x02\x01v\x14\x02\x06\x3f\x04\x01\x02\x14\x04\x05\x02\x08\x01\x03\x00\x01v\x00\x01\x03\x04"},
		"another goroutine": {again, "\x04\x02\x02\x00\x06"},
		"progress":          {wire.AppendProgress(nil, []byte("{}")), "\x03\x03{}"},
		"object":            {wire.AppendObject(nil, []byte("{}")), "\x03\x04{}"},
		"block":             {wire.AppendBlock([]byte("x"), []byte("ab"), nil), "x\x02\x00\x00\x00\x02\x00\x00\x00\x36\x29\xa2\xe2ab"},
		"metadata":          {object(map[string]int{"n": 1}), `{"gotach":"kind","n":1}`},
		"empty metadata":    {object(struct{}{}), `{"gotach":"kind"}`},
		"a list":            {object([]int{1}), `{"gotach":"kind","kind":[1]}`},
		"encodings":         {[]byte{wire.Repeat, wire.Full, wire.Suffix, wire.PopPush}, "\x00\x01\x02\x03"},
	} {
		testenv.Same(t, name, string(c.got), c.want)
	}
}

func goroutines() *rapid.Generator[tachyon.Goroutine] {
	text := rapid.OneOf(rapid.SampledFrom([]string{"", "main.main", "k", "v"}), rapid.StringN(0, 20, -1)).AsAny()
	id := rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 5000)).AsAny()
	us := rapid.OneOf(rapid.Uint64Range(0, tachyon.MaxTime), rapid.Uint64Range(0, 5000)).AsAny()
	return rapid.MakeCustom[tachyon.Goroutine](rapid.MakeConfig{
		Kinds:  map[reflect.Kind]*rapid.Generator[any]{reflect.String: text, reflect.Uint64: us},
		Fields: map[reflect.Type]map[string]*rapid.Generator[any]{reflect.TypeFor[tachyon.Goroutine](): {"ID": id, "Parent": id}},
	})
}

// decode returns the goroutines of a block.
func decode(t rapid.TB, block []byte) (list []tachyon.Goroutine) {
	t.Helper()
	var d Blocks
	defer d.Close()
	b := testenv.Must(d.Decode(CutBlock(block), block[wire.BlockHeader:]))
	at, err := Records(b, func(r Record) error { list = append(list, *r.Goroutine); return nil })
	testenv.StopIf(t, err != nil, "at %d: %v", at, err)
	i := 0
	if at, err := Weights(b, func(id, weight uint64) error {
		g := list[i]
		testenv.FailIf(t, g.ID != id || g.FirstWeight != weight, "weight %d of %d, want %d of %d", weight, id, g.FirstWeight, g.ID)
		i++
		return nil
	}); err != nil || i != len(list) {
		t.Errorf("%d of %d weights, at %d: %v", i, len(list), at, err)
	}
	return list
}

// What is encoded is decoded again, in each block for itself, compressed or not. Unknown records, and
// unknown bytes at the end of a record, do not matter.
func TestRecords(t *testing.T) {
	z := testenv.Must(wire.NewBlockEncoder())
	compressions := []func([]byte) []byte{nil, RawFrame, func(b []byte) []byte { return z.EncodeAll(b, nil) }}
	rapid.Check(t, func(t *rapid.T) {
		var e wire.RecordEncoder
		for range 2 {
			list := rapid.SliceOfN(goroutines(), 0, 20).Draw(t, "goroutines")
			var b []byte
			for i := range list {
				b = e.AppendGoroutine(b, &list[i])
				if rapid.Bool().Draw(t, "unknown") {
					b = append(append(b, 8, rapid.Byte().Filter(func(k byte) bool { return k > wire.RecordStops }).Draw(t, "kind")), "content"...)
				}
			}
			e.Reset()
			testenv.Same(t, "whole records", Whole(append(slices.Clip(b), 7, wire.RecordGoroutine)), len(b))
			for _, c := range compressions {
				testenv.NoDiff(t, "goroutines", cmp.Diff(list, decode(t, wire.AppendBlock(nil, b, c)), cmp.EquateEmpty()))
			}
		}
	})
	g := tachyon.Goroutine{ID: 7, CreatedBy: "f", Last: 3, Labels: []tachyon.LabelSpan{{From: 1, Labels: map[string]string{"a": "b"}}}}
	var e wire.RecordEncoder
	b := e.AppendGoroutine(nil, &g)
	_, n := cutRecord(b)
	_, m := cutRecord(b[n:])
	later := append(slices.Clone(b), "more"...) // a goroutine's record of a later version
	later[n+m] += 4                             // the third record, after the strings f and a
	testenv.NoDiff(t, "with more fields", cmp.Diff([]tachyon.Goroutine{g}, decode(t, wire.AppendBlock(nil, later, nil))))
}

// Each kind of record is found among the others, and an error of yield ends with its place.
func TestKinds(t *testing.T) {
	var e wire.RecordEncoder
	b := wire.AppendProgress(nil, []byte(`{"p":1}`))
	b = wire.AppendObject(e.AppendGoroutine(b, &tachyon.Goroutine{ID: 1, CreatedBy: "f"}), []byte(`{"o":1}`))
	last := len(b)
	b = wire.AppendObject(wire.AppendProgress(b, []byte(`{"p":2}`)), []byte(`{"o":2}`))
	stop := errors.New("stop")
	for want, decode := range map[string]func([]byte, func([]byte) error) (int, error){`{"p":1}{"p":2}`: Progress, `{"o":1}{"o":2}`: Objects} {
		got := ""
		at, err := decode(b, func(json []byte) error { got += string(json); return nil })
		testenv.FailIf(t, got != want || err != nil, "%s, want %s; %d, %v", got, want, at, err)
		at, err = decode(b[last:], func([]byte) error { return stop })
		testenv.FailIf(t, err != stop || at != strings.Index(string(b[last:]), want[len(want)/2:])-2, "%s: stopped at %d, %v", want, at, err)
		at, err = decode(b[:len(b)-1], func([]byte) error { return nil })
		testenv.FailIf(t, err == nil || at != len(b)-9, "%s: a truncated record at %d, %v", want, at, err)
	}
	var got []string
	at, err := Records(b, func(r Record) error {
		if got = append(got, fmt.Sprintf("%s%s%t", r.Progress, r.Object, r.Goroutine != nil)); len(got) == 4 {
			return stop
		}
		return nil
	})
	if want := []string{`{"p":1}false`, "true", `{"o":1}false`, `{"p":2}false`}; !slices.Equal(got, want) || err != stop || at != last {
		t.Errorf("records %q, want %q; stopped at %d, %v", got, want, at, err)
	}
	at, err = Weights(b, func(uint64, uint64) error { return stop })
	testenv.FailIf(t, err != stop || at != 9+3, "weights: stopped at %d, %v", at, err)
}

// No label set is too large: what does not fit is cut off or goes into another record.
func TestLargeRecords(t *testing.T) {
	g := tachyon.Goroutine{ID: 1, First: 2, Last: 9000}
	huge := strings.Repeat("ä", wire.MaxText)
	g.CreatedBy = huge
	for i := range uint64(100) {
		g.Labels = append(g.Labels, tachyon.LabelSpan{From: i, Labels: map[string]string{"k": huge[i*2:], "n": "v"}})
	}
	all := map[string]string{}
	for i := range 100 {
		all[string(rune('a'+i))] = huge
	}
	g.Labels = append(g.Labels, tachyon.LabelSpan{From: 100, Labels: all})
	var e wire.RecordEncoder
	b := e.AppendGoroutine(nil, &g)
	var got tachyon.Goroutine
	for i, part := range decode(t, wire.AppendBlock(nil, b, nil)) {
		if i == 0 {
			got = part
		} else {
			got.Add(&part)
		}
	}
	testenv.FailIf(t, got.Last != 9000 || got.First != 2 || len(got.Labels) != 101 || got.CreatedBy != huge[:wire.MaxText], "%d to %d, %d spans", got.First, got.Last, len(got.Labels))
	for i, span := range got.Labels[:100] {
		testenv.FailIf(t, span.From != uint64(i) || span.Labels["n"] != "v" || span.Labels["k"] != huge[:wire.MaxText], "span %d is from %d, with %d bytes", i, span.From, len(span.Labels["k"]))
	}
	testenv.Within(t, "labels of 64 KB in a record", len(got.Labels[100].Labels), 10, 20)
	for at := 0; at < len(b); {
		_, n := cutRecord(b[at:])
		at += n
		testenv.Within(t, "bytes of a record", n, 1, wire.MaxRecord+wire.MaxText+100)
	}
}

// Damaged blocks and records cause errors.
func TestDamagedRecords(t *testing.T) {
	var e wire.RecordEncoder
	b := e.AppendGoroutine(nil, &tachyon.Goroutine{ID: 7, CreatedBy: "f", Last: 3})
	for n := 1; n < len(b); n++ {
		seen := 0
		at, err := Records(b[:n], func(Record) error { seen++; return nil })
		whole := Whole(b[:n])
		testenv.FailIf(t, seen > 0 || whole < n && (err == nil || at != whole), "the first %d of %d bytes: %d goroutines, at %d, %v", n, len(b), seen, at, err)
	}
	for _, c := range []struct{ b, want string }{
		{"\x00", "truncated record"},
		{"\x05\x02\x02\x02\x07\x02", "refers to string 7, but the block has 0"},
		{"\x06\x02\x02\x20\x02\x7f\x00", "do not fit"},
		{"\x03\x02\x02\x3f", "truncated record"},
		{"\x03\x02\x02\x00", "truncated record"},
		{string(new(wire.RecordEncoder).AppendGoroutine(nil, &tachyon.Goroutine{ID: 8, Last: tachyon.MaxTime + 1})), "a time of goroutine 8 is beyond the limit"},
	} {
		testenv.Fails(t, c.b, testenv.Err(Records([]byte(c.b), func(Record) error { return nil })), c.want)
	}
	var d Blocks
	defer d.Close()
	block := wire.AppendBlock(nil, b, RawFrame)
	for _, c := range []struct {
		edit func([]byte)
		want string
	}{
		{func(b []byte) { b[4]++ }, "its header says"},
		{func(b []byte) { b[7] = 1 }, "the most are"},
		{func(b []byte) { b[len(b)-1]++ }, "wrong checksum"},
		{func(b []byte) {
			copy(b, wire.AppendBlock(nil, bytes.Repeat([]byte{1}, len(b)-wire.BlockHeader), nil))
			b[4]++
		}, "zstd: "},
	} {
		changed := slices.Clone(block)
		c.edit(changed)
		testenv.Fails(t, c.want, testenv.Err(d.Decode(CutBlock(changed), changed[wire.BlockHeader:])), c.want)
	}
}

// Stops are decoded as they were, among other records, and in several records if there are many.
func TestStopRecords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := tachyon.Stops{Until: rapid.Uint64Range(0, tachyon.MaxTime).Draw(t, "until")}
		ids := rapid.SliceOfDistinct(rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 500)), rapid.ID).Draw(t, "ids")
		slices.Sort(ids)
		for _, id := range ids {
			s.List = append(s.List, tachyon.GoroutineStops{ID: id, N: rapid.Uint64Range(0, tachyon.MaxTime).Draw(t, "n"), AtLeast: rapid.Bool().Draw(t, "at least")})
		}
		var e wire.RecordEncoder
		b := e.AppendGoroutine(nil, &tachyon.Goroutine{ID: 3, CreatedBy: "f"})
		b = e.AppendStops(b, &s)
		b = e.AppendGoroutine(b, &tachyon.Goroutine{ID: 4, CreatedBy: "f"})
		check := func(got *tachyon.Stops) { testenv.NoDiff(t, "stops", cmp.Diff(&s, got, cmp.EquateEmpty())) }
		n := 0
		_, err := Stops(b, func(got *tachyon.Stops) error { n++; check(got); return nil })
		testenv.FailIf(t, err != nil || n != 1, "%d records, %v", n, err)
		var goroutines []uint64
		if _, err := Records(b, func(r Record) error {
			if r.Stops != nil {
				check(r.Stops)
			} else {
				goroutines = append(goroutines, r.Goroutine.ID)
			}
			return nil
		}); err != nil || !slices.Equal(goroutines, []uint64{3, 4}) {
			t.Fatalf("goroutines %v beside the stops, %v", goroutines, err)
		}
		for end := range b { // what is cut off is an error, or whole records
			_, _ = Stops(b[:end], func(*tachyon.Stops) error { return nil })
		}
	})
	var many tachyon.Stops
	for i := range uint64(wire.MaxStops + 1) {
		many.List = append(many.List, tachyon.GoroutineStops{ID: i, N: 1})
	}
	var e wire.RecordEncoder
	var sizes []int
	_, err := Stops(e.AppendStops(nil, &many), func(s *tachyon.Stops) error { sizes = append(sizes, len(s.List)); return nil })
	testenv.FailIf(t, err != nil || !slices.Equal(sizes, []int{wire.MaxStops, 1}), "many are in records of %v, %v", sizes, err)
	for _, bad := range []tachyon.Stops{
		{Until: tachyon.MaxTime + 1},
		{List: []tachyon.GoroutineStops{{ID: 5, N: tachyon.MaxTime + 1}}},
		{List: []tachyon.GoroutineStops{{ID: 5, N: 1}, {ID: 5, N: 1}}},
		{List: []tachyon.GoroutineStops{{ID: 5, N: 1}, {ID: 4, N: 1}}},
	} {
		at, err := Stops(e.AppendStops(nil, &bad), func(*tachyon.Stops) error { return nil })
		testenv.FailIf(t, err == nil || at != 0 || !strings.Contains(err.Error(), "stops"), "%+v: at %d, %v", bad, at, err)
	}
	claims := []byte("\x07\x05\x01\xc8\xc8\x03\x01\x01")
	testenv.Fails(t, "more goroutines than bytes", testenv.Err(Stops(claims, func(*tachyon.Stops) error { return nil })), "do not fit")
}
