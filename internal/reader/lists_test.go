package reader

import (
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"
)

// A list is known again whatever bytes follow it, and no other list is taken for it.
func TestListCache(t *testing.T) {
	type input struct {
		text  string
		stack uint32
	}
	seen := map[frameList]input{}
	var c listCache
	c.clear()
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Uint32Range(0, 40_000), 0, 60).Draw(t, "frames")
		in := input{stack: rapid.Uint32Range(0, 5).Draw(t, "stack")}
		var b []byte
		for _, f := range list {
			b = binary.AppendUvarint(b, uint64(f))
		}
		in.text = string(b)
		one := c.cut(append(b[:len(b):len(b)], make([]byte, 8)...), len(list), in.stack)
		two := c.cut(append(b[:len(b):len(b)], rapid.SliceOfN(rapid.Byte(), 8, 20).Draw(t, "rest")...), len(list), in.stack)
		if one != two {
			t.Fatalf("with other bytes behind it, %+v is %+v", one, two)
		}
		if len(list) < minList {
			if one.size != 0 {
				t.Fatalf("%d frames: %+v", len(list), one)
			}
			return
		}
		if one.size != len(b) {
			t.Fatalf("%d bytes of %d", one.size, len(b))
		}
		if short := c.cut(b[:len(b)-1], len(list), in.stack); short.size != 0 {
			t.Fatalf("%d bytes of %d are enough: %+v", len(b)-1, len(b), short)
		}
		if other := c.cut(append(b[:len(b):len(b)], make([]byte, 8)...), len(list), in.stack+1); other == one {
			t.Fatalf("on another stack it is %+v too", one)
		}
		if before, ok := seen[one]; ok && before != in {
			t.Fatalf("%+v and %+v are the same", before, in)
		}
		seen[one] = in
		c.add(&one, in.stack+1)
		if got := c.find(&two); got != in.stack+1 {
			t.Fatalf("stack %d, want %d", got, in.stack+1)
		}
	})
}
