package parquet

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"os"
	"slices"
)

// perChunk is the number of rows that are sorted in memory: some 30 MB, with labels more.
const perChunk = 1 << 18

// A sorter sorts rows. If there are many, it keeps them in a temporary file.
type sorter struct {
	dir    string
	less   func(a, b *row) int
	chunk  []row
	file   *os.File
	ends   []int64 // of the chunks in the file
	limit  int     // of rows in memory, for tests; 0: perChunk
	buffer []byte
}

// add adds a row.
func (s *sorter) add(r *row) error {
	s.chunk = append(s.chunk, *r)
	limit := s.limit
	if limit == 0 {
		limit = perChunk
	}
	if len(s.chunk) < limit {
		return nil
	}
	return s.spill()
}

// spill writes the rows in memory to the file.
func (s *sorter) spill() error {
	slices.SortFunc(s.chunk, func(a, b row) int { return s.less(&a, &b) })
	if s.file == nil {
		if err := os.MkdirAll(s.dir, 0o700); err != nil {
			return err
		}
		f, err := os.CreateTemp(s.dir, ".sort-*")
		if err != nil {
			return err
		}
		s.file = f
		if err := os.Remove(f.Name()); err != nil { // on systems that remove open files, none is left after a kill
			s.buffer = nil
		}
	}
	w := bufio.NewWriterSize(s.file, 64<<10)
	for i := range s.chunk {
		s.buffer = s.chunk[i].append(s.buffer[:0])
		if _, err := w.Write(s.buffer); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	end, err := s.file.Seek(0, io.SeekCurrent)
	s.ends = append(s.ends, end)
	clear(s.chunk)
	s.chunk = s.chunk[:0]
	return err
}

// append appends a row's bytes: its length and its fields.
func (r *row) append(b []byte) []byte {
	b = binary.AppendVarint(b, r.start)
	b = binary.AppendVarint(b, r.wall)
	b = binary.AppendVarint(b, r.cpu)
	b = binary.AppendUvarint(b, r.goroutine)
	b = binary.AppendUvarint(b, uint64(r.file))
	b = binary.AppendUvarint(b, uint64(r.creator))
	b = binary.AppendUvarint(b, uint64(r.place))
	b = append(b, r.kind)
	b = binary.AppendUvarint(b, uint64(len(r.labels)))
	return append(b, r.labels...)
}

// read reads what append wrote.
func (r *row) read(in *bufio.Reader) error {
	var err error
	signed := func() int64 {
		n, e := binary.ReadVarint(in)
		err = errors.Join(err, e)
		return n
	}
	unsigned := func() uint64 {
		n, e := binary.ReadUvarint(in)
		err = errors.Join(err, e)
		return n
	}
	r.start, r.wall, r.cpu = signed(), signed(), signed()
	r.goroutine, r.file, r.creator, r.place = unsigned(), uint32(unsigned()), uint32(unsigned()), uint32(unsigned())
	kind, e := in.ReadByte()
	r.kind = kind
	n := unsigned()
	if err = errors.Join(err, e); err != nil {
		return err
	}
	if n == 0 {
		r.labels = ""
		return nil
	}
	b := make([]byte, n)
	_, err = io.ReadFull(in, b)
	r.labels = string(b)
	return err
}

// A chunk is a sorted part of the rows.
type chunk struct {
	in    *bufio.Reader // nil: all rows are in memory
	left  *io.LimitedReader
	rows  []row
	first row
}

// next reads the next row. It returns io.EOF after the last one.
func (c *chunk) next() error {
	if c.in == nil {
		if len(c.rows) == 0 {
			return io.EOF
		}
		c.first, c.rows = c.rows[0], c.rows[1:]
		return nil
	}
	if c.left.N == 0 && c.in.Buffered() == 0 {
		return io.EOF
	}
	return c.first.read(c.in)
}

// rows yields all rows in their order.
func (s *sorter) rows() iter.Seq2[*row, error] {
	return func(yield func(*row, error) bool) {
		slices.SortFunc(s.chunk, func(a, b row) int { return s.less(&a, &b) })
		chunks := []*chunk{{rows: s.chunk}}
		begin := int64(0)
		for _, end := range s.ends {
			left := &io.LimitedReader{R: io.NewSectionReader(s.file, begin, end-begin), N: end - begin}
			chunks = append(chunks, &chunk{in: bufio.NewReaderSize(left, 32<<10), left: left})
			begin = end
		}
		live := chunks[:0]
		for _, c := range chunks {
			switch err := c.next(); err {
			case nil:
				live = append(live, c)
			case io.EOF:
			default:
				yield(nil, err)
				return
			}
		}
		order := func(a, b *chunk) int { return s.less(&a.first, &b.first) }
		slices.SortFunc(live, order)
		for len(live) > 0 {
			c := live[0]
			if !yield(&c.first, nil) {
				return
			}
			switch err := c.next(); err {
			case nil: // back to its place among the others, which is near: most rows are in order
				i := 1
				for i < len(live) && order(c, live[i]) > 0 {
					live[i-1] = live[i]
					i++
				}
				live[i-1] = c
			case io.EOF:
				live = live[1:]
			default:
				yield(nil, err)
				return
			}
		}
	}
}

// close removes the temporary file.
func (s *sorter) close() {
	if s.file != nil {
		s.file.Close()
		os.Remove(s.file.Name()) // on systems that did not remove it while it was open
	}
}
