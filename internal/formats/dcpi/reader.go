package dcpi

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// Options says how strict reading is. The zero value is as strict as DCPI's own
// readers.
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

// A decoder reads a profile front to back.
type decoder struct {
	r    *bufio.Reader
	name string
	off  int64 // of the next byte
	Profile
}

// Read reads a whole profile. The name is the file's, for errors.
func Read(r io.Reader, name string, o Options) (*Profile, error) {
	d := &decoder{r: bufio.NewReaderSize(r, 64<<10), name: name}
	var err error
	if d.Header, d.off, err = readHeader(d.r); err != nil {
		return nil, d.bad("%w", err)
	}
	if line, err := d.check(o); err != nil {
		d.off = 0
		for _, l := range d.Lines[:line] {
			d.off += int64(len(l)) + 1
		}
		return nil, d.bad("%w", err)
	}
	if err := d.chunks(); err != nil {
		return nil, err
	}
	return &d.Profile, nil
}

func (d *decoder) bad(format string, args ...any) error {
	return fmt.Errorf("%s: at byte %d: %w", d.name, d.off, fmt.Errorf(format, args...))
}

const (
	footerSize    = 8
	chunkHeader   = 8 // offset and number of the counts, which follow
	smallestChunk = chunkHeader + 4
	batch         = 4096 // counts looked at at once, fewer than fit into a decoder's buffer
)

// chunks reads the binary part.
func (d *decoder) chunks() error {
	var (
		first      = true
		prevOffset uint32
		prevEnd    uint64
		addresses  uint64
		samples    uint64
		start      = d.TextStart()
		unit       = d.Unit()
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
		d.r.Discard(chunkHeader)
		d.off += chunkHeader
		// What number claims may not be in the file, so it is not allocated at once.
		counts := make([]uint32, 0, min(number, 1024))
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
				counts = append(counts, n)
			}
			d.r.Discard(size)
			d.off += int64(size)
			left -= uint32(size / 4)
		}
		d.Chunks = append(d.Chunks, chunk{offset, counts})
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
	if size := d.TextSize(); size > 0 && end > size {
		return d.bad("samples beyond the text section: its size is %d, the last chunk ends at %d", size, end)
	}
	d.r.Discard(footerSize)
	d.off += footerSize
	return nil
}
