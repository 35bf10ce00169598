package nytprof

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zlib"
)

// magic begins every file, of both dialects.
const magic = "NYTProf "

// A FormatError is an error in a file.
type FormatError struct {
	// Offset is the place of the chunk at which reading ended. It counts bytes of
	// the file, and inflated bytes after START_DEFLATE.
	Offset   int64
	Inflated bool // Offset is beyond START_DEFLATE
	Err      error
}

func (e *FormatError) Error() string {
	where := "offset"
	if e.Inflated {
		where = "inflated offset"
	}
	return fmt.Sprintf("NYTProf: %s %d: %v", where, e.Offset, e.Err)
}

func (e *FormatError) Unwrap() error { return e.Err }

// A Reader reads a file's chunks from the first to the last, in constant
// memory. NewReader makes one.
type Reader struct {
	d        *decoder
	kinds    [256]Chunk // by first byte; what Chunks yields
	inflated bool
	running  map[uint32]bool // processes with a PID_START and no PID_END
}

// maxProcesses bounds the number of PID_STARTs that a Reader remembers.
const maxProcesses = 1 << 16

// NewReader returns a Reader of r, which it reads in large pieces.
func NewReader(r io.Reader) *Reader {
	return &Reader{
		d:       newDecoder(r),
		running: make(map[uint32]bool),
		kinds: [256]Chunk{
			'#': new(Comment), ':': new(Attribute), '!': new(Option), 'z': new(StartDeflate),
			'P': new(PIDStart), 'p': new(PIDEnd), '@': new(NewFID),
			'+': new(TimeLine), '*': new(TimeBlock), '-': new(Discount),
			'>': new(SubEntry), '<': new(SubReturn),
			'S': new(SrcLine), 's': new(SubInfo), 'c': new(SubCallers),
		},
	}
}

// Chunks yields the chunks, beginning with VERSION. A chunk belongs to the Reader and
// is valid until the next one; its strings stay valid. An error is the last thing
// yielded: a *[FormatError] if the file is damaged, truncated or of another format,
// otherwise it wraps the error of the io.Reader. Chunks can be used once.
func (r *Reader) Chunks() iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		var c Chunk
		v, err := r.version()
		for c = v; err == nil; c, err = r.next() {
			if c == nil {
				return
			}
			if !yield(c, nil) {
				return
			}
		}
		yield(nil, err)
	}
}

// version reads the first line.
func (r *Reader) version() (*Version, error) {
	d := r.d
	d.fill(len(magic))
	if !bytes.HasPrefix(d.buf[d.pos:d.end], []byte(magic)) {
		if d.srcErr != nil && d.srcErr != io.EOF {
			return nil, d.srcErr
		}
		return nil, r.errorAt(0, fmt.Errorf("does not begin with %q: not an NYTProf file", magic))
	}
	d.pos += len(magic)
	line := d.line()
	if d.err != nil {
		return nil, r.errorAt(0, fmt.Errorf("%w its first line", d.err))
	}
	major, minor, _ := strings.Cut(line, " ")
	a, err := strconv.ParseUint(major, 10, 32)
	b, err2 := strconv.ParseUint(minor, 10, 32)
	if err != nil || err2 != nil {
		return nil, r.errorAt(0, fmt.Errorf("the version %q is not two numbers", line))
	}
	if a != 5 {
		return nil, r.errorAt(0, fmt.Errorf("version %d.%d is not 5", a, b))
	}
	return &Version{Major: uint32(a), Minor: uint32(b)}, nil
}

func (r *Reader) errorAt(offset int64, err error) error {
	return &FormatError{Offset: offset, Inflated: r.inflated, Err: err}
}

// next returns the next chunk, or nil at the end of the file.
func (r *Reader) next() (Chunk, error) {
	d := r.d
	for {
		if d.pos == d.end && !d.fill(1) {
			return nil, r.end()
		}
		start, tag := d.offset(), d.buf[d.pos]
		c := r.kinds[tag]
		if c == nil {
			if tag == '\n' && !r.inflated {
				return nil, r.errorAt(start, errors.New("a blank line: this is the dialect of Pynytprof (format pynytprof)"))
			}
			return nil, r.errorAt(start, fmt.Errorf("no chunk begins with the byte %q", tag))
		}
		d.pos++
		c.decode(d)
		if d.err != nil {
			if d.err == errMalformed {
				d.err = nil
				continue
			}
			return nil, r.errorAt(start, fmt.Errorf("%w %s", d.err, c.Tag()))
		}
		switch c := c.(type) {
		case *PIDStart:
			if len(r.running) == maxProcesses {
				return nil, r.errorAt(start, fmt.Errorf("more than %d processes", maxProcesses))
			}
			r.running[c.PID] = true
		case *PIDEnd:
			delete(r.running, c.PID)
		case *StartDeflate:
			if err := r.inflate(start); err != nil {
				return nil, err
			}
		}
		return c, nil
	}
}

// end checks the end of a file: it must be after a chunk, with all processes ended.
func (r *Reader) end() error {
	d := r.d
	if d.srcErr == io.ErrUnexpectedEOF && r.inflated {
		return r.errorAt(d.offset(), fmt.Errorf("%w: inside the zlib stream", ErrTruncated))
	}
	if d.srcErr != io.EOF {
		return r.errorAt(d.offset(), d.srcErr)
	}
	for pid := range r.running {
		return r.errorAt(d.offset(), fmt.Errorf("%w: no PID_END of process %d: the profile is incomplete", ErrTruncated, pid))
	}
	return nil
}

// inflate makes the decoder continue in the zlib stream that begins here.
func (r *Reader) inflate(start int64) error {
	if r.inflated {
		return r.errorAt(start, errors.New("START_DEFLATE inside the deflated part"))
	}
	d := r.d
	rest := bytes.Clone(d.buf[d.pos:d.end])
	src := d.src
	if d.srcErr != nil {
		src = errReader{d.srcErr}
	}
	z, err := zlib.NewReader(io.MultiReader(bytes.NewReader(rest), src))
	if err != nil {
		return r.errorAt(start, fmt.Errorf("START_DEFLATE: %w", err))
	}
	d.base += int64(d.pos)
	d.src, d.srcErr, d.pos, d.end = z, nil, 0, 0
	r.inflated = true
	return nil
}

// errReader replaces a source that ended.
type errReader struct{ err error }

func (e errReader) Read([]byte) (int, error) { return 0, e.err }
