package dcpi

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"math"

	"github.com/gotach/profiler/internal/formats/formaterr"
)

// Options says how strict reading is. The zero value is the format as its
// readers demand it.
type Options struct {
	// Lax accepts a file without version (taken as pdb-0.07) and tstart (taken
	// as 0, so that addresses are offsets into the text section).
	Lax bool
}

// addrCount is how often an address was the sampled one.
type addrCount struct {
	Addr  uint64
	Count uint32
}

// A decoder reads a profile front to back in constant memory. [newDecoder] makes one.
type decoder struct {
	r      *bufio.Reader
	name   string
	header Header
	off    int64 // of the next byte
}

// newDecoder reads the header of a profile. The name is the file's, for errors;
// a bad header is a [*formaterr.Error].
func newDecoder(r io.Reader, name string, o Options) (*decoder, error) {
	d := &decoder{r: bufio.NewReaderSize(r, 64<<10), name: name}
	h, size, err := readHeader(d.r)
	d.off = size
	if err != nil {
		return nil, d.bad("%w", err)
	}
	if line, err := h.check(o); err != nil {
		d.off = 0
		for _, l := range h.Lines[:line] {
			d.off += int64(len(l)) + 1
		}
		return nil, d.bad("%w", err)
	}
	d.header = h
	return d, nil
}

func (d *decoder) bad(format string, args ...any) error {
	return &formaterr.Error{File: d.name, Offset: d.off, Err: fmt.Errorf(format, args...)}
}

// Header returns the header; it belongs to the decoder.
func (d *decoder) Header() *Header { return &d.header }

// Counts returns the addresses that have samples, ascending. It can be ranged
// over once; an error, a [*formaterr.Error] where the file is bad, ends it. What
// came before the error is what the file says up to there, but the file as a
// whole is a profile only if no error came.
func (d *decoder) Counts() iter.Seq2[addrCount, error] {
	return func(yield func(addrCount, error) bool) {
		var addr uint64
		start, unit := d.header.TextStart(), d.header.Unit()
		stopped := false
		err := d.chunks(func(offset, _ uint32) {
			addr = start + uint64(offset)
		}, func(n uint32) bool {
			a := addr
			addr += unit
			if n != 0 && !yield(addrCount{a, n}, nil) {
				stopped = true
				return false
			}
			return true
		})
		if err != nil && !stopped {
			yield(addrCount{}, err)
		}
	}
}

const (
	footerSize    = 8 // and that of what precedes a chunk's counts
	smallestChunk = 12
	batch         = 4096 // counts looked at at once, fewer than fit into a decoder's buffer
)

// chunks reads the binary part: it calls chunk for the start of each chunk and
// count for each of its counts, until count returns false.
func (d *decoder) chunks(chunk func(offset, number uint32), count func(uint32) bool) error {
	var (
		first      = true
		prevOffset uint32
		prevEnd    uint64
		addresses  uint64
		samples    uint64
		start      = d.header.TextStart()
		unit       = d.header.Unit()
	)
	for {
		// The file's last 8 bytes are its footer, whatever they look like.
		word, err := d.r.Peek(smallestChunk + footerSize)
		switch {
		case err == io.EOF && len(word) <= footerSize:
			return d.footer(word, addresses, samples, prevEnd)
		case err == io.EOF && binary.LittleEndian.Uint32(word[4:]) != 0:
			return d.bad("the last %d bytes are neither a footer nor a chunk and a footer", len(word))
		case err != nil && err != io.EOF:
			return d.bad("%w", err)
		}
		offset, number := binary.LittleEndian.Uint32(word), binary.LittleEndian.Uint32(word[4:])
		end := uint64(offset) + uint64(number)*unit
		switch {
		case number == 0:
			return d.bad("chunk with no counts")
		case !first && offset <= prevOffset:
			return d.bad("chunk offsets do not grow: %d after %d", offset, prevOffset)
		case uint64(offset) < prevEnd:
			return d.bad("chunk at offset %d overlaps the one before, which ends at %d", offset, prevEnd)
		case end > math.MaxUint64-start:
			return d.bad("chunk at offset %d goes beyond the last address", offset)
		}
		first, prevOffset, prevEnd = false, offset, end
		at := d.off
		d.r.Discard(footerSize)
		d.off += footerSize
		chunk(offset, number)
		for left := number; left > 0; {
			size := int(min(left, batch)) * 4
			b, err := d.r.Peek(size + footerSize) // which must still follow
			if err == io.EOF {
				d.off = at
				return d.bad("chunk at offset %d: %d counts do not fit before the footer", offset, number)
			} else if err != nil {
				return d.bad("%w", err)
			}
			for i := 0; i < size; i += 4 {
				n := binary.LittleEndian.Uint32(b[i:])
				if n != 0 {
					addresses++
					samples += uint64(n)
				}
				if !count(n) {
					return nil
				}
			}
			d.r.Discard(size)
			d.off += int64(size)
			left -= uint32(size / 4)
		}
	}
}

// footer checks the last bytes of the file, b, against what was read.
func (d *decoder) footer(b []byte, addresses, samples, end uint64) error {
	if len(b) < footerSize {
		return d.bad("%d bytes are too few for a footer of %d", len(b), footerSize)
	}
	if n := binary.LittleEndian.Uint32(b); uint64(n) != addresses {
		return d.bad("footer says %d addresses, chunks have %d", n, addresses)
	}
	if n := binary.LittleEndian.Uint32(b[4:]); uint64(n) != samples {
		return d.bad("footer says %d samples, chunks have %d", n, samples)
	}
	if size := d.header.TextSize(); size > 0 && end > size {
		return d.bad("samples beyond the text section: its size is %d, the last chunk ends at %d", size, end)
	}
	d.r.Discard(footerSize)
	d.off += footerSize
	return nil
}

// Read reads a whole profile.
func Read(r io.Reader, name string, o Options) (*Profile, error) {
	d, err := newDecoder(r, name, o)
	if err != nil {
		return nil, err
	}
	p := &Profile{Header: d.header}
	err = d.chunks(func(offset, number uint32) {
		// What number claims may not be in the file, so it is not allocated at once.
		p.Chunks = append(p.Chunks, chunk{Offset: offset, Counts: make([]uint32, 0, min(number, 1024))})
	}, func(n uint32) bool {
		c := &p.Chunks[len(p.Chunks)-1]
		c.Counts = append(c.Counts, n)
		return true
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}
