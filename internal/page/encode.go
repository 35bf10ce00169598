package page

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
)

// A Piece is a part of the data that the script reads at once. Bytes are compressed by gzip. They
// are:
//
//   - the length of a JSON object, 4 bytes, little-endian
//   - the object: {"columns":[[NAME,COUNT,LENGTH],…], …}, and what else the piece has
//   - the columns one after the other, each COUNT numbers in LENGTH bytes: signed varints as in
//     encoding/binary
type Piece struct {
	Name  string
	Bytes []byte
}

// A column is a list of numbers.
type column struct {
	name   string
	values []int64
}

func newPiece(name string, head map[string]any, columns []column) (Piece, error) {
	var all []byte
	list := [][]any{}
	for _, c := range columns {
		begin := len(all)
		for _, v := range c.values {
			all = binary.AppendVarint(all, v)
		}
		list = append(list, []any{c.name, len(c.values), len(all) - begin})
	}
	head["columns"] = list
	text, err := json.Marshal(head)
	if err != nil {
		return Piece{}, fmt.Errorf("piece %s: %w", name, err)
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, 6)
	if err != nil {
		return Piece{}, err
	}
	for _, part := range [][]byte{binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text, all} {
		if _, err := z.Write(part); err != nil {
			return Piece{}, err
		}
	}
	err = z.Close()
	return Piece{name, b.Bytes()}, err
}
