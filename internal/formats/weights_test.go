package formats

import (
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/formats/spx"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
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
		for s := range testenv.All(t, r.Samples()) {
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

// weights sums up the weights of a file, and the time that has no sample.
func weights(t *testing.T, r *reader.Reader) (sum uint64, threads map[threadID]uint64) {
	t.Helper()
	threads = map[threadID]uint64{}
	for s := range plain(t, r) {
		sum += s.Weight
		threads[threadID{s.Thread, s.Interpreter}] += s.Weight
	}
	m := testenv.Must(r.Metadata())
	if m.Session != nil {
		sum += uint64(m.Session.NotSeen.Microseconds())
	}
	return sum, threads
}

// sameSums fails unless all views of an input have the sums of the file that is written of it.
func sameSums(t *testing.T, in *Input) {
	t.Helper()
	all := written(t, t.TempDir(), in)
	defer all.Close()
	sum, threads := weights(t, all)
	want := reader.Micros(sum)
	wall, _ := testenv.Must(in.Profile()).Total()
	testenv.Same(t, "the time of the profile, and of the weights", wall, want)
	tl := testenv.Must(spx.NewTimeline(testenv.Must(in.Source(stream.Options{}))))
	testenv.Same(t, "the time of the timeline, and of the weights", tl.Wall, want)
	for _, g := range tl.Goroutines {
		var wall time.Duration
		for _, r := range g.Runs {
			wall += r.Wall
		}
		if g.Interpreter == tachyon.Process && g.ID == 0 { // time that has no sample
			continue
		}
		if want := reader.Micros(threads[threadID{g.ID, g.Interpreter}]); wall != want || g.Start < 0 {
			t.Errorf("goroutine %d has %v from %v on, its weights are %v", g.ID, wall, g.Start, want)
		}
	}
	if m, err := all.Metadata(); err != nil || m.Session == nil {
		return // only what gotach recorded is made into even samples
	}
	path := filepath.Join(t.TempDir(), "even.bin")
	testenv.OK(t, in.Convert(path, "", Options{}))
	r := testenv.Must(reader.Open(path))
	defer r.Close()
	_, evened := weights(t, r)
	interval := r.Header().Interval
	count := map[threadID]uint64{}
	for s := range testenv.All(t, r.Samples()) {
		count[threadID{s.Thread, s.Interpreter}]++
	}
	for id, weight := range threads {
		testenv.Same(t, fmt.Sprint("weights of even samples of thread ", id), evened[id], count[id]*interval)
		testenv.Within(t, fmt.Sprint("µs of even samples of thread ", id), count[id]*interval+interval, weight, weight+2*interval)
	}
}

func TestSumsOfGoldens(t *testing.T) {
	files := testenv.Files(t, "../../testdata/tachyon/*/*.bin", 10)
	for _, name := range files {
		far := strings.HasSuffix(name, "/rle.bin") // times that sums cannot take
		if filepath.Base(filepath.Dir(name)) != "bad" && !strings.Contains(name, ".zstd.") && !far {
			sameSums(t, openInput(t, name, Options{}))
		}
	}
}
