package sampler

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gotach/profiler/reader"
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
// known of all of them, in few bytes. GOTACH_CROWD sets the number of goroutines; ten million are
// those of a busy day.
func TestCrowd(t *testing.T) {
	n := 400_000
	if v := os.Getenv("GOTACH_CROWD"); v != "" {
		var err error
		if n, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "x.tach")
	start := time.Now()
	w, err := writer.Create(path, writer.Options{Start: uint64(start.UnixMicro()), Interval: 1000})
	if err != nil {
		t.Fatal(err)
	}
	rec := newRecorder(oneFile{Writer: w}, start, 1000)
	rec.grace = 50 * time.Microsecond // short, because the simulated session is short
	var stack []uint32
	for _, f := range []string{"serve", "handle", "read"} {
		stack = append(stack, rec.Frame(tachyon.Frame{Func: f}))
	}
	const alive, warmUp = 100, 2 * maxForgotten
	var warm, warmJournal int64
	for i := range n + alive {
		now := time.Duration(i) * time.Microsecond
		rec.Batch(func() {
			if i < n {
				rec.Goroutine(source.Goroutine{ID: uint64(i), Parent: 1, CreatedBy: "net/http.(*Server).Serve", CreatedAt: "server.go:1"})
				rec.Labels(uint64(i), now, map[string]string{"request": strconv.Itoa(i)})
				for k := range time.Duration(3) {
					rec.Sample(&source.Sample{Goroutine: uint64(i), Time: now + k*time.Microsecond, Stack: stack})
				}
			}
			if i >= alive {
				rec.Gone(uint64(i - alive))
			}
		})
		if i == warmUp {
			warm, warmJournal = heapInUse(), size(t, path+".journal")
		}
	}
	grown := heapInUse() - warm
	journal := size(t, path+".journal")
	t.Logf("%d goroutines: %d bytes more than after %d, the journal %d, then %d", n, grown, warmUp, warmJournal, journal)
	if grown > 2<<20 || journal > warmJournal+int64(n-warmUp)*8+(1<<20) {
		t.Errorf("the heap grew by %d bytes, the journal from %d to %d", grown, warmJournal, journal)
	}
	if err := rec.err(); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteRecords(&tachyon.Records{Goroutines: rec.rest()}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := reader.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	seen := make([]uint8, n)
	for s, err := range r.Samples() {
		if err != nil {
			t.Fatal(err)
		}
		want := rec.base + s.Thread + uint64(seen[s.Thread]) // µs
		if s.Time != want || len(s.Stack) != 3 {
			t.Fatalf("sample %+v of goroutine %d, want time %d", *s, s.Thread, want)
		}
		seen[s.Thread]++
	}
	for id, k := range seen {
		if k != 3 {
			t.Fatalf("%d samples of goroutine %d", k, id)
		}
	}
	next := 0
	for g, err := range r.Goroutines() {
		if err != nil {
			t.Fatal(err)
		}
		if int(g.ID) != next || g.CreatedAt != "server.go:1" || g.First != g.ID || g.Last != g.ID+2 || len(g.Labels) != 1 || g.Labels[0].Labels["request"] != strconv.Itoa(next) {
			t.Fatalf("goroutine %d is %+v", next, g)
		}
		next++
	}
	if next != n {
		t.Errorf("%d goroutines of %d", next, n)
	}
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func size(t *testing.T, path string) int64 {
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return fi.Size()
}

// TestForgetsNoneThatComeAgain checks which goroutines may be forgotten: the runtime's own ones come
// again under the same ids.
func TestForgetsNoneThatComeAgain(t *testing.T) {
	for by, want := range map[string]bool{"": false, "runtime.createfing": false, "main.main": true, "runtimes.Go": true} {
		if once(by) != want {
			t.Errorf("once(%q) is %v", by, !want)
		}
	}
}

// TestLateSample checks the times of a sample that comes after its goroutine's end. Samples that
// come after the goroutine was forgotten are left out.
func TestLateSample(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	start := time.Now()
	w, err := writer.Create(path, writer.Options{Start: uint64(start.UnixMicro()), Interval: 1000})
	if err != nil {
		t.Fatal(err)
	}
	rec := newRecorder(oneFile{Writer: w}, start, 1000)
	stack := []uint32{rec.Frame(tachyon.Frame{Func: "f"})}
	sample := func(id uint64, at time.Duration) {
		rec.Goroutine(source.Goroutine{ID: id, CreatedBy: "main.main"})
		rec.Sample(&source.Sample{Goroutine: id, Time: at, Stack: stack})
	}
	sample(7, time.Second)
	rec.Gone(7)
	sample(7, 1100*time.Millisecond) // late
	rec.Gone(7)
	sample(8, 20*time.Second)
	rec.Gone(8) // makes sweep forget 7
	sample(7, 21*time.Second)
	if err := rec.err(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := reader.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var got []time.Duration
	for s, err := range r.Samples() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, time.Duration(s.Time-rec.base)*time.Microsecond)
	}
	slices.Sort(got)
	if want := []time.Duration{time.Second, 1100 * time.Millisecond, 20 * time.Second}; !slices.Equal(got, want) {
		t.Errorf("samples at %v, want %v", got, want)
	}
}

// Goroutines that have ended are kept for seconds if they are few, and for a fraction of a second if
// they are many. A sample that is 100 ms late counts in both cases.
func TestManyLeaving(t *testing.T) {
	for _, c := range []struct {
		perSecond   uint64
		least, most int // goroutines that are kept
	}{{400, 700, 900}, {5000, 1000, 1500}} {
		w, err := writer.Create(filepath.Join(t.TempDir(), "x.tach"), writer.Options{Interval: 1000})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		rec := newRecorder(oneFile{Writer: w}, time.UnixMicro(0), 1000)
		stack := []uint32{rec.Frame(tachyon.Frame{Func: "f"})}
		for id := uint64(1); id <= 10*c.perSecond; id++ {
			at := time.Duration(id) * time.Second / time.Duration(c.perSecond)
			rec.Goroutine(source.Goroutine{ID: id, CreatedBy: "main.main"})
			rec.Sample(&source.Sample{Goroutine: id, Time: at, Stack: stack})
			rec.Gone(id)
			if before := c.perSecond / 10; id > before {
				rec.Sample(&source.Sample{Goroutine: id - before, Time: at, Stack: stack})
			}
		}
		rec.flush()
		if n := len(rec.known); n < c.least || n > c.most {
			t.Errorf("%d goroutines a second: %d are kept, want %d to %d", c.perSecond, n, c.least, c.most)
		}
		if got, want := rec.samples.Load(), int64(20*c.perSecond-c.perSecond/10); got != want {
			t.Errorf("%d goroutines a second: %d samples, want %d", c.perSecond, got, want)
		}
	}
}

// The ids of at least half of maxForgotten goroutines are known, and of maxForgotten at most.
func TestForgotten(t *testing.T) {
	var f forgotten
	for id := uint64(1); id <= 5*maxForgotten; id++ {
		f.add(7 * id)
	}
	known := 0
	for id := uint64(1); id <= 5*maxForgotten; id++ {
		is := f.has(7 * id)
		if is {
			known++
		}
		if recent := id > 5*maxForgotten-maxForgotten/2; recent && !is || f.has(7*id+1) {
			t.Fatalf("goroutine %d of %d: known %v, the next id %v", id, 5*maxForgotten, is, f.has(7*id+1))
		}
	}
	if known > maxForgotten {
		t.Errorf("%d ids are known", known)
	}
}

// A progressSink checks that the session is not much shorter than the time of the samples.
type progressSink struct {
	objectSink
	t      *testing.T
	base   uint64
	length uint64 // of the session, µs
}

func (k *progressSink) WriteBatch(samples []tachyon.Sample) (int, error) {
	if at := samples[0].Time - k.base; at > k.length+70_000 {
		k.t.Fatalf("samples at %d µs, but the session has %d µs", at, k.length)
	}
	return len(samples), nil
}

func (k *progressSink) WriteRecords(r *tachyon.Records) error {
	if r.Progress != nil {
		k.length = uint64(r.Progress.Duration.Microseconds())
	}
	return nil
}

// The progress is passed on within a long pass too.
func TestProgressInPass(t *testing.T) {
	sink := &progressSink{t: t}
	rec := newRecorder(sink, time.UnixMicro(0), 1000)
	rec.stats = func() Stats { return Stats{} }
	rec.Goroutine(source.Goroutine{ID: 7, CreatedBy: "main.main"})
	rec.Batch(func() {
		for i := range 2000 {
			rec.Sample(&source.Sample{Goroutine: 7, Time: time.Duration(i+1) * 100 * time.Microsecond})
		}
	})
	if sink.length == 0 {
		t.Error("no progress")
	}
}

// Each part of a session counts only the addresses of its own samples.
func TestLeafPCsOfParts(t *testing.T) {
	w, err := writer.Create(filepath.Join(t.TempDir(), "x.tach"), writer.Options{Interval: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	rec := newRecorder(oneFile{Writer: w}, time.UnixMicro(0), 1000)
	rec.stats = func() Stats { return Stats{} }
	stack := []uint32{rec.Frame(tachyon.Frame{Func: "f"})}
	rec.Goroutine(source.Goroutine{ID: 7, CreatedBy: "main.main"})
	for n := range uint32(3) {
		for i := range n + 1 {
			rec.Sample(&source.Sample{Goroutine: 7, Time: time.Duration(10*n+i+1) * time.Millisecond, Stack: stack, Leaf: 0x40})
		}
		if l := rec.cut().PCs; l == nil || len(l.PCs) != 1 || l.PCs[0].Addr != 0x40 || l.PCs[0].Wall != n+1 {
			t.Errorf("part %d has %+v, want %d samples at 0x40", n, l, n+1)
		}
	}
}

// Of the runtime's goroutines the leaf addresses have only the CPU time, unless the session has
// System.
func TestLeafPCsOfMarkers(t *testing.T) {
	for _, system := range []bool{false, true} {
		w, err := writer.Create(filepath.Join(t.TempDir(), "x.tach"), writer.Options{Interval: 1000})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		rec := newRecorder(oneFile{Writer: w}, time.UnixMicro(0), 1000)
		rec.system = system
		rec.stats = func() Stats { return Stats{} }
		rec.Goroutine(source.Goroutine{ID: 3, CreatedBy: "runtime.gcenable"})
		rec.Goroutine(source.Goroutine{ID: 7, CreatedBy: "main.main"})
		stack := []uint32{rec.Frame(tachyon.Frame{Func: "f"})}
		for i := range 10 {
			at := time.Duration(i+1) * time.Millisecond
			rec.Sample(&source.Sample{Goroutine: 7, Time: at, Stack: stack, Leaf: 0x40})
			status := tachyon.Status(0)
			if i >= 6 {
				status = tachyon.OnCPU
			}
			rec.Sample(&source.Sample{Goroutine: 3, System: true, Status: status, Time: at, Stack: stack, Leaf: 0x50})
		}
		want := []tachyon.LeafPC{
			{Addr: 0x40, Wall: 10, WallTime: 10_000},
			{Addr: 0x50, CPU: 4, Wall: 4, CPUTime: 4000, WallTime: 4000},
		}
		if system {
			want[1].Wall, want[1].WallTime = 10, 10_000
		}
		if got := rec.cut().PCs.PCs; !slices.Equal(got, want) {
			t.Errorf("with System %v: %+v, want %+v", system, got, want)
		}
	}
}
