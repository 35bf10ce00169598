package reader

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
)

// A listCache has lists of frames, as records have them, and the stacks that they make on the
// stacks below them. Threads have the same frames again and again, so most records take one look-up
// instead of one for each frame. A list replaces an older one in its place, so the memory is
// bounded.
type listCache struct {
	table [][listWays]cachedList // nil before the first list; each element is a cache line
	seed  uint64                 // random, so that nobody can make a file with lists of equal hashes
}

// A cachedList is a list of frames on a stack, identified by 96 bits of hashes of both. Among a
// billion lists, the probability that two have the same is 10^-11.
type cachedList struct {
	hash  uint64
	check uint32
	stack uint32 // all the frames on the stack below; 0: the place is free
}

const (
	listTable = 1 << 14
	listWays  = 4 // lists whose hashes choose one place
	minList   = 3 // frames; shorter lists are pushed as fast without the cache
)

// A frameList is the frames of a record.
type frameList struct {
	hash  uint64
	check uint32
	size  int // bytes; 0: the list cannot be in the cache
}

func (c *listCache) clear() {
	clear(c.table)
	c.seed = rand.Uint64()
}

// cut returns the list of count frames that b begins with, to be pushed on a stack. The size is 0
// if b does not have all of it and 7 bytes more.
func (c *listCache) cut(b []byte, count int, stack uint32) (l frameList) {
	if count < minList {
		return l
	}
	h := uint64(stack) + c.seed
	g := bits.RotateLeft64(h, 32)
	for size := 0; size+8 <= len(b); size += 8 {
		word := binary.LittleEndian.Uint64(b[size:])
		ends := ^word & 0x8080808080808080 // the last bytes of numbers
		n := bits.OnesCount64(ends)
		used := 64
		if n >= count {
			for ; count > 1; count-- {
				ends &= ends - 1
			}
			used = bits.TrailingZeros64(ends) + 1
			word <<= 64 - used
		}
		hi, lo := bits.Mul64(h^word, 0x9e3779b97f4a7c15)
		h = hi ^ lo
		hi, lo = bits.Mul64(g^word, 0xd6e8feb86659fd93)
		g = hi ^ lo
		if n >= count {
			hi, lo = bits.Mul64(h^uint64(used), 0x9e3779b97f4a7c15)
			return frameList{hi ^ lo, uint32(g >> 16), size + used/8}
		}
		count -= n
	}
	return l
}

// find returns the stack of a list, or 0.
func (c *listCache) find(l *frameList) uint32 {
	if l.size == 0 || c.table == nil {
		return 0
	}
	place := &c.table[l.hash%listTable]
	for i := range place {
		if e := &place[i]; e.hash == l.hash && e.check == l.check {
			return e.stack
		}
	}
	return 0
}

// add adds a list. It replaces the oldest one in its place.
func (c *listCache) add(l *frameList, stack uint32) {
	if l.size == 0 {
		return
	}
	if c.table == nil {
		c.table = make([][listWays]cachedList, listTable)
		clear(c.table) // a page that is read before it is written takes two faults
	}
	place := &c.table[l.hash%listTable]
	copy(place[1:], place[:])
	place[0] = cachedList{l.hash, l.check, stack}
}
