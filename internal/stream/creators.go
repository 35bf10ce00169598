package stream

// A Creator says where a goroutine was created. Both strings are empty if that is unknown.
type Creator struct{ Func, At string }

// Creators returns the creators so far. Number 0 is the unknown one. Equal creators of all files
// have the same number.
func (s *Source) Creators() []Creator { return s.creators.table.List }

// KnowsCreators reports whether samples have creators (Options.Creators).
func (s *Source) KnowsCreators() bool { return s.o.Creators }

// creatorNumbers number creators: those of a file, or of all.
type creatorNumbers struct {
	table  Table[Creator]
	latest [4]struct {
		Creator
		number uint32
	}
	turn int
}

// newCreatorNumbers returns the numbers of no creator but the unknown one.
func newCreatorNumbers() (c creatorNumbers) {
	c.table.Of(Creator{})
	return c
}

// of returns the number of a creator.
func (c *creatorNumbers) of(x Creator) uint32 {
	// There are many goroutines and few creators. The strings of a block are the same ones, so this
	// is quick.
	for i := range c.latest {
		if c.latest[i].Creator == x {
			return c.latest[i].number
		}
	}
	n := c.table.Of(x)
	at := &c.latest[c.turn%len(c.latest)]
	at.Creator, at.number = x, n
	c.turn++
	return n
}

// add returns the numbers in the stream of a file's creators.
func (c *creatorNumbers) add(list []Creator) []uint32 {
	if c.table.List == nil {
		*c = newCreatorNumbers()
	}
	out := make([]uint32, len(list))
	for i, x := range list[1:] {
		out[i+1] = c.of(x)
	}
	return out
}
