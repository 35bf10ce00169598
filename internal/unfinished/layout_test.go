//go:build darwin || dragonfly || freebsd || linux || netbsd

package unfinished

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

var head = journal.Head{Layout: uint32(tachyon.Document), Start: 1_000_000, Interval: 1000}

func entry(i int) []byte {
	s := fmt.Sprintf("a string that is the %dth", i)
	return append(binary.AppendUvarint(nil, uint64(len(s))), s...)
}

func load(t *testing.T, path string) *State {
	t.Helper()
	return testenv.Must(Load(path))
}

// All entries can be loaded in their order at any time, also after the file has grown many
// times and after its writer has ended. Remove deletes the file.
func TestGrow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	j := testenv.Must(journal.Create(path, head))
	var strings, frames []byte
	const n = 60_000
	for i := range n {
		strings = append(strings, entry(i)...)
		testenv.OK(t, j.String(entry(i)))
		frame := binary.AppendUvarint(binary.AppendUvarint(binary.AppendUvarint(nil, uint64(i)), uint64(i)), 7)
		frames = append(frames, frame...)
		testenv.OK(t, j.Frame(frame))
	}
	testenv.Within(t, "MB of the journal", int(testenv.Must(os.Stat(path+journal.Suffix)).Size()>>20), 3, 100)
	testenv.OK(t, errors.Join(j.Metadata([]byte(`{"gotach":"a","n":1}`), true), j.Metadata([]byte(`{"gotach":"b"}`), false), j.Metadata([]byte(`{"gotach":"a","n":2}`), true)))
	for _, closed := range []bool{false, true} {
		if closed {
			testenv.OK(t, j.Close())
		}
		s := load(t, path)
		testenv.Prints(t, "strings and frames, equal", fmt.Sprint(n, n, " true true"), s.NStrings, s.NFrames, bytes.Equal(s.Strings, strings), bytes.Equal(s.Frames, frames))
		testenv.Prints(t, "metadata", `[{"gotach":"b"} {"gotach":"a","n":2}]`, s.Metadata)
		testenv.Prints(t, "head", fmt.Sprint(head.Layout, head.Start, head.Interval, tachyon.HeaderSize), s.Layout, s.Start, s.Interval, s.Point.Offset)
	}
	half, whole := load(t, path), n/2
	known := Known{NStrings: uint32(whole)}
	for range whole {
		_, size := cutString(half.Strings[known.Strings:])
		known.Strings += size
	}
	for known.Frames = len(frames) / 2; frames[known.Frames-1] != 7; known.Frames++ {
	}
	s := testenv.Must(LoadNew(path, known))
	testenv.Prints(t, "new strings, equal, equal frames", fmt.Sprint(n-whole, " true true"), s.NStrings, bytes.Equal(s.Strings, strings[known.Strings:]), bytes.Equal(s.Frames, frames[known.Frames:]))
	j = testenv.Must(journal.Create(path, head)) // replaces a journal that is not in use
	testenv.Same(t, "strings of the new journal", load(t, path).NStrings, 0)
	testenv.OK(t, j.Remove())
	testenv.Is(t, "the journal after Remove", testenv.Err(os.Lstat(path+journal.Suffix)), os.ErrNotExist)
}

