package reader

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
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
		testenv.Same(t, "with other bytes behind it", two, one)
		if len(list) < minList {
			testenv.Same(t, "size of few frames", one.size, 0)
			return
		}
		testenv.Same(t, "size", one.size, len(b))
		testenv.Same(t, "size without the last byte", c.cut(b[:len(b)-1], len(list), in.stack).size, 0)
		other := c.cut(append(b[:len(b):len(b)], make([]byte, 8)...), len(list), in.stack+1)
		testenv.FailIf(t, other == one, "on another stack it is %+v too", one)
		before, ok := seen[one]
		testenv.FailIf(t, ok && before != in, "%+v and %+v are the same", before, in)
		seen[one] = in
		c.add(&one, in.stack+1)
		testenv.Same(t, "stack", c.find(&two), in.stack+1)
	})
}

// A stream without an end is an error before it takes all memory.
func TestEndlessStream(t *testing.T) {
	defer func(was int64) { maxStream = was }(maxStream)
	maxStream = 1 << 10
	endless := strings.NewReader(strings.Repeat("x", 1<<20))
	testenv.Fails(t, "a stream without an end", testenv.Err(New(endless)), "more than 1024 bytes: write it to a file first")
	testenv.Same(t, "some of the stream is left", endless.Len() > 0, true)
}
