package reader

import (
	"cmp"
	"encoding/json"
	"errors"
	"iter"
	"slices"

	"github.com/gotach/profiler/internal/decode"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

// findSection looks for the record section, which ends at the file offset end. It returns the
// offset at which the bytes before it end.
func (r *Reader) findSection(strings []tableString, end int64) (int64, error) {
	for i := len(strings) - 1; i >= 0; i-- {
		kind, ok := metadataKind(strings[i].text)
		if !ok || kind != tachyon.KindRecords {
			continue
		}
		var s tachyon.Section
		at := strings[i].offset
		if err := json.Unmarshal([]byte(strings[i].text), &s); err != nil {
			return 0, r.errorAt(at, "metadata of kind %q: %w", kind, err)
		}
		if s.Offset < int64(r.header.FrameOffset) || s.Length < 0 || s.Offset > end || s.Length != end-s.Offset {
			return 0, r.errorAt(at, "the record section of %d bytes at %d is not between frame table and footer, %d to %d", s.Length, s.Offset, r.header.FrameOffset, end)
		}
		if r.section, r.sectionAt = s, at; s.Version != tachyon.RecordsVersion {
			r.section.Length = 0
		}
		return s.Offset, nil
	}
	r.section = tachyon.Section{}
	return end, nil
}

// Goroutines yields the metadata of goroutines in the order of the file, without keeping them. A
// goroutine may come in several parts; see [tachyon.Records]. Metadata has them all together. A
// part is valid until the next iteration; its labels may be kept. An error comes with a nil
// goroutine and ends the iteration. It is a [*FormatError] if the file is damaged.
func (r *Reader) Goroutines() iter.Seq2[*tachyon.Goroutine, error] {
	return each(func(pass func(*tachyon.Goroutine) error) error {
		if err := r.oldGoroutines(pass); err != nil {
			return err
		}
		return r.records(func(rec decode.Record) error {
			if rec.Goroutine == nil {
				return nil
			}
			return pass(rec.Goroutine)
		})
	})
}

// Objects yields the descriptions of objects in the order of the file, without keeping them. An
// object may come several times; the last description counts. An error comes with a nil object and
// ends the iteration.
func (r *Reader) Objects() iter.Seq2[*tachyon.Object, error] {
	return each(func(pass func(*tachyon.Object) error) error {
		return r.blocks(func(b []byte) (int, error) {
			return decode.Objects(b, func(text []byte) error {
				o := &tachyon.Object{}
				if err := json.Unmarshal(text, o); err != nil {
					return err
				}
				return pass(o)
			})
		})
	})
}

// Stops yields how often goroutines stopped running, in order of time, about a second at a time. A
// *Stops is valid until the next one. There may be several with the same Until. An error comes with
// nil and ends the iteration.
func (r *Reader) Stops() iter.Seq2[*tachyon.Stops, error] {
	return each(func(pass func(*tachyon.Stops) error) error {
		return r.blocks(func(b []byte) (int, error) { return decode.Stops(b, pass) })
	})
}

// each yields what read passes on, and then its error, unless that is errStop.
func each[T any](read func(pass func(*T) error) error) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		err := read(func(x *T) error {
			if !yield(x, nil) {
				return errStop
			}
			return nil
		})
		if err != nil && err != errStop {
			yield(nil, err)
		}
	}
}

// A FirstWeight is the weight in µs of a goroutine's first sample.
type FirstWeight struct{ Goroutine, Weight uint64 }

// FirstWeights returns the weights of goroutines' first samples that the file says, by ascending
// goroutine id. It does not decode the other facts about goroutines.
func (r *Reader) FirstWeights() ([]FirstWeight, error) {
	var list []FirstWeight
	most := int(400_000 + r.Size()) // as many as addRecords accepts, and more
	add := func(id, weight uint64) error {
		if len(list) > most {
			return errors.New("too many goroutines for the size of the file")
		}
		if weight > 0 {
			list = append(list, FirstWeight{id, weight})
		}
		return nil
	}
	list = slices.Grow(list, int(min(int64(r.header.Threads), r.section.Length/4)))
	err := r.oldGoroutines(func(g *tachyon.Goroutine) error { return add(g.ID, g.FirstWeight) })
	if err == nil {
		err = r.blocks(func(b []byte) (int, error) { return decode.Weights(b, add) })
	}
	if err != nil {
		return nil, err
	}
	return lastOfEach(list, func(w FirstWeight) uint64 { return w.Goroutine }), nil
}

// oldGoroutines calls yield with the goroutines that are in a metadata string, as they were before
// there was a record section. It returns yield's error errStop as it is.
func (r *Reader) oldGoroutines(yield func(*tachyon.Goroutine) error) error {
	for _, s := range r.loaded().spare {
		kind, ok := metadataKind(s.text)
		if !ok || kind != tachyon.KindGoroutines {
			continue
		}
		var m tachyon.Metadata
		if err := decodeMetadata(&m, kind, s.text); err != nil {
			return r.errorAt(s.offset, "metadata of kind %q: %w", kind, err)
		}
		for i := range m.Goroutines {
			if err := yield(&m.Goroutines[i]); err == errStop {
				return err
			} else if err != nil {
				return r.errorAt(s.offset, "%w", err)
			}
		}
	}
	return nil
}