// After any operation, pending repeats are in the journal exactly once: in a slot, in a
// larger slot, or in the buffer.
func TestSlots(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	j := testenv.Must(journal.Create(path, head))
	defer j.Remove()
	record := func(n int, pairs ...byte) []byte {
		return append([]byte{9, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, wire.Repeat, byte(n)}, pairs...)
	}
	want := func(what string, b []byte) {
		t.Helper()
		testenv.SameList(t, what, load(t, path).Records, b)
	}
	small := testenv.Must(j.Slot(32))
	testenv.Prints(t, "length and capacity of a slot", "32 32", len(small.Data()), cap(small.Data()))
	j.Begin(&small, 9, 1)
	copy(small.Data(), []byte{5, 1, 6, 2})
	want("not used yet", []byte{})
	small.Used(2)
	want("one", record(1, 5, 1))
	small.Used(4)
	want("two", record(2, 5, 1, 6, 2))

	large := testenv.Must(j.Slot(64))
	copy(large.Data(), small.Data()[:4])
	large.Data()[4], large.Data()[5] = 7, 3
	j.Move(&small, &large, 4)
	want("moved", record(2, 5, 1, 6, 2))
	j.Release(small)
	large.Used(6)
	want("three", record(3, 5, 1, 6, 2, 7, 3))

	buf := append(j.Buffer(), record(3, 5, 1, 6, 2, 7, 3)...)
	j.Commit(len(buf), &large)
	want("in the buffer", record(3, 5, 1, 6, 2, 7, 3))
	j.Advance(journal.Point{Offset: 1000, Samples: 3, Raw: uint64(len(buf))}, 0)
	want("in the file", []byte{})
	p := load(t, path).Point
	testenv.Prints(t, "offset and samples", "1000 3", p.Offset, p.Samples)
	j.Release(large)

	// Pages whose slots are all free are reused for any kind.
	for range 20 {
		var slots []journal.Slot
		for range 50 {
			slots = append(slots, testenv.Must(j.Slot(16384)))
		}
		for _, s := range slots {
			j.Release(s)
		}
	}
	testenv.Within(t, "MB of a journal whose slots were released", int(testenv.Must(os.Stat(path+journal.Suffix)).Size()>>20), 1, 3)
}

// The places of a journal's numbers are those of the package comment.
func TestLayout(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	h := journal.Head{Layout: 2, Start: 3, Interval: 4, Compression: 5, Config: 6, Python: [3]uint8{7, 8, 9}, Stats: []byte("statistics")}
	j := testenv.Must(journal.Create(path, h))
	defer j.Remove()
	point := journal.Point{Offset: 1000, Samples: 11, Raw: 12, Threads: 13, CRC: 14, Open: true}
	s := testenv.Must(j.Slot(32))
	j.Advance(point, 0)
	j.Begin(&s, 9, 1)
	copy(s.Data(), "\x05\x01")
	s.Used(2)
	copy(j.Buffer()[:2], "ab")
	j.Commit(2, nil)
	testenv.OK(t, errors.Join(j.Durable(journal.Point{Offset: 64}), j.Durable(point), j.String([]byte("\x01a")), j.Frame([]byte("frame")),
		j.Metadata([]byte("{}"), true), j.Records([]byte("\x03\x04{}")), j.Progress([]byte("{}")), j.Progress([]byte("{2}"))))
	b := testenv.Must(os.ReadFile(path + journal.Suffix))
	const first, page = 576 << 10, 64 << 10
	for at, want := range map[int]uint64{
		0: 0x4c4e524a48434154, 8: 2<<32 | 1, 16: 3, 24: 4, 32: 6<<32 | 5, 40: 10<<24 | 9<<16 | 8<<8 | 7, // head
		64: 1<<56 | 2, 128: 64, 192: 1000, 200: 11, 208: 12, 216: 14<<32 | 13, 224: 1, // commit word and points
		384: 1000, 384 + 48: 2, 448: 64, 448 + 48: 1, // durable points
		first: 32, first + 16: 1, first + 64: 9, first + 72: 1, first + 80: 12, first + 88: 2, // a slot
		first + page: 1, first + page + 8: 2, first + page + 16: 2, // strings
		first + 2*page: 2, first + 2*page + 8: 5, first + 3*page: 3, first + 3*page + 8: 4, // frames, metadata
		first + 4*page: 4, first + 4*page + 8: 4, first + 4*page + 24: 0, // records
		first + 5*page: 6, first + 5*page + 64: 2, first + 5*page + 64 + page/4: 1, // progress
	} {
		testenv.Same(t, fmt.Sprintf("at %d", at), binary.NativeEndian.Uint64(b[at:]), want)
	}
	for at, want := range map[int]string{256: "statistics\x00", page: "ab", first + 96: "\x05\x01", first + page + 64: "\x01a", first + 3*page + 64: "P\x02{}",
		first + 5*page + 64 + 16: "{2}", first + 5*page + 64 + page/4 + 16: "{}"} {
		testenv.Same(t, fmt.Sprintf("at %d", at), string(b[at:at+len(want)]), want)
	}
	testenv.Same(t, "length", len(b), 1<<20)
	// After a reboot the durable point counts, and no slot and no buffer.
	got := load(t, path)
	testenv.Same(t, "point", got.Point, point)
	testenv.Prints(t, "records, and pending", "ab\x09\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x01\x05\x01 16", string(got.Records), got.Pending)
	id := journal.Boot()
	changed := bytes.Replace(b, id[:], make([]byte, journal.BootSize), 1)
	changed[384] = 99 // damages the latest durable point
	if id == [journal.BootSize]byte{} {
		return // a system without a boot ID
	}
	testenv.OK(t, os.WriteFile(path+journal.Suffix, changed, 0o600))
	got = load(t, path)
	testenv.Same(t, "the point after a reboot", got.Point, journal.Point{Offset: 64})
	testenv.Prints(t, "records, strings and progress after a reboot", "0 0 \x01a {2}", len(got.Records), len(got.Alone), string(got.Strings), string(got.Progress))
}

