package dcpi

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"math"
	"math/bits"
	"slices"
)

// chunk is the counts of a range of addresses, one Header.Unit apart from
// tstart + Offset on.
type chunk struct {
	Offset uint32
	Counts []uint32
}

// Profile is one file in memory: the samples of one event in one image.
type Profile struct {
	Header
	Chunks []chunk // ascending, not overlapping, as Read and Add make them
}

// Counts returns the addresses that have samples, ascending.
func (p *Profile) Counts() iter.Seq[addrCount] {
	return func(yield func(addrCount) bool) {
		start, unit := p.TextStart(), p.Unit()
		for _, c := range p.Chunks {
			addr := start + uint64(c.Offset)
			for _, n := range c.Counts {
				if n != 0 && !yield(addrCount{addr, n}) {
					return
				}
				addr += unit
			}
		}
	}
}

// Total returns the number of addresses that have samples and of all samples.
func (p *Profile) Total() (addresses, samples uint64) {
	for c := range p.Counts() {
		addresses++
		samples += uint64(c.Count)
	}
	return addresses, samples
}

// Add adds samples to those of the profile and packs all of them anew; the
// header stays as it is. Counts may be in any order and name an address more
// than once. After an error the profile is what it was: an address is outside
// what an offset reaches or between two units, or a sum exceeds 32 bits.
func (p *Profile) Add(counts iter.Seq[addrCount]) error {
	all := slices.Collect(p.Counts())
	for c := range counts {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b addrCount) int { return cmp.Compare(a.Addr, b.Addr) })
	chunks, err := pack(all, p.TextStart(), p.TextSize(), p.Unit())
	if err != nil {
		return err
	}
	p.Chunks = chunks
	return nil
}

// pack makes chunks of counts, which come in the order of their addresses. Zero
// counts fill a gap only if they take less room than the header of another chunk.
func pack(counts []addrCount, start, size, unit uint64) ([]chunk, error) {
	var (
		chunks []chunk
		total  uint64
		last   uint64 // offset of the last count
	)
	for _, c := range counts {
		if c.Count == 0 {
			continue
		}
		offset := c.Addr - start
		switch {
		case c.Addr < start || offset > math.MaxUint32:
			return nil, fmt.Errorf("address %#x is not within 4 GiB from the text start %#x", c.Addr, start)
		case c.Addr > math.MaxUint64-unit:
			return nil, fmt.Errorf("address %#x goes beyond the last address", c.Addr)
		case offset%unit != 0:
			return nil, fmt.Errorf("address %#x is not a multiple of %d bytes from the text start %#x", c.Addr, unit, start)
		case size > 0 && offset+unit > size:
			return nil, fmt.Errorf("address %#x is beyond the text section of %d bytes from %#x", c.Addr, size, start)
		}
		if total += uint64(c.Count); total > math.MaxUint32 {
			return nil, fmt.Errorf("the sum of counts exceeds the format's 32 bits")
		}
		var k *chunk
		if len(chunks) > 0 {
			k = &chunks[len(chunks)-1]
		}
		switch gap := (offset - last) / unit; {
		case k != nil && gap == 0:
			k.Counts[len(k.Counts)-1] += c.Count // total fits, so this does
		case k != nil && (gap-1)*4 < chunkHeader:
			for range gap - 1 {
				k.Counts = append(k.Counts, 0)
			}
			k.Counts = append(k.Counts, c.Count)
		default:
			chunks = append(chunks, chunk{Offset: uint32(offset), Counts: []uint32{c.Count}})
		}
		last = offset
	}
	return chunks, nil
}

// sameIn are the words whose values must be equal in two profiles that are merged.
var sameIn = []string{"image", "event", "period", "tstart", "tsize", "x-unit"}

// Merge adds the samples of o, a profile of the same image, event and period. p keeps
// its header and gets the lines with unknown words that only o has. After an error p
// is unchanged.
//
// Profiles of Go programs may differ in period. Then o's samples are converted into
// samples of p's period that stand for the same time.
func (p *Profile) Merge(o *Profile) error {
	for _, word := range sameIn {
		a, _ := p.Value(word)
		b, _ := o.Value(word)
		if a != b && !(word == "period" && p.isTime() && p.Period() > 0) {
			return fmt.Errorf("profiles differ in %s: %q and %q", word, a, b)
		}
	}
	counts := o.Counts()
	if p.Period() != o.Period() {
		var err error
		if counts, err = rescaled(o, p.Period()); err != nil {
			return err
		}
	}
	if err := p.Add(counts); err != nil {
		return err
	}
	for _, l := range o.Lines {
		if _, known := syntax[l.Word()]; !known && !slices.Contains(p.Lines, l) {
			p.Lines = append(slices.Clip(p.Lines), l)
			p.Terminator = "" // its padding was for the shorter header
		}
	}
	return nil
}

// isTime reports whether the event's period is a time.
func (h *Header) isTime() bool {
	event, _ := h.Value("event")
	return event == eventCPU || event == eventWall
}

// rescaled returns the profile's counts as samples of another period, not 0.
func rescaled(p *Profile, period uint64) (iter.Seq[addrCount], error) {
	_, samples := p.Total()
	if hi, lo := bits.Mul64(samples, p.Period()); hi != 0 || lo/period > math.MaxUint32 {
		return nil, fmt.Errorf("the sum of counts exceeds the format's 32 bits with a period of %d", period)
	}
	return func(yield func(addrCount) bool) {
		s := sharer{num: p.Period(), den: period}
		for c := range p.Counts() {
			if n := s.next(uint64(c.Count)); n > 0 && !yield(addrCount{c.Addr, uint32(n)}) {
				return
			}
		}
	}, nil
}

// Write writes the profile. If the header breaks a rule of the format, Write returns
// an error and writes nothing. A profile that was read and not changed is written
// byte for byte as it was.
func (p *Profile) Write(w io.Writer) error {
	// What was read under Options.Lax may be written again.
	if _, err := p.check(Options{Lax: true}); err != nil {
		return err
	}
	addresses, samples := p.Total()
	b := p.append(nil)
	for _, c := range p.Chunks {
		b = binary.LittleEndian.AppendUint32(b, c.Offset)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(c.Counts)))
		for _, n := range c.Counts {
			b = binary.LittleEndian.AppendUint32(b, n)
			if len(b) >= 64<<10 {
				if _, err := w.Write(b); err != nil {
					return err
				}
				b = b[:0]
			}
		}
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(addresses))
	b = binary.LittleEndian.AppendUint32(b, uint32(samples))
	_, err := w.Write(b)
	return err
}
