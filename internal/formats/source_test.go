package formats

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/tachyon"
	"pgregory.net/rapid"
)

// A sourceKey says what the samples of a sum have in common.
type sourceKey struct {
	goroutine     uint64
	interpreter   uint32
	status        tachyon.Status
	stack, labels string
}

type sourceSum struct {
	count int
	wall  time.Duration
}

// plainSums adds up a file.
func plainSums(t rapid.TB, s *reader.Reader) (map[sourceKey]sourceSum, int) {
	t.Helper()
	m := testenv.Must(s.Metadata())
	spans := map[uint64][]tachyon.LabelSpan{}
	for _, g := range m.Goroutines {
		spans[g.ID] = g.Labels
	}
	frames := s.Frames()
	sums, goroutines := map[sourceKey]sourceSum{}, 0
	for w := range plain(t, s) {
		k := sourceKey{goroutine: w.Thread, interpreter: w.Interpreter, status: w.Status}
		for _, id := range w.Stack {
			k.stack += fmt.Sprint(frames[id].Func, ";")
		}
		for _, l := range spans[w.Thread] {
			if l.From <= w.Time-s.Header().Start {
				k.labels = l.Labels["k"]
			}
		}
		if w.First && w.Interpreter != tachyon.Process {
			goroutines++
		}
		sum := sums[k]
		sums[k] = sourceSum{sum.count + 1, sum.wall + reader.Micros(w.Weight)}
	}
	if m.Session.NotSeen > 0 {
		sums[sourceKey{interpreter: tachyon.Process, stack: tachyon.FuncNotSeen + ";"}] = sourceSum{1, m.Session.NotSeen}
	}
	return sums, goroutines
}

// sourceSums adds up a source.
func sourceSums(t rapid.TB, src *stream.Source) (map[sourceKey]sourceSum, int) {
	t.Helper()
	sums := map[sourceKey]sourceSum{}
	slots := map[uint32]uint64{} // whose they are
	for s := range testenv.All(t, src.Samples()) {
		if s.NotSeen { // one for each process
			k := sourceKey{interpreter: tachyon.Process, stack: tachyon.FuncNotSeen + ";"}
			sums[k] = sourceSum{1, sums[k].wall + s.Wall}
			continue
		}
		if s.First {
			slots[s.Slot] = s.Goroutine
		}
		id, ok := slots[s.Slot]
		testenv.FailIf(t, !ok || id != s.Goroutine || int(s.Slot) >= src.Slots(), "slot %d of %d is of goroutine %d, the sample of %d", s.Slot, src.Slots(), id, s.Goroutine)
		k := sourceKey{goroutine: s.Goroutine, interpreter: s.Interpreter, status: s.Status}
		for _, id := range src.AppendStack(nil, s.Stack) {
			k.stack += fmt.Sprint(src.Frames()[id].Func, ";")
		}
		if s.Labels != nil {
			k.labels, _ = s.Labels.Get("k")
		}
		sum := sums[k]
		sums[k] = sourceSum{sum.count + 1, sum.wall + s.Wall}
	}
	return sums, src.Goroutines()
}

