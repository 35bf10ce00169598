package recovery

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"sort"
	"strings"

	"github.com/gotach/profiler/internal/journal"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/unfinished"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

// A trial finishes a profile from a journal that may be damaged: it finishes it, reads it, and
// leaves out more until it can be read to its end.
type trial struct {
	f       *os.File
	st      *unfinished.State // what is kept
	records []byte            // the samples of the journal
	kept    int               // bytes of these that are kept
	ends    []end             // of the records in them that are whole
	samples uint64
	cut     []string
}

// An end is the end of a record.
type end struct {
	at      int
	samples uint64 // in all records up to there
}

func newTrial(f *os.File, st *unfinished.State) *trial {
	return &trial{f: f, st: st, records: st.Records, ends: scan(st.Records)}
}

func (t *trial) said() string { return strings.Join(t.cut, ", ") }

func (t *trial) finish() error {
	n := len(t.ends)
	if err := t.try(n); err != nil {
		// The first so many records are good, all longer parts are not.
		if n = sort.Search(len(t.ends), func(n int) bool { return t.try(n) != nil }) - 1; n < 0 {
			return err // what is in the file is damaged, or the tables
		}
		if err := t.try(n); err != nil {
			return err
		}
	}
	if lost := len(t.records) - t.kept; lost > 0 {
		t.cut = append(t.cut, fmt.Sprintf("%d of %d bytes of samples", lost, len(t.records)))
	}
	for _, leave := range []struct {
		what string
		out  func(st *unfinished.State) (some bool)
	}{
		{"", func(*unfinished.State) bool { return true }},
		{"the latest records of goroutines", func(st *unfinished.State) (some bool) {
			some = len(st.Alone) > 0 || st.Progress != nil
			st.Alone, st.Progress = nil, nil
			return some
		}},
		{"all records of goroutines", func(st *unfinished.State) (some bool) {
			some, st.Blocks = len(st.Blocks) > 0, nil
			return some
		}},
		{"the metadata of the session", func(st *unfinished.State) (some bool) {
			some, st.Metadata = len(st.Metadata) > 0, nil
			return some
		}},
	} {
		if !leave.out(t.st) {
			continue
		}
		if leave.what != "" {
			t.cut = append(t.cut, leave.what)
		}
		err := t.try(n)
		if err != nil {
			return err
		}
		r, err := reader.Open(t.f.Name())
		if err != nil {
			continue
		}
		err = whole(r)
		if r.Close(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s: the journal is damaged, and so is what it continues", t.f.Name())
}

// try finishes the profile with the first n records of the journal, and reads the samples.
func (t *trial) try(n int) error {
	t.st.Records, t.samples = nil, t.st.Point.Samples
	if n > 0 {
		t.st.Records = t.records[:t.ends[n-1].at]
		t.samples += t.ends[n-1].samples
	}
	t.kept = len(t.st.Records)
	// Only a reader knows the number of threads. Until then the file is not finished for others:
	// see Finish.
	if err := t.write(math.MaxUint32); err != nil {
		return err
	}
	r, err := reader.Open(t.f.Name())
	if err != nil {
		return err
	}
	defer r.Close()
	all, err := r.Tally(journal.Point{Samples: t.samples})
	if err != nil {
		return err
	}
	if t.kept == len(t.records) {
		all.Extend(t.st)
	}
	t.samples = all.Samples
	return t.write(all.Threads)
}

// write writes the tail and then the header. The header makes the file complete.
func (t *trial) write(threads uint32) error {
	zw, err := wire.NewEncoder(0)
	if err != nil {
		return err
	}
	h, tail, err := t.st.Finish(t.samples, threads, func(records []byte) []byte { return zw.EncodeAll(records, nil) })
	if err != nil {
		return err
	}
	if _, err := t.f.WriteAt(make([]byte, tachyon.HeaderSize), 0); err != nil {
		return err
	}
	if _, err := t.f.WriteAt(tail, t.st.Point.Offset); err != nil {
		return err
	}
	if err := t.f.Truncate(t.st.Point.Offset + int64(len(tail))); err != nil {
		return err
	}
	head := wire.EncodeHeader(&h)
	_, err = t.f.WriteAt(head[:], 0)
	return err
}

// scan returns the ends of the records at the start of b. It does not know the threads' stacks, so
// it checks only lengths.
func scan(b []byte) (list []end) {
	at, samples := 0, uint64(0)
	number := func() (v uint64, ok bool) {
		v, n := binary.Uvarint(b[at:])
		at += max(n, 0)
		return v, n > 0
	}
	for at+13 <= len(b) {
		enc := wire.Encoding(b[at+12])
		at += 13
		pairs, indices, ok := uint64(1), uint64(0), true
		if enc == wire.Repeat {
			pairs, ok = number()
		}
		for range min(pairs, uint64(len(b))) {
			if _, ok2 := number(); !ok2 || at == len(b) {
				return list
			}
			at++ // the status
		}
		if ok && (enc == wire.Suffix || enc == wire.PopPush) {
			_, ok = number()
		}
		if ok && enc != wire.Repeat {
			indices, ok = number()
		}
		for range min(indices, uint64(len(b))) {
			if _, ok2 := number(); !ok2 {
				return list
			}
		}
		if !ok || enc > wire.PopPush {
			return list
		}
		samples += pairs
		list = append(list, end{at, samples})
	}
	return list
}
