package stream

// A Creator says where a goroutine was created. Both strings are empty if that is unknown.
type Creator struct{ Func, At string }

// Creators returns the creators so far. Number 0 is the unknown one. Equal creators of all files have the same
// number.
func (s *Source) Creators() []Creator { return s.creators.list }

// KnowsCreators reports whether samples have creators (Options.Creators).
func (s *Source) KnowsCreators() bool { return s.o.Creators }

// creatorNumbers number creators.
type creatorNumbers struct {
	number map[Creator]uint32
	latest [4]struct {
		Creator
		number uint32
	}
	turn int
}

// of returns the number of a creator, which is its index in a list. A new one is added to the list.
func (c *creatorNumbers) of(x Creator, list *[]Creator) uint32 {
	// There are many goroutines and few creators. The strings of a block are the same ones, so this is quick.
	for i := range c.latest {
		if c.latest[i].Creator == x {
			return c.latest[i].number
		}
	}
	n, ok := c.number[x]
	if !ok {
		n = uint32(len(*list))
		c.number[x] = n
		*list = append(*list, x)
	}
	at := &c.latest[c.turn%len(c.latest)]
	at.Creator, at.number = x, n
	c.turn++
	return n
}

// creators are those of all files.
type creators struct {
	creatorNumbers
	list []Creator
}

// add returns the numbers in the stream of a file's creators.
func (c *creators) add(list []Creator) []uint32 {
	if c.number == nil {
		c.number, c.list = map[Creator]uint32{{}: 0}, []Creator{{}}
	}
	out := make([]uint32, len(list))
	for i, x := range list[1:] {
		out[i+1] = c.of(x, &c.list)
	}
	return out
}
