package stream

// An idSet is a set of goroutine ids. Ids are nearly successive numbers, so it takes about a bit
// for each. The zero value is empty.
type idSet struct {
	chunks map[uint64]*[8]uint64
	at     uint64 // number of the chunk that was used last
	last   *[8]uint64
}

// chunk returns the chunk with an id, which is nil if there is none.
func (s *idSet) chunk(id uint64) *[8]uint64 {
	if s.last == nil || s.at != id>>9 {
		s.last, s.at = s.chunks[id>>9], id>>9
	}
	return s.last
}

// has reports whether an id is in the set. Several goroutines may call it at once.
func (s *idSet) has(id uint64) bool {
	c := s.chunks[id>>9]
	return c != nil && c[id>>6&7]>>(id&63)&1 != 0
}

// add adds an id. It returns false if the id is in the set already.
func (s *idSet) add(id uint64) bool {
	c := s.chunk(id)
	if c == nil {
		if s.chunks == nil {
			s.chunks = map[uint64]*[8]uint64{}
		}
		c = new([8]uint64)
		s.chunks[id>>9] = c
		s.last = c
	}
	word, bit := &c[id>>6&7], uint64(1)<<(id&63)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}

// Names give goroutines of different processes different ids. Those of the second process have
// apart added to them, those of the third one twice that, and so on.
type Names struct {
	one    bool // all files are of one process
	number map[Process]uint64

	// Ids of other profilers may be as large as that. They are raised only as often as it takes.
	used idSet
	of   map[Process][]idSet // ids in the process's files, by how often apart was added to them
}

// apart is what the ids of two successive processes differ by. No program starts so many
// goroutines.
const apart = 1_000_000_000_000

// newNames returns the names for the goroutines of files.
func newNames(parts []*Part) Names {
	n := Names{one: true, number: map[Process]uint64{}, of: map[Process][]idSet{}}
	for _, p := range parts {
		n.one = n.one && p.Process == parts[0].Process
		if _, ok := n.number[p.Process]; !ok {
			n.number[p.Process] = uint64(len(n.number))
		}
	}
	return n
}

// ID returns the id in the stream of a goroutine of a process. It is the same each time. Several
// goroutines may ask at once for ids that were asked for before.
func (n *Names) ID(p Process, id uint64) uint64 {
	if n.one {
		return id
	}
	if id < apart {
		return id + n.number[p]*apart
	}
	own := n.of[p]
	for i := range own {
		if own[i].has(id) {
			return id + uint64(i)*apart
		}
	}
	level := 0
	for n.used.has(id + uint64(level)*apart) {
		level++
	}
	for len(own) <= level {
		own = append(own, idSet{})
	}
	own[level].add(id)
	n.of[p] = own
	n.used.add(id + uint64(level)*apart)
	return id + uint64(level)*apart
}

// A Table numbers different values from 0, in the order in which they come first. The zero value is
// empty.
type Table[T comparable] struct {
	List   []T // by number
	number map[T]uint32
}

// Of returns the number of a value.
func (t *Table[T]) Of(v T) uint32 {
	n, ok := t.number[v]
	if !ok {
		if t.number == nil {
			t.number = map[T]uint32{}
		}
		n = uint32(len(t.List))
		t.number[v] = n
		t.List = append(t.List, v)
	}
	return n
}