// Files that are no journals are refused, with the reason.
func TestNotJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	defer testenv.Must(journal.Create(path, head)).Remove()
	good := testenv.Must(os.ReadFile(path + journal.Suffix))
	change := func(at int, b byte) []byte { c := bytes.Clone(good); c[at] = b; return c }
	for want, b := range map[string][]byte{
		ErrNotJournal.Error():                             change(0, 0),
		"incomplete":                                      good[:len(good)-1],
		"unknown journal version 2, want 1":               change(8, 2),
		"damaged control page: 8388608 bytes":             change(64+2, 0x80),
		"damaged control page: 0 bytes in the buffer, pr": change(128, 63),
	} {
		testenv.OK(t, os.WriteFile(path+journal.Suffix, b, 0o600))
		err := testenv.Err(Load(path))
		testenv.Fails(t, want, err, want)
		testenv.Fails(t, "the file's name", err, path+journal.Suffix+": ")
	}
}

// At any time the records are in blocks or alone, whole and once, and the latest progress that is
// whole counts. What is known already is not loaded again.
func TestRecordSection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	j := testenv.Must(journal.Create(path, head))
	defer j.Remove()
	var alone, blocks []byte
	known := Known{}
	for round := range 3 {
		alone = nil
		for i := range 5 { // more than a page
			r := wire.AppendObject(nil, bytes.Repeat([]byte{byte(round), byte(i)}, 10_000))
			testenv.OK(t, errors.Join(j.Records(r), j.Progress(fmt.Append(nil, round, i))))
			alone = append(alone, r...)
			s := load(t, path)
			testenv.Prints(t, "alone, blocks, progress", fmt.Sprint("true true ", fmt.Sprint(round, i)), bytes.Equal(s.Alone, alone), bytes.Equal(s.Blocks, blocks), string(s.Progress))
		}
		block := wire.AppendBlock(nil, alone, nil)
		testenv.OK(t, j.Block(block))
		blocks = append(blocks, block...)
		s := testenv.Must(LoadNew(path, known))
		testenv.Prints(t, "alone, and the new block", "0 true", len(s.Alone), bytes.Equal(s.Blocks, block))
		known.Blocks, known.Records = len(blocks), known.Records+uint64(len(alone))
	}
	var got []byte
	j.Blocks(int64(len(blocks))-1, func(b []byte) { got = append(got, b...) })
	testenv.Same(t, "blocks", string(got), string(blocks[:len(blocks)-1]))
	testenv.OK(t, j.Records([]byte("\x04\x04{")))
	latest := bytes.Index(testenv.Must(os.ReadFile(path+journal.Suffix)), []byte("2 4"))
	f := testenv.Must(os.OpenFile(path+journal.Suffix, os.O_RDWR, 0))
	testenv.OK(t, testenv.Err(f.WriteAt([]byte("3"), int64(latest)))) // damaged
	testenv.Closes(t, f)
	s := load(t, path)
	testenv.Prints(t, "alone, progress", "0 2 3", len(s.Alone), string(s.Progress))
	known.Blocks++
	testenv.Is(t, "more is known than there is", testenv.Err(LoadNew(path, known)), ErrLess)
	testenv.OK(t, j.Progress(make([]byte, journal.PlaceSize-journal.PlaceHead)))
	testenv.Fails(t, "a progress that does not fit", j.Progress(make([]byte, journal.PlaceSize-journal.PlaceHead+1)), "a progress of")
}

