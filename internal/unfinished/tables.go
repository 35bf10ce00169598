package unfinished

import (
	"encoding/binary"
	"encoding/json"

	"github.com/gotach/profiler/internal/decode"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

// cutString returns the text and the length in bytes of the entry at the start of b. The
// length is 0 if the entry is incomplete.
func cutString(b []byte) (text []byte, n int) {
	size, k := binary.Uvarint(b)
	if k <= 0 || size > uint64(len(b)-k) {
		return nil, 0
	}
	n = k + int(size)
	return b[k:n], n
}

// wholeStrings returns the complete entries of a string table and their number.
func wholeStrings(b []byte) ([]byte, uint32) {
	at, count := 0, uint32(0)
	for {
		_, n := cutString(b[at:])
		if n == 0 {
			return b[:at], count
		}
		at, count = at+n, count+1
	}
}

// wholeFrames returns the complete entries of a frame table and their number.
func wholeFrames(b []byte, strings uint32, layout uint32) ([]byte, uint32) {
	fields, opcode := 3, 0
	if layout == uint32(tachyon.CPython315) {
		fields, opcode = 6, 1
	}
	at, count := 0, uint32(0)
	for {
		n := at
		for i := range fields {
			v, k := binary.Uvarint(b[n:])
			if k <= 0 || i < 2 && v >= uint64(strings) {
				return b[:at], count
			}
			n += k
		}
		if n += opcode; n > len(b) {
			return b[:at], count
		}
		at, count = n, count+1
	}
}

// metadata returns all objects except provisional ones that were replaced.
func metadata(b []byte) []string {
	type entry struct {
		provisional bool
		kind, text  string
	}
	var list []entry
	last := map[string]int{} // of each kind, its index in list
	for len(b) > 0 {
		text, n := cutString(b[1:])
		if n == 0 {
			break
		}
		var k struct {
			Kind string `json:"gotach"`
		}
		if json.Unmarshal(text, &k) == nil {
			last[k.Kind] = len(list)
			list = append(list, entry{b[0] == 'P', k.Kind, string(text)})
		}
		b = b[1+n:]
	}
	var out []string
	for i, e := range list {
		if !e.provisional || last[e.kind] == i {
			out = append(out, e.text)
		}
	}
	return out
}

// wholeBlocks returns the complete blocks at the start of b and the number of bytes of records in
// them. Blocks with a wrong checksum can be there after a reboot.
func wholeBlocks(b []byte) (whole []byte, records uint64) {
	at := 0
	for len(b)-at >= wire.BlockHeader {
		h := decode.CutBlock(b[at:])
		stored := b[at+wire.BlockHeader:]
		if uint64(h.Stored) > uint64(len(stored)) || wire.CRC(0, stored[:h.Stored]) != h.CRC {
			break
		}
		at += wire.BlockHeader + int(h.Stored)
		records += uint64(h.Records)
	}
	return b[:at], records
}
