package pprof

import (
	"io"
	"os"

	"github.com/gotach/profiler/internal/formats/protobuf"
)

// A stringTable numbers strings. It keeps the encoded table in memory while it is small, then in a
// temporary file.
type stringTable struct {
	numbers map[string]int64
	values  map[string]int64 // of labels, some of which may be different for each goroutine
	count   int64
	b       []byte
	file    *os.File
	err     error
}

const (
	// maxValues is the number of labels' values that are remembered. After that they may be in the
	// table several times.
	maxValues = 1 << 17

	maxInMemory = 16 << 20 // bytes of the encoded table
)

// add returns the number of a string.
func (t *stringTable) add(s string) int64 {
	n, ok := t.numbers[s]
	if !ok {
		if n, ok = t.values[s]; ok {
			return n
		}
		if t.numbers == nil {
			t.numbers, t.values = map[string]int64{}, map[string]int64{}
		}
		n = t.append(s)
		t.numbers[s] = n
	}
	return n
}

// value returns the number of a label's value.
func (t *stringTable) value(s string) int64 {
	n, ok := t.values[s]
	if !ok {
		if n, ok = t.numbers[s]; ok {
			return n
		}
		if len(t.values) == maxValues {
			clear(t.values)
		}
		n = t.append(s)
		t.values[s] = n
	}
	return n
}

func (t *stringTable) append(s string) int64 {
	t.b = protobuf.Message(t.b, profileString, s)
	t.count++
	if len(t.b) > maxInMemory && t.err == nil {
		t.spill()
	}
	return t.count - 1
}

// spill moves the table to the temporary file.
func (t *stringTable) spill() {
	if t.file == nil {
		if t.file, t.err = os.CreateTemp("", "gotach-*.strings"); t.err != nil {
			return
		}
	}
	_, t.err = t.file.Write(t.b)
	t.b = t.b[:0]
}

// writeTo writes the table.
func (t *stringTable) writeTo(w io.Writer) error {
	if t.err != nil {
		return t.err
	}
	if t.file != nil {
		if _, err := t.file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.Copy(w, t.file); err != nil {
			return err
		}
	}
	_, err := w.Write(t.b)
	return err
}

// close removes the temporary file.
func (t *stringTable) close() {
	if t.file != nil {
		t.file.Close()
		os.Remove(t.file.Name())
	}
}
