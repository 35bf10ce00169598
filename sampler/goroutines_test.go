package sampler

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// oneFile is a sink that writes one file.
type oneFile struct {
	*writer.Writer
	OnePart
}

// TestCrowd checks that the memory of recorder and writer for ended goroutines is bounded, also in
// a service that never stops starting goroutines, each with a label of its own. The file has what is
// known of all of them, in few bytes. The ten million of the long form are those of a busy day.
func TestCrowd(t *testing.T) {
	n := testenv.Times(50_000, 10_000_000)
	const alive, warmUp = 100, 20_000
	path := filepath.Join(t.TempDir(), "x.tach")
	w := testenv.Must(writer.Create(path, writer.Options{Start: us(0), Interval: 1000}))
	rec := newRecorder(oneFile{Writer: w}, sessionStart, 1000)
	rec.grace = 50 * time.Microsecond // short, because the simulated session is short
	stack := []uint32{rec.Frame(tachyon.Frame{Func: "serve"}), rec.Frame(tachyon.Frame{Func: "read"})}
	var warm, warmJournal int64
	for i := range n + alive {
		now := time.Duration(i) * time.Microsecond
		rec.Batch(func() {
			if i < n {
				rec.Goroutine(source.Goroutine{ID: uint64(i), Parent: 1, CreatedBy: "net/http.(*Server).Serve", CreatedAt: "server.go:1"})
				rec.Labels(uint64(i), now, request(strconv.Itoa(i)))
				for k := range time.Duration(3) {
					rec.Sample(&source.Sample{Goroutine: uint64(i), Time: now + k*time.Microsecond, Stack: stack})
				}
			}
			if i >= alive {
				rec.Gone(uint64(i - alive))
			}
		})
		if i == warmUp {
			warm, warmJournal = heapInUse(), size(path+".journal")
		}
	}
	// If all of them stayed it would be more than 300 bytes for each.
	testenv.Within(t, "bytes by which the heap has grown", heapInUse()-warm, -warm, 4<<20)
	testenv.Within(t, "bytes of the journal", size(path+".journal"), warmJournal, warmJournal+int64(n-warmUp)*8+(1<<20))
	testenv.Within(t, "goroutines that are known, are leaving or have news", max(len(rec.known), len(rec.leaving), len(rec.queue)), 1, 2*alive)
	testenv.OK(t, rec.err())
	testenv.OK(t, w.WriteRecords(&tachyon.Records{Goroutines: rec.rest()}))
	testenv.OK(t, w.Close())
	r := testenv.Closes(t, testenv.Must(reader.Open(path)))
	samples, next := 0, 0
	for s := range testenv.All(t, r.Samples()) {
		testenv.Within(t, "a goroutine's sample comes after", s.Time-rec.base-s.Thread, 0, 2)
		testenv.Same(t, "frames of a sample", len(s.Stack), len(stack))
		samples++
	}
	for g := range testenv.All(t, r.Goroutines()) {
		testenv.StopIf(t, int(g.ID) != next || g.CreatedAt != "server.go:1" || g.First != g.ID || g.Last != g.ID+2 || len(g.Labels) != 1 || g.Labels[0].Labels["request"] != strconv.Itoa(next), "goroutine %d is %+v", next, g)
		next++
	}
	testenv.Same(t, "goroutines", next, n)
	testenv.Same(t, "samples", samples, 3*n)
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func size(path string) int64 { return testenv.Must(os.Stat(path)).Size() }

// TestForgetsNoneThatComeAgain checks which goroutines may be forgotten: the runtime's own ones come
// again under the same ids.
func TestForgetsNoneThatComeAgain(t *testing.T) {
	for by, want := range map[string]bool{"": false, "runtime.createfing": false, "main.main": true, "runtimes.Go": true} {
		testenv.Same(t, by, once(by), want)
	}
}

// TestLateSample has samples that come after their goroutine's end. Those that come after the goroutine
// was forgotten are left out, and those of a goroutine that has begun again are not.
func TestLateSample(t *testing.T) {
	var m memory
	s, out := session(t, Config{}, &m)
	out.Batch(func() {
		at := func(id uint64, t float64) { sample(out, source.Sample{Goroutine: id, Time: ms(t)}) }
		at(7, 1000)
		out.Gone(7)
		at(7, 1100) // late
		out.Gone(7)
		at(8, 3099)
		out.Gone(8) // 7 is kept for 2 s
		at(7, 3099)
		out.Gone(7)
		at(9, 6000)
		out.Gone(9)
		at(7, 6001)
		out.Sample(&source.Sample{Goroutine: 10, Time: ms(6002)}) // of no known goroutine
	})
	stop(t, s)
	equal(t, "samples", m.samples, []tachyon.Sample{
		{Thread: 7, Time: us(ms(1000))}, {Thread: 7, Time: us(ms(1100))}, {Thread: 8, Time: us(ms(3099))},
		{Thread: 7, Time: us(ms(3099))}, {Thread: 9, Time: us(ms(6000))}, {Thread: 10, Time: us(ms(6002))},
	})
	equal(t, "forgotten", m.forgot, []uint64{7, 8})
	equal(t, "samples that the sink had then", m.before, []int{5, 5})
}

// Goroutines that have ended are kept for two seconds if they are few, and for a quarter of a second if
// they are many. A sample that is 100 ms late counts in both cases.
func TestManyLeaving(t *testing.T) {
	for _, c := range []struct {
		perSecond, n uint64
		kept         int
	}{{400, 1200, 800}, {5000, 5000, 1250}, {500_000, 130_000, maxLeaving}} {
		var m memory
		s, out := session(t, Config{}, &m)
		rec := s.out
		before := c.perSecond / 10
		out.Batch(func() {
			for id := uint64(1); id <= c.n; id++ {
				at := time.Duration(id) * time.Second / time.Duration(c.perSecond)
				sample(out, source.Sample{Goroutine: id, Time: at})
				out.Gone(id)
				if id > before {
					out.Sample(&source.Sample{Goroutine: id - before, Time: at})
				}
			}
		})
		testenv.Same(t, fmt.Sprint(c.perSecond, " goroutines a second, are kept"), len(rec.known), c.kept)
		testenv.Same(t, fmt.Sprint(c.perSecond, " goroutines a second, samples"), rec.samples.Load(), int64(2*c.n-before))
	}
}

// The ids of at least half of maxForgotten goroutines are known, and of maxForgotten at most.
func TestForgotten(t *testing.T) {
	var f forgotten
	const n = 5 * maxForgotten
	for id := uint64(1); id <= n; id++ {
		f.add(7 * id)
	}
	known := 0
	for id := uint64(1); id <= n; id++ {
		is := f.has(7 * id)
		if is {
			known++
		}
		recent := id > n-maxForgotten/2
		testenv.StopIf(t, recent && !is || f.has(7*id+1), "goroutine %d of %d: known %v, the next id %v", id, n, is, f.has(7*id+1))
	}
	testenv.Same(t, "known ids", known, maxForgotten)
}
