package writer

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

// A decoded is the content of a file, from a short decoder that checks everything. The
// decoder is separate from package reader, so that the two do not have the same mistakes.
type decoded struct {
	header  tachyon.Header
	strings []string
	used    int // frames use only strings below this index
	frames  []tachyon.Frame
	samples []tachyon.Sample // in file order
	records map[wire.Encoding]int
}

var errCut = errors.New("cut")

type cursor struct {
	b   []byte
	err error
}

func (c *cursor) take(n uint64) []byte {
	if n > uint64(len(c.b)) {
		c.err, n = errCut, uint64(len(c.b))
	}
	p := c.b[:n]
	c.b = c.b[n:]
	return p
}

func (c *cursor) fixed(n uint64) []byte {
	b := make([]byte, 8)
	copy(b, c.take(n))
	return b
}

func (c *cursor) uvarint() uint64 {
	v, n := binary.Uvarint(c.b)
	if n <= 0 {
		c.err = errCut
	}
	c.take(uint64(max(n, 0)))
	return v
}

func (c *cursor) svarint() int32 {
	u := c.uvarint()
	return int32(int64(u>>1) ^ -int64(u&1))
}

// A tester is a testing.TB or a *rapid.T.
type tester interface {
	Helper()
	Fatal(...any)
}

// decode reads a file and fails the test if the file is incomplete or wrong.
func decode(t tester, file []byte) *decoded {
	t.Helper()
	d, err := tryDecode(t, file)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func tryDecode(t tester, file []byte) (*decoded, error) {
	t.Helper()
	if len(file) < tachyon.HeaderSize+tachyon.FooterSize {
		return nil, errCut
	}
	h, err := wire.DecodeHeader(file)
	if err != nil {
		return nil, err
	}
	foot := wire.DecodeFooter(file[len(file)-tachyon.FooterSize:], wire.Order(&h))
	if foot.Size != uint64(len(file)) {
		return nil, fmt.Errorf("the file has %d bytes, but the footer has %d", len(file), foot.Size)
	}
	d := &decoded{header: h, records: map[wire.Encoding]int{}}
	c := &cursor{b: file[h.StringOffset:h.FrameOffset]}
	for range foot.Strings {
		d.strings = append(d.strings, string(c.take(c.uvarint())))
	}
	if c.err != nil || len(c.b) > 0 {
		return nil, fmt.Errorf("string table: %v, %d bytes left", c.err, len(c.b))
	}
	c = &cursor{b: file[h.FrameOffset : len(file)-tachyon.FooterSize]}
	for range foot.Frames {
		file, fn := c.uvarint(), c.uvarint()
		d.used = max(d.used, int(file)+1, int(fn)+1)
		f := tachyon.Frame{File: d.strings[file], Func: d.strings[fn], Line: c.svarint()}
		if h.Layout == tachyon.CPython315 {
			f.Span = tachyon.Span{Lines: c.svarint(), Column: c.svarint() + 1, Columns: c.svarint(), Opcode: int16(c.take(1)[0]+1) % 256}
		}
		d.frames = append(d.frames, f)
	}
	if c.err != nil {
		return nil, fmt.Errorf("frame table: %w", c.err)
	}
	if len(c.b) != 0 && !(h.Layout == tachyon.CPython315 && len(c.b) == 56) {
		return nil, fmt.Errorf("%d bytes behind the frame table", len(c.b))
	}
	plain := unpack(t, file)
	ph, _ := wire.DecodeHeader(plain)
	if err := d.decodeSamples(plain[tachyon.HeaderSize:ph.StringOffset]); err != nil {
		return nil, err
	}
	if n := len(d.strings); n > d.used {
		var sum struct {
			Gotach string
			CRC32C uint32
		}
		if err := json.Unmarshal([]byte(d.strings[n-1]), &sum); err != nil {
			return nil, err
		}
		want := crc32.Checksum(file[tachyon.HeaderSize:h.StringOffset], crc32.MakeTable(crc32.Castagnoli))
		if sum.Gotach != "checksum" || sum.CRC32C != want {
			return nil, fmt.Errorf("last string is %s, want the checksum %d", d.strings[n-1], want)
		}
	}
	return d, nil
}

func (d *decoded) decodeSamples(region []byte) error {
	type key struct {
		thread uint64
		interp uint32
	}
	stacks, times := map[key][]uint32{}, map[key]uint64{}
	c := &cursor{b: region}
	for len(c.b) > 0 && c.err == nil {
		k := key{binary.LittleEndian.Uint64(c.fixed(8)), binary.LittleEndian.Uint32(c.fixed(4))}
		if _, ok := times[k]; !ok {
			times[k] = d.header.Start
		}
		sample := func() *tachyon.Sample {
			times[k] += c.uvarint()
			d.samples = append(d.samples, tachyon.Sample{Thread: k.thread, Interpreter: k.interp, Time: times[k], Status: tachyon.Status(c.take(1)[0])})
			return &d.samples[len(d.samples)-1]
		}
		prev := stacks[k]
		enc := c.take(1)[0]
		d.records[enc]++
		if enc == wire.Repeat {
			n := c.uvarint()
			if n == 0 {
				return errors.New("an empty run of repeats")
			}
			for range n {
				if c.err != nil {
					return c.err
				}
				sample().Stack = prev
			}
			continue
		}
		s := sample()
		var keep []uint32
		switch enc {
		case wire.Full:
		case wire.Suffix:
			n := c.uvarint()
			if n != uint64(len(prev)) {
				return fmt.Errorf("SUFFIX keeps %d of %d frames", n, len(prev))
			}
			keep = prev
		case wire.PopPush:
			pop := c.uvarint()
			if pop > uint64(len(prev)) {
				return fmt.Errorf("POP_PUSH pops %d of %d frames", pop, len(prev))
			}
			keep = prev[pop:]
		default:
			return fmt.Errorf("encoding %d", enc)
		}
		for range c.uvarint() {
			id := c.uvarint()
			if id >= uint64(len(d.frames)) {
				return fmt.Errorf("frame %d of %d", id, len(d.frames))
			}
			s.Stack = append(s.Stack, uint32(id))
		}
		s.Stack = append(s.Stack, keep...)
		if len(s.Stack) > tachyon.MaxDepth {
			return fmt.Errorf("a stack of %d frames", len(s.Stack))
		}
		stacks[k] = s.Stack
	}
	if c.err != nil {
		return c.err
	}
	if uint64(len(d.samples)) != d.header.Samples || len(times) != int(d.header.Threads) {
		return fmt.Errorf("header says %d samples of %d threads, the file has %d of %d",
			d.header.Samples, d.header.Threads, len(d.samples), len(times))
	}
	return nil
}