// A file that is written of several has the samples of all, and their sessions added up. The samples of a Source are those of that
// file, with its weights and labels: of files in any order, of one process or of two, with files missing, and with files that say nothing about their
// goroutines.
func TestSource(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", filepath.Join(dir, "missing")) // nothing is written there
	rapid.Check(t, func(t *rapid.T) {
		var paths []string
		var wrote []uint64 // times
		for pid := range rapid.IntRange(1, 2).Draw(t, "processes") {
			session := tachyon.Session{Host: "h", PID: pid, SessionStart: time.UnixMicro(joinStart).UTC(), Duration: time.Second, Markers: true}
			start := uint64(joinStart)
			last := map[uint64]uint64{}
			for part := range rapid.IntRange(1, 4).Draw(t, "parts") {
				session.Part = part + 1
				session.NotSeen = time.Duration(rapid.IntRange(0, 1).Draw(t, "not seen")) * 12345
				var samples []tachyon.Sample
				var goroutines []tachyon.Goroutine
				now := start
				told := map[uint64]int{}
				tells := rapid.IntRange(0, 3).Draw(t, "tells") > 0
				for range rapid.IntRange(0, 12).Draw(t, "samples") {
					now += rapid.Uint64Range(0, 3000).Draw(t, "step")
					id := rapid.Uint64Range(1, 4).Draw(t, "id")
					s := tachyon.Sample{Thread: id, Time: now, Status: tachyon.Status(rapid.SampledFrom([]int{0, 3}).Draw(t, "status"))}
					switch id {
					case 3:
						s.Interpreter = tachyon.Runtime
					case 4:
						s.Thread, s.Interpreter = tachyon.FirstPseudo, tachyon.Process
					}
					samples = append(samples, s)
					if _, ok := told[s.Thread]; !ok && tells {
						told[s.Thread] = len(goroutines)
						g := tachyon.Goroutine{ID: s.Thread, First: now - start, Last: now - start}
						if before, ok := last[s.Thread]; ok {
							g.FirstWeight = now - before
						} else {
							g.FirstWeight = rapid.Uint64Range(0, 500).Draw(t, "first")
						}
						goroutines = append(goroutines, g)
					}
					last[s.Thread] = now
					if at, ok := told[s.Thread]; ok && rapid.IntRange(0, 2).Draw(t, "label") == 0 {
						g := &goroutines[at]
						g.Labels = append(g.Labels, tachyon.LabelSpan{
							From: now - start, Labels: map[string]string{"k": rapid.SampledFrom([]string{"a", "b"}).Draw(t, "value")},
						})
					}
				}
				path := filepath.Join(dir, fmt.Sprintf("%d.%d.tach", pid, part+1))
				session.Samples = int64(len(samples))
				partFile(t, path, session, start, 1000, samples, goroutines...)
				start = now + rapid.Uint64Range(1, 2000).Draw(t, "pause")
				if rapid.IntRange(0, 4).Draw(t, "keep") > 0 {
					paths = append(paths, path)
					for _, s := range samples {
						wrote = append(wrote, s.Time)
					}
				} else {
					os.Remove(path)
				}
			}
		}
		if len(paths) == 0 {
			return
		}
		in := testenv.Closes(t, testenv.Must(OpenAll(rapid.Permutation(paths).Draw(t, "order"), Options{})))
		s := written(t, dir, in)
		defer s.Close()
		var got []uint64
		for sample := range testenv.All(t, s.Samples()) {
			switch f := s.Frames()[sample.Stack[0]].Func; f {
			case "[not recorded]":
			case fmt.Sprint("f", sample.Time%3):
				got = append(got, sample.Time)
			default:
				t.Fatalf("the sample of %d is in %s", sample.Time, f)
			}
		}
		slices.Sort(wrote)
		slices.Sort(got)
		testenv.NoDiff(t, "samples", cmp.Diff(wrote, got, cmp.EquateEmpty()))
		testenv.Same(t, "samples of the session", testenv.Must(s.Metadata()).Session.Samples, int64(len(wrote)))
		src := testenv.Must(in.Source(stream.Options{Labels: true}))
		told := map[uint64]*tachyon.Goroutine{}
		for g := range testenv.All(t, testenv.Must(testenv.Must(in.all()).Copy()).EachGoroutine()) {
			if told[g.ID] == nil {
				told[g.ID] = g
			} else {
				told[g.ID].Add(g)
			}
		}
		for _, g := range testenv.Must(s.Metadata()).Goroutines {
			testenv.NoDiff(t, fmt.Sprint("goroutine ", g.ID), cmp.Diff(told[g.ID], &g))
			delete(told, g.ID)
		}
		testenv.Same(t, "goroutines that are not written", len(told), 0)
		want, goroutines := plainSums(t, s)
		testenv.Within(t, "facts", len(testenv.Must(in.Info())), 10, 100)
		testenv.Has(t, "verified", testenv.Must(in.Verify()), fmt.Sprintf("%d samples of ", s.Header().Samples))
		for range 2 { // it can be read again
			got, count := sourceSums(t, src)
			testenv.NoDiff(t, "sums", cmp.Diff(want, got))
			testenv.Same(t, "goroutines", count, goroutines)
		}
	})
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
		last, yielded := map[reader.Thread]uint64{}, map[reader.Thread]bool{}
		for s := range testenv.All(t, r.Samples()) {
			k := reader.Thread{ID: s.Thread, Interpreter: s.Interpreter}
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

// sameSums fails unless the profile of an input has the weights of the file that is written of it, and the time that has no sample.
func sameSums(t *testing.T, in *Input) {
	t.Helper()
	all := testenv.Closes(t, written(t, t.TempDir(), in))
	sum := time.Duration(0)
	for s := range plain(t, all) {
		sum += reader.Micros(s.Weight)
	}
	if s := testenv.Must(all.Metadata()).Session; s != nil {
		sum += s.NotSeen
	}
	wall, _ := testenv.Must(in.Profile()).Total()
	testenv.Same(t, "the time of the profile, and of the weights", wall, sum)
}
