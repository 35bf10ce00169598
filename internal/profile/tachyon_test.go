package profile

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

const (
	on   = tachyon.HasGIL | tachyon.OnCPU
	ms   = time.Millisecond
	unit = 1000 // µs, the interval
)

// open returns a reader of what write wrote.
func open(t testing.TB, start uint64, write func(w *writer.Writer)) *reader.Reader {
	t.Helper()
	var f testenv.File
	w := testenv.Must(writer.New(&f, writer.Options{Start: start, Interval: unit}))
	write(w)
	return testenv.Finish(t, &f, w, reader.New)
}

func TestFromTachyon(t *testing.T) {
	const start = 1_700_000_000_000_000
	work := []tachyon.Frame{{File: "w.go", Func: "main.work", Line: 4}, {File: "m.go", Func: "main.main", Line: 9}}
	wait := []tachyon.Frame{{Func: "[chan receive]"}, {File: "m.go", Func: "main.main", Line: 9}}
	labels := map[string]string{"k": "v"}
	r := open(t, start, func(w *writer.Writer) {
		add := func(id uint64, system uint32, at uint64, s tachyon.Status, stack []tachyon.Frame) {
			t.Helper()
			testenv.OK(t, w.WriteFrames(&tachyon.Sample{Thread: id, Interpreter: system, Time: start + at, Status: s}, stack))
		}
		add(1, 0, 5000, on, work)  // the first: one interval
		add(1, 0, 7000, on, work)  // 2 ms, labelled
		add(1, 0, 7000, on, work)  // no time, labelled
		add(1, 0, 12000, 0, wait)  // 5 ms, labelled the same by another span
		add(1, 0, 12500, on, work) // 0.5 ms, not labelled any more
		add(1, 0, 12000, on, work) // time went back: no time
		add(2, 0, 6000, tachyon.GILRequested, work)
		add(2, 1, 6000, tachyon.Unknown, nil) // the same number, but the runtime's own
		session := tachyon.Session{Program: "prog", Duration: 20 * ms, Counts: tachyon.Counts{Samples: 8}}
		testenv.OK(t, w.AddMetadata(tachyon.KindSession, session))
		goroutines := []tachyon.Goroutine{{ID: 1, Labels: []tachyon.LabelSpan{
			{From: 6000, Labels: labels}, {From: 11000, Labels: labels}, {From: 12500, Labels: nil},
		}}}
		testenv.OK(t, w.AddMetadata(tachyon.KindGoroutines, map[string]any{"goroutines": goroutines}))
	})
	p := testenv.Must(FromTachyon(r))
	want := []Record{
		{Goroutine: 1, State: Running, Stack: []uint32{0, 1}, Count: 3, Wall: 1500 * time.Microsecond, CPU: 1500 * time.Microsecond},
		{Goroutine: 1, State: Running, Labels: labels, Stack: []uint32{0, 1}, Count: 2, Wall: 2 * ms, CPU: 2 * ms},
		{Goroutine: 1, State: "chan receive", Labels: labels, Stack: []uint32{2, 1}, Count: 1, Wall: 5 * ms},
		{Goroutine: 2, State: Runnable, Stack: []uint32{0, 1}, Count: 1, Wall: ms},
		{Goroutine: 2, System: true, State: Syscall, Count: 1, Wall: ms},
	}
	testenv.NoDiff(t, "", cmp.Diff(want, p.Records))
	testenv.Same(t, "profile", fmt.Sprintln(p.Samples, p.Goroutines, p.Duration, p.Interval, p.Program), "8 3 20ms 1ms prog\n")
	testenv.Same(t, "start", p.Start.UnixMicro(), start)
	wall, cpu := p.Total()
	testenv.Same(t, "total and CPU time", fmt.Sprint(wall, cpu), "10.5ms 3.5ms")
}

// A broken sample region is an error, not half a profile.
func TestFromTachyonBroken(t *testing.T) {
	b := testenv.Must(os.ReadFile("../../testdata/tachyon/bad/delta_cut.bin"))
	r := testenv.Must(reader.New(bytes.NewReader(b)))
	defer r.Close()
	testenv.Fails(t, "", testenv.Err(FromTachyon(r)), "truncated record")
}

func TestPackage(t *testing.T) {
	for _, c := range []struct{ function, want string }{
		{"main.main", "main"},
		{"main.(*T).M", "main"},
		{"net/http.(*conn).serve", "net/http"},
		{"github.com/a/b.F.func1", "github.com/a/b"},
		{"github.com/a/b.F[go.shape.int]", "github.com/a/b"},
		{"github.com/a/b.F[github.com/x/y.T].func2", "github.com/a/b"},
		{"github.com/a/b.(*M[github.com/x/y.T]).Get", "github.com/a/b"},
		{"gopkg.in/yaml%2ev3.Unmarshal", "gopkg.in/yaml.v3"},
		{"main::fib", "main"},
		{"Devel::NYTProf::Data::new", "Devel::NYTProf::Data"},
		{"<module>", ""},
		{"run", ""},
		{"[chan receive]", ""},
		{"", ""},
	} {
		testenv.Same(t, c.function, Package(c.function), c.want)
	}
}

// Sums of hostile times stop at what there is rather than wrap round.
func TestHugeTimes(t *testing.T) {
	r := open(t, 0, func(w *writer.Writer) {
		for id := range uint64(3) {
			for _, at := range []uint64{1, tachyon.MaxTime / 2, tachyon.MaxTime} {
				testenv.OK(t, w.WriteFrames(&tachyon.Sample{Thread: id, Time: at, Status: on}, []tachyon.Frame{{Func: "f"}}))
			}
		}
	})
	p := testenv.Must(FromTachyon(r))
	rep := testenv.Must(New(p, ReportOptions{}))
	if rep.Total != 1<<63-1 || rep.Rows[0].Self != rep.Total || rep.Rows[0].TotalCPU != rep.Total {
		t.Errorf("total %d, self %d", rep.Total, rep.Rows[0].Self)
	}
}

// Each passes on the records in parts. Added up they are those of FromStream.
func TestEach(t *testing.T) {
	d := Detail{Goroutines: true, Labels: true}
	want := testenv.Must(FromStream(session(t, "fan-out"), d))
	for _, most := range []int{30, 1 << 20} {
		b, parts := NewBuilder(), 0
		got, err := Each(session(t, "fan-out"), d, most, func(p *Profile, r *Record) error {
			x := *r
			x.Stack = nil
			for _, id := range r.Stack {
				x.Stack = append(x.Stack, b.Frame(p.Frames[id], 0))
			}
			b.Add(x)
			parts++
			return nil
		})
		testenv.OK(t, err)
		sum := b.Finish()
		if (parts > len(want.Records)) != (most < len(want.Records)) || len(sum.Records) != len(want.Records) {
			t.Errorf("at most %d: %d records in %d parts, want %d", most, len(sum.Records), parts, len(want.Records))
		}
		total, cpu := sum.Total()
		wantTotal, wantCPU := want.Total()
		testenv.Same(t, fmt.Sprint("at most ", most), fmt.Sprint(total, cpu, got.Samples, got.Goroutines, got.Duration), fmt.Sprint(wantTotal, wantCPU, want.Samples, want.Goroutines, want.Duration))
	}
}
