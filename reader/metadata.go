package reader

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

// Metadata returns gotach's metadata. All fields are nil for a file of another writer.
// Metadata leaves out kinds that this version does not know; MetadataObjects returns them.
// The only error is a [*FormatError] for a damaged metadata object.
func (r *Reader) Metadata() (*tachyon.Metadata, error) {
	m := &tachyon.Metadata{}
	for _, s := range r.spare {
		kind, ok := metadataKind(s.text)
		if !ok {
			continue
		}
		if err := decodeMetadata(m, kind, s.text); err != nil {
			return nil, r.errorAt(s.offset, "metadata of kind %q: %w", kind, err)
		}
	}
	return m, nil
}

// MetadataObjects returns gotach's metadata of every kind, as JSON objects whose first key
// is "gotach". Their text is that of the file.
func (r *Reader) MetadataObjects() []string {
	var list []string
	for _, s := range r.spare {
		if _, ok := metadataKind(s.text); ok {
			list = append(list, s.text)
		}
	}
	return list
}

// metadataKind returns the value of an object's first key. ok is false if s is not an
// object, the first key is not "gotach" or its value is not a string.
func metadataKind(s string) (kind string, ok bool) {
	if !strings.HasPrefix(s, "{") {
		return "", false
	}
	d := json.NewDecoder(strings.NewReader(s))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return "", false
	}
	if t, err := d.Token(); err != nil || t != "gotach" {
		return "", false
	}
	t, err := d.Token()
	if err != nil {
		return "", false
	}
	kind, ok = t.(string)
	return kind, ok
}

var errTwice = errors.New("more than one object of this kind")

// decodeMetadata adds one object to m.
func decodeMetadata(m *tachyon.Metadata, kind, s string) error {
	b := []byte(s)
	switch kind {
	case tachyon.KindSession:
		if m.Session != nil {
			return errTwice
		}
		return json.Unmarshal(b, &m.Session)
	case tachyon.KindGoroutines:
		var part struct {
			Goroutines []tachyon.Goroutine `json:"goroutines"`
		}
		if err := json.Unmarshal(b, &part); err != nil {
			return err
		}
		m.Goroutines = append(m.Goroutines, part.Goroutines...)
		return nil
	case tachyon.KindPCs:
		if m.PCs != nil {
			return errTwice
		}
		return json.Unmarshal(b, &m.PCs)
	case tachyon.KindChecksum:
		if m.Checksum != nil {
			return errTwice
		}
		return json.Unmarshal(b, &m.Checksum)
	}
	if !json.Valid(bytes.TrimSpace(b)) {
		return errors.New("not a JSON object")
	}
	return nil
}

// VerifyChecksum compares the sample region with the checksum in the file's metadata. It
// returns false if there is no checksum, as in files of other writers. The error for a
// wrong checksum is a [*FormatError] that wraps [ErrChecksum].
func (r *Reader) VerifyChecksum() (present bool, err error) {
	m, err := r.Metadata()
	if err != nil || m.Checksum == nil {
		return false, err
	}
	var sum checksum
	region := io.NewSectionReader(r.src, tachyon.HeaderSize, r.SampleBytes())
	// A SectionReader is no io.WriterTo, so Copy uses its own small buffer.
	if n, err := io.Copy(&sum, region); err != nil {
		return true, r.ioError(tachyon.HeaderSize+n, err)
	} else if n < r.SampleBytes() {
		return true, r.ioError(tachyon.HeaderSize+n, io.EOF)
	}
	if got, want := uint32(sum), m.Checksum.CRC32C; got != want {
		return true, r.errorAt(tachyon.HeaderSize, "%w: CRC-32C %08x, want %08x", ErrChecksum, got, want)
	}
	return true, nil
}

// A checksum is the CRC-32C of the bytes written to it.
type checksum uint32

func (c *checksum) Write(p []byte) (int, error) {
	*c = checksum(wire.CRC(uint32(*c), p))
	return len(p), nil
}