// Finish makes the rest of the file, also if the region ends inside a zstd frame.
func TestFinish(t *testing.T) {
	compress := func(b []byte) []byte { return append([]byte("Z"), b...) }
	for _, c := range []struct {
		point   journal.Point
		records string
		zstd    bool
		region  string // what Finish adds to it
	}{
		{journal.Point{Offset: 70}, "records", false, "records"},
		{journal.Point{Offset: 70}, "", false, ""},
		{journal.Point{Offset: 70, Open: true}, "records", true, "\x01\x00\x00Zrecords"},
		{journal.Point{Offset: 70, Open: true}, "", true, "\x01\x00\x00"},
		{journal.Point{Offset: 70}, "records", true, "Zrecords"},
		{journal.Point{Offset: 64}, "", true, string(wire.EndRegion(1, 64, false))},
	} {
		c.point.CRC = 5
		s := State{Head: journal.Head{Layout: 2, Start: 1, Interval: 2, Python: [3]uint8{3}, Config: 4}, Point: c.point, Records: []byte(c.records),
			Strings: []byte("\x01f"), NStrings: 1, Frames: []byte("\x00\x00\x02"), NFrames: 1, Metadata: []string{"{}"}, Blocks: []byte("blocks"), Alone: []byte("alone"), Progress: []byte("{}")}
		want := tachyon.Header{Layout: 2, Start: 1, Interval: 2, Python: [3]uint8{3}, Config: 4, Samples: 8, Threads: 9, StringOffset: uint64(c.point.Offset) + uint64(len(c.region))}
		section := wire.AppendBlock([]byte("blocks"), []byte("alone\x03\x03{}"), nil)
		if c.zstd {
			s.Compression, want.Compression = 1, 1
			section = wire.AppendBlock([]byte("blocks"), []byte("alone\x03\x03{}"), compress)
		}
		h, tail := testenv.Must2(s.Finish(8, 9, compress))
		want.FrameOffset = h.FrameOffset
		testenv.Same(t, "header", h, want)
		text := string(tail)
		crc := fmt.Sprintf(`{"gotach":"checksum","crc32c":%d}`, wire.CRC(5, []byte(c.region)))
		place := fmt.Sprintf(`"offset":%d,"length":%d,"crc32c":%d}`, len(text)+int(c.point.Offset)-tachyon.FooterSize-len(section), len(section), wire.CRC(0, section))
		begin := c.region + "\x01f\x02{}"
		testenv.Same(t, "the tail's beginning", text[:len(begin)], begin)
		testenv.Has(t, "the tail", text, crc+"\x00\x00\x02"+string(section), place)
	}
	s := State{Head: journal.Head{Layout: 2}, Point: journal.Point{Offset: 64}, Blocks: []byte("blocks")}
	_, tail := testenv.Must2(s.Finish(0, 0, nil))
	testenv.Has(t, "a tail with no records alone", string(tail), "blocks")
	testenv.Same(t, "blocks", string(s.Blocks), "blocks")
}
