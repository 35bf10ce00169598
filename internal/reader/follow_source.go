package reader

import (
	"io"
	"math"
	"os"
)

// A followed source has the sample region of a growing file up to some point, and records after it.
type followed struct {
	region growing
	r      io.Reader // region, decompressed
	taken  uint64    // bytes that came out of r
	until  uint64    // bytes that r has; math.MaxUint64: until its end
	rest   []byte    // records after these
	passed uint64    // bytes that the decoder has got
}

// Read implements io.Reader. It skips what the decoder has got from rest before.
func (s *followed) Read(p []byte) (int, error) {
	for s.taken < s.until {
		n, err := s.r.Read(p[:min(uint64(len(p)), s.until-s.taken)])
		begin := s.taken
		s.taken += uint64(n)
		switch {
		case err == io.EOF && s.until == math.MaxUint64:
			s.until = s.taken
		case err == io.EOF:
			err = io.ErrUnexpectedEOF
			fallthrough
		case err != nil:
			return 0, err
		}
		if s.taken > s.passed {
			n = copy(p, p[max(s.passed, begin)-begin:n])
			s.passed = s.taken
			return n, nil
		}
	}
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	s.passed += uint64(n)
	return n, nil
}

// A held source is a file that somebody else closes.
type held struct {
	*os.File
	size int64
}

func (h held) Size() int64 { return h.size }
func (held) Close() error  { return nil }

// A growing reads a file up to a limit.
type growing struct {
	file       *os.File
	off, limit int64
}

func (g *growing) Read(p []byte) (int, error) {
	n, err := g.file.ReadAt(p[:max(0, min(int64(len(p)), g.limit-g.off))], g.off)
	if g.off += int64(n); n > 0 {
		return n, nil
	}
	if err == nil {
		err = io.EOF
	}
	return 0, err
}
