package pynytprof

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/gotach/profiler/nytprof"
)

// maxText bounds a line or name.
const maxText = 1 << 20

// decode reads a file. If it is damaged or truncated, decode returns both what it
// could read and an error that says where the bad line or record begins.
func decode(r io.Reader) (*file, error) {
	d := decoder{r: bufio.NewReaderSize(r, 64<<10), f: new(file)}
	err := d.head()
	if err == nil {
		err = d.records()
	}
	if err != nil {
		err = fmt.Errorf("pynytprof: at byte %d: %w", d.start, err)
	}
	return d.f, err
}

type decoder struct {
	r     *bufio.Reader
	pos   int64 // in the file
	start int64 // of the line or record being read
	left  int64 // bytes of the record being read
	f     *file
}

// line reads a line and returns it without its end.
func (d *decoder) line() (string, error) {
	return d.until('\n', maxText)
}

// until reads up to and with an end, which it leaves out.
func (d *decoder) until(end byte, limit int64) (string, error) {
	var b []byte
	for {
		part, err := d.r.ReadSlice(end)
		d.pos += int64(len(part))
		b = append(b, part...)
		if int64(len(b)) > limit {
			return "", fmt.Errorf("a text of more than %d bytes", limit)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil {
			return "", cut(err)
		}
		return string(b[:len(b)-1]), nil
	}
}

// cut returns the error for a read that failed inside a line or record.
func cut(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errors.New("truncated file: inside what begins here")
	}
	return err
}

// head reads the lines of text and the blank one.
func (d *decoder) head() error {
	line, err := d.line()
	if err != nil {
		return fmt.Errorf("not an NYTProf file: %w", err)
	}
	if n, _ := fmt.Sscanf(line, "NYTProf %d %d", &d.f.Major, &d.f.Minor); n != 2 || line != version(d.f) {
		return errors.New("not an NYTProf file")
	}
	if d.f.Major != 5 {
		return fmt.Errorf("version %d.%d is not 5", d.f.Major, d.f.Minor)
	}
	for {
		d.start = d.pos
		tag, err := d.r.Peek(1)
		if err != nil {
			return cut(err)
		}
		if strings.IndexByte("#:!\n", tag[0]) < 0 {
			return nil // without the blank line
		}
		line, err := d.line()
		if err != nil {
			return err
		}
		if line == "" {
			d.start = d.pos
			return nil
		}
		key, value, ok := strings.Cut(line[1:], "=")
		switch {
		case tag[0] == '#':
			d.f.Comments = append(d.f.Comments, line[1:])
		case !ok:
			return fmt.Errorf("no = in %q", line)
		case tag[0] == ':':
			d.f.Attributes = append(d.f.Attributes, nytprof.Attribute{Key: key, Value: value})
		default:
			d.f.Options = append(d.f.Options, nytprof.Option{Key: key, Value: value})
		}
	}
}

// version is the first line.
func version(f *file) string { return fmt.Sprintf("NYTProf %d %d", f.Major, f.Minor) }

// records reads the records up to the end of the file.
func (d *decoder) records() error {
	for expected := order; ; {
		d.start = d.pos
		var head [5]byte
		if n, err := io.ReadFull(d.r, head[:]); err != nil {
			d.pos += int64(n)
			if n == 0 && err == io.EOF {
				return fmt.Errorf("truncated file: no record %c", expected[len(expected)-1])
			}
			return cut(err)
		}
		d.pos += int64(len(head))
		token := head[0]
		d.left = int64(binary.LittleEndian.Uint32(head[1:]))
		if strings.IndexByte("FBA", token) >= 0 && expected != order {
			n, err := io.CopyN(io.Discard, d.r, d.left)
			d.pos += n
			if err != nil {
				return cut(err)
			}
			continue
		}
		at := strings.IndexByte(expected, token)
		switch {
		case at < 0 && strings.IndexByte(order, token) >= 0:
			return fmt.Errorf("the record %c comes too late", token)
		case at < 0:
			return fmt.Errorf("no record has the token %q", token)
		case expected == order && token != 'P':
			return fmt.Errorf("the first record is %c, not P", token)
		}
		if err := d.record(token); err != nil {
			return fmt.Errorf("record %c: %w", token, err)
		}
		expected = expected[at+1:]
		if token == 'E' {
			break
		}
	}
	d.start = d.pos
	if _, err := d.r.ReadByte(); err == nil {
		return errors.New("more after the record E")
	} else if err != io.EOF {
		return err
	}
	return nil
}

// record reads the elements of a record. It allocates memory only for elements that
// are in the file.
func (d *decoder) record(token byte) error {
	le := binary.LittleEndian
	var b [lineSize]byte
	f := d.f
	switch token {
	case 'P':
		if d.left != processSize {
			return fmt.Errorf("it has %d bytes, not %d", d.left, processSize)
		}
		err := d.read(b[:processSize])
		f.Process = process{le.Uint64(b[0:]), le.Uint32(b[8:]), le.Uint32(b[12:])}
		return err
	case 'S':
		for d.left > 0 {
			if err := d.read(b[:lineSize]); err != nil {
				return err
			}
			f.Lines = append(f.Lines, lineTime{le.Uint32(b[0:]), le.Uint32(b[4:]), le.Uint32(b[8:]), le.Uint64(b[12:]), le.Uint64(b[20:])})
		}
	case 'C':
		for d.left > 0 {
			if err := d.read(b[:callSize]); err != nil {
				return err
			}
			f.Calls = append(f.Calls, call{le.Uint32(b[0:]), le.Uint32(b[4:]), le.Uint32(b[8:]), le.Uint64(b[12:]), le.Uint64(b[20:])})
		}
	case 'D':
		for d.left > 0 {
			if err := d.read(b[:8]); err != nil {
				return err
			}
			before := d.pos
			name, err := d.until(0, min(d.left, maxText))
			if err != nil {
				return err
			}
			d.left -= d.pos - before
			f.Subs = append(f.Subs, sub{le.Uint32(b[0:]), le.Uint32(b[4:]), name})
		}
	case 'E':
		if d.left != 0 {
			return fmt.Errorf("it has %d bytes, not none", d.left)
		}
	}
	return nil
}

// read fills b with the next bytes of the record.
func (d *decoder) read(b []byte) error {
	if d.left < int64(len(b)) {
		return fmt.Errorf("%d bytes are left, too few for one more", d.left)
	}
	n, err := io.ReadFull(d.r, b)
	d.pos += int64(n)
	d.left -= int64(n)
	if err != nil {
		return cut(err)
	}
	return nil
}
