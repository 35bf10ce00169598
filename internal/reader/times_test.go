package reader_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// TestLateTimes: times beyond tachyon.MaxTime are errors that say where they are. Samples alone yields all times.
func TestLateTimes(t *testing.T) {
	b := builder{samples: 3, threads: 1, strings: []string{""}, frames: [][3]int64{{0, 0, 1}}}
	b.record(1, 0, wire.Full, 5, 0, 1, 0)
	b.record(1, 0, wire.Repeat, 1, math.MaxUint64, 0) // back by 1 µs
	b.record(1, 0, wire.Full, tachyon.MaxTime-1004, 0, 1, 0)
	batches := func(data []byte) (err error) {
		r := openBytes(t, data)
		for _, e := range r.Batches(nil, tachyon.MaxTime) {
			err = errors.Join(err, e)
		}
		return err
	}
	testenv.OK(t, batches(b.bytes()))
	late := b
	late.samples = 4
	late.record(1, 0, wire.Repeat, 1, 1, 0)
	check(t, batches(late.bytes()), "", "a sample's time of 9007199254740993 µs is beyond the limit of 9007199254740992")
	if n, err := readBytes(late.bytes()); n != 4 || err != nil {
		t.Errorf("Samples yields %d samples, %v", n, err)
	}
	full := b
	full.samples = 4
	full.record(1, 0, wire.Full, 1<<62, 0, 1, 0)
	check(t, batches(full.bytes()), "", "is beyond the limit of")

	for at, want := range map[int]string{8: "offset 8: the start of ", 16: "offset 16: the interval of "} {
		data := bytes.Clone(b.bytes())
		binary.LittleEndian.PutUint64(data[at:], tachyon.MaxTime+1)
		_, err := readBytes(data)
		check(t, err, "", want)
		binary.LittleEndian.PutUint64(data[at:], tachyon.MaxTime)
		testenv.OK(t, testenv.Err(reader.New(bytes.NewReader(data))))
	}

	for _, g := range []tachyon.Goroutine{
		{First: 1 << 62}, {Last: 1 << 63}, {FirstWeight: tachyon.MaxTime + 1}, {Labels: []tachyon.LabelSpan{{From: tachyon.MaxTime + 1}}},
	} {
		r := openBytes(t, written(t, writer.Options{}, func(w *writer.Writer) error {
			return w.WriteRecords(&tachyon.Records{Goroutines: []tachyon.Goroutine{g}})
		}))
		_, err := r.Metadata()
		check(t, err, "", "a time of goroutine 0 is beyond the limit")
		if _, err = r.FirstWeights(); g.Labels == nil {
			check(t, err, "", "a time of goroutine 0 is beyond the limit")
		}
		r = openBytes(t, written(t, writer.Options{}, func(w *writer.Writer) error {
			return w.AddMetadata(tachyon.KindGoroutines, map[string]any{"goroutines": []tachyon.Goroutine{g}})
		}))
		check(t, testenv.Err(r.Metadata()), "", "a time of goroutine 0 is beyond the limit")
	}
	for _, d := range []time.Duration{-1, math.MaxInt64} {
		r := openBytes(t, written(t, writer.Options{}, func(w *writer.Writer) error {
			return w.AddMetadata(tachyon.KindSession, tachyon.Session{Duration: d})
		}))
		check(t, testenv.Err(r.Overview()), "", "the session's duration of ")
		path := filepath.Join(t.TempDir(), "x.tach")
		w := testenv.Must(writer.Create(path, writer.Options{}))
		defer w.Close()
		testenv.OK(t, w.Provisional(tachyon.KindSession, tachyon.Session{}))
		testenv.OK(t, w.WriteRecords(&tachyon.Records{Progress: &tachyon.Progress{Duration: d}}))
		r = open(t, path)
		check(t, testenv.Err(r.Overview()), path, "the session's duration of ")
		check(t, testenv.Err(r.Metadata()), path, "the session's duration of ")
	}
}
