package formats

import (
	"iter"
	"path/filepath"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
	"pgregory.net/rapid"
)

// threadID is what has weights of its own.
type threadID struct {
	id          uint64
	interpreter uint32
}

// A plainSample is a sample with its weight in µs.
type plainSample struct {
	*tachyon.Sample
	Weight uint64
	First  bool // of its thread
}

// plain yields the samples of a file that stand for time. It weighs them as tachyon.Goroutine.FirstWeight and Session.Marker say, in the
// simplest way, and keeps everything in memory.
func plain(t rapid.TB, r *reader.Reader) iter.Seq[plainSample] {
	t.Helper()
	m := testenv.Must(r.Metadata())
	first := map[uint64]uint64{}
	for _, g := range m.Goroutines {
		first[g.ID] = g.FirstWeight
	}
	return func(yield func(plainSample) bool) {
		last, yielded := map[threadID]uint64{}, map[threadID]bool{}
		for s, err := range r.Samples() {
			testenv.OK(t, err)
			k := threadID{s.Thread, s.Interpreter}
			before, again := last[k]
			last[k] = s.Time
			weight := uint64(max(0, int64(s.Time-before)))
			if !again {
				if weight = first[s.Thread]; weight == 0 {
					weight = r.Header().Interval
				}
				delete(first, s.Thread)
			}
			if m.Session.Marker(s.Interpreter, s.Status) {
				continue
			}
			if !yield(plainSample{s, weight, !yielded[k]}) {
				return
			}
			yielded[k] = true
		}
	}
}

// written returns an input as one file of all samples. The caller closes it.
func written(t rapid.TB, dir string, in *Input) *reader.Reader {
	t.Helper()
	path := filepath.Join(dir, "written.tach")
	testenv.OK(t, in.Convert(path, "", Options{}))
	return testenv.Must(reader.Open(path))
}
