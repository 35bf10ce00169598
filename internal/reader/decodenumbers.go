package reader

import "encoding/binary"

// indices decodes len(dst) frame indices.
func (d *decoder) indices(dst []uint32) error {
	count := uint64(len(d.r.Frames()))
	for len(dst) > 0 {
		if d.end-d.pos < padding && !d.eof {
			if err := d.fill(); err != nil {
				return err
			}
		}
		// n indices can be decoded without a check for the end of the data.
		room := d.end - d.pos
		if d.eof {
			room += padding
		}
		n := min(len(dst), room/maxVarint)
		b, p := d.buf, d.pos
		for i := range dst[:n] {
			v := uint64(b[p])
			if v < 0x80 {
				p++
			} else if c := b[p+1]; c < 0x80 {
				v = v&0x7f | uint64(c)<<7
				p += 2
			} else {
				v, p = d.longUvarint(p)
				if p > d.end { // the padding may be shorter than the indices to come
					d.pos = p
					return d.cut()
				}
			}
			if v >= count {
				d.pos = p
				return d.bad(p-1, "stack refers to frame %d, but the file has %d frames", v, count)
			}
			dst[i] = uint32(v)
		}
		d.pos = p
		if p > d.end {
			return d.cut()
		}
		dst = dst[n:]
	}
	return nil
}

// uvarint decodes a number. If the number is truncated or too long, pos is beyond end
// afterwards.
func (d *decoder) uvarint() uint64 {
	b := d.buf[d.pos : d.pos+2]
	if b[0] < 0x80 {
		d.pos++
		return uint64(b[0])
	}
	if b[1] < 0x80 { // for example the time between two ticks
		d.pos += 2
		return uint64(b[0]&0x7f) | uint64(b[1])<<7
	}
	v, p := d.longUvarint(d.pos)
	d.pos = p
	return v
}

// longUvarint decodes a number at p and returns the number and its end. Every number ends
// at the latest in the zero bytes after the data.
func (d *decoder) longUvarint(p int) (uint64, int) {
	v, n := binary.Uvarint(d.buf[p:])
	if n <= 0 {
		d.long = true
		return 0, d.end + 1
	}
	return v, p + n
}
