package reader

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/gotach/profiler/internal/decode"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

// Metadata returns gotach's metadata. All fields are nil for a file of another writer. Metadata
// leaves out kinds that this version does not know; MetadataObjects returns them. The goroutines
// are in ascending order of their ids, each once. The session of an unfinished file has the counts
// from shortly before its end. The only error is a [*FormatError] for damaged metadata.
func (r *Reader) Metadata() (*tachyon.Metadata, error) {
	m, err := r.strings(true)
	if err != nil {
		return nil, err
	}
	if r.section.Length > 0 {
		if err := r.addRecords(m); err != nil {
			return nil, err
		}
		slices.SortStableFunc(m.Goroutines, func(a, b tachyon.Goroutine) int { return cmp.Compare(a.ID, b.ID) })
		m.Objects = lastOfEach(m.Objects, func(o tachyon.Object) int32 { return o.Number })
	}
	return m, nil
}

// Overview returns the metadata without goroutines and objects. It takes little time and memory,
// however large the file is.
func (r *Reader) Overview() (*tachyon.Metadata, error) {
	m, err := r.strings(false)
	if err != nil {
		return nil, err
	}
	if s := m.Session; s != nil && s.Duration == 0 {
		err = r.addProgress(s)
	}
	return m, err
}

// strings returns the metadata in the string table, with or without goroutines.
func (r *Reader) strings(goroutines bool) (*tachyon.Metadata, error) {
	m := &tachyon.Metadata{}
	for _, s := range r.loaded().spare {
		kind, ok := metadataKind(s.text)
		if !ok || kind == tachyon.KindGoroutines && !goroutines {
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
	for _, s := range r.loaded().spare {
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
		if err := json.Unmarshal(b, &m.Session); err != nil || m.Session == nil {
			return err
		}
		return decode.CheckSession(m.Session)
	case tachyon.KindGoroutines:
		var part struct {
			Goroutines []tachyon.Goroutine `json:"goroutines"`
		}
		if err := json.Unmarshal(b, &part); err != nil {
			return err
		}
		m.Goroutines = append(m.Goroutines, part.Goroutines...)
		for i := range part.Goroutines {
			if err := decode.CheckGoroutine(&part.Goroutines[i]); err != nil {
				return err
			}
		}
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

// VerifyChecksum compares the sample region and the record section with their checksums in the
// file's metadata. It returns false if there is no checksum of the samples, as in files of other
// writers. The error for a wrong checksum is a [*FormatError] that wraps [ErrChecksum].
func (r *Reader) VerifyChecksum() (present bool, err error) {
	m := &tachyon.Metadata{}
	for _, s := range r.loaded().spare {
		if kind, ok := metadataKind(s.text); ok && kind == tachyon.KindChecksum {
			if err := decodeMetadata(m, kind, s.text); err != nil {
				return false, r.errorAt(s.offset, "metadata of kind %q: %w", kind, err)
			}
		}
	}
	if m.Checksum == nil {
		return false, nil
	}
	got, err := r.sum(tachyon.HeaderSize, r.SampleBytes())
	if err != nil {
		return true, err
	}
	if want := m.Checksum.CRC32C; got != want {
		return true, r.errorAt(tachyon.HeaderSize, "sample region: %w: CRC-32C %08x, want %08x", ErrChecksum, got, want)
	}
	return true, r.verifySection()
}

// verifySection compares the record section with its checksum.
func (r *Reader) verifySection() error {
	if r.section.Length == 0 {
		return nil
	}
	got, err := r.sum(r.section.Offset, r.section.Length)
	if err == nil && got != r.section.CRC32C {
		err = r.errorAt(r.section.Offset, "record section: %w: CRC-32C %08x, want %08x", ErrChecksum, got, r.section.CRC32C)
	}
	return err
}

// sum returns the CRC-32C of a part of the file.
func (r *Reader) sum(offset, length int64) (uint32, error) {
	var sum checksum
	// A SectionReader is no io.WriterTo, so Copy uses its own small buffer.
	n, err := io.Copy(&sum, io.NewSectionReader(r.src, offset, length))
	if err == nil && n < length {
		err = io.EOF
	}
	if err != nil {
		return 0, r.ioError(offset+n, err)
	}
	return uint32(sum), nil
}

// A checksum is the CRC-32C of the bytes written to it.
type checksum uint32

func (c *checksum) Write(p []byte) (int, error) {
	*c = checksum(wire.CRC(uint32(*c), p))
	return len(p), nil
}