// records calls yield with all records of the section. It returns yield's error errStop as it is.
func (r *Reader) records(yield func(decode.Record) error) error {
	return r.blocks(func(b []byte) (int, error) { return decode.Records(b, yield) })
}

// blocks calls each with the content of each block of the record section. each returns an error
// and the offset of the record with the error. The number of records is limited by the file's size,
// because they can be compressed a thousandfold.
func (r *Reader) blocks(each func([]byte) (int, error)) error {
	defer r.release(r.section.Offset, r.section.Offset+r.section.Length)
	var d decode.Blocks
	defer d.Close()
	var stored []byte
	raw, most := uint64(0), 16<<20+64*uint64(r.Size())
	for at, end := r.section.Offset, r.section.Offset+r.section.Length; at < end; {
		var head [wire.BlockHeader]byte
		if end-at < wire.BlockHeader {
			return r.errorAt(at, "record section: truncated block")
		}
		if err := r.readFull(head[:], at); err != nil {
			return err
		}
		h := decode.CutBlock(head[:])
		if int64(h.Stored) > end-at-wire.BlockHeader {
			return r.errorAt(at, "record section: a block of %d bytes, but only %d are left", h.Stored, end-at-wire.BlockHeader)
		}
		if cap(stored) < int(h.Stored) {
			stored = make([]byte, h.Stored)
		}
		stored = stored[:h.Stored]
		if err := r.readFull(stored, at+wire.BlockHeader); err != nil {
			return err
		}
		if raw += uint64(h.Records); raw > most {
			return r.errorAt(at, "record section: too many records for the size of the file")
		}
		b, err := d.Decode(h, stored)
		if err != nil {
			return r.errorAt(at, "record section: %w", err)
		}
		if n, err := each(b); err == errStop {
			return err
		} else if err != nil {
			return r.errorAt(at, "record section: record at %d of the block: %w", n, err)
		}
		at += wire.BlockHeader + int64(h.Stored)
	}
	return nil
}

// addRecords adds the content of the record section to m.
func (r *Reader) addRecords(m *tachyon.Metadata) error {
	var progress *tachyon.Progress
	budget := 32<<20 + 128*r.Size()
	known := make(map[uint64]int) // indices in m.Goroutines
	err := r.records(func(rec decode.Record) error {
		if rec.Progress != nil {
			progress = &tachyon.Progress{}
			return json.Unmarshal(rec.Progress, progress)
		}
		if rec.Object != nil {
			var o tachyon.Object
			if budget -= 200 + int64(len(rec.Object)); budget < 0 {
				return errors.New("too many objects for the size of the file")
			}
			err := json.Unmarshal(rec.Object, &o)
			m.Objects = append(m.Objects, o)
			return err
		}
		g := rec.Goroutine
		if g == nil {
			return nil
		}
		if budget -= weightOf(g); budget < 0 {
			return errors.New("too many goroutines for the size of the file")
		}
		i, again := known[g.ID]
		if again {
			m.Goroutines[i].Add(g)
			return nil
		}
		known[g.ID] = len(m.Goroutines)
		m.Goroutines = append(m.Goroutines, *g)
		return nil
	})
	if err != nil {
		return err
	}
	if s := m.Session; s != nil && s.Duration == 0 && progress != nil {
		return r.describe(s, progress)
	}
	return nil
}

// describe copies the latest progress into a session.
func (r *Reader) describe(s *tachyon.Session, p *tachyon.Progress) error {
	p.Describe(s)
	if err := decode.CheckSession(s); err != nil {
		return r.errorAt(r.section.Offset, "record section: progress: %w", err)
	}
	return nil
}

// addProgress adds the latest progress in the record section to a session that was not stopped.
func (r *Reader) addProgress(s *tachyon.Session) error {
	var progress *tachyon.Progress
	err := r.blocks(func(b []byte) (int, error) {
		return decode.Progress(b, func(text []byte) error {
			progress = &tachyon.Progress{}
			return json.Unmarshal(text, progress)
		})
	})
	if err != nil || progress == nil {
		return err
	}
	return r.describe(s, progress)
}

// weightOf returns about how many bytes of memory a goroutine takes.
func weightOf(g *tachyon.Goroutine) int64 {
	n := int64(200)
	for _, span := range g.Labels {
		n += 100 + 50*int64(len(span.Labels))
	}
	return n
}

// lastOfEach sorts a list by number and leaves out all but the last one of each number.
func lastOfEach[T any, N cmp.Ordered](list []T, number func(T) N) []T {
	order := func(a, b T) int { return cmp.Compare(number(a), number(b)) }
	if !slices.IsSortedFunc(list, order) {
		slices.SortStableFunc(list, order)
	}
	out := list[:0]
	for i := range list {
		if n := len(out); n > 0 && number(out[n-1]) == number(list[i]) {
			out = out[:n-1]
		}
		out = append(out, list[i])
	}
	return out
}
