package profile

import (
	"flag"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write testdata/report.txt")

// session returns the samples of a recorded session: see internal/analyze/testdata/README.md.
func session(t *testing.T, name string) *stream.Source {
	t.Helper()
	r := testenv.Must(reader.Open("../analyze/testdata/sessions/" + name + ".tach"))
	t.Cleanup(func() { r.Close() })
	return source(t, r)
}

func source(t testing.TB, r *reader.Reader) *stream.Source {
	return testenv.Must(stream.New([]stream.File{{Stream: r}}, stream.Options{Labels: true, Creators: true, Objects: true}))
}

// Whatever is kept apart, the records are what one adds up sample by sample.
func TestDetail(t *testing.T) {
	type parts struct {
		goroutine           uint64
		system              bool
		state, stack, group string
		key                 uint32
	}
	type sums struct {
		count     int64
		wall, cpu time.Duration
	}
	group := func(s *stream.Sample) string { return fmt.Sprint(s.Goroutine % 5) }
	key := func(s *stream.Sample) uint32 { return s.Stack % 11 }
	for _, d := range []Detail{
		{}, {Labels: true, Goroutines: true, Series: true}, {Key: key, Series: true}, {Group: group, Key: key}, {Goroutines: true, Key: key},
		{Key: func(s *stream.Sample) uint32 { return uint32(s.Goroutine % 3) }},
	} {
		for _, load := range []func(t *testing.T) *stream.Source{func(t *testing.T) *stream.Source { return session(t, "fan-out") }, oneStack} {
			src, want := load(t), map[parts]sums{}
			for s := range testenv.All(t, src.Samples()) {
				k := parts{system: s.Interpreter != tachyon.User, state: src.State(s.Status, s.Stack), stack: fmt.Sprint(src.AppendStack(nil, s.Stack))}
				pseudo := s.Interpreter == tachyon.Process
				if s.NotSeen {
					k.state = src.State(0, s.Stack)
					pseudo = k.state != NotSeen
					k.system = pseudo
				}
				if d.Goroutines && !pseudo && !s.NotSeen {
					k.goroutine = s.Goroutine
				}
				if d.Group != nil && (!s.NotSeen || !pseudo) {
					k.group = group(s)
				}
				if d.Key != nil && !s.NotSeen {
					k.key = d.Key(s)
				}
				x := want[k]
				if !s.NotSeen {
					x.count++
				}
				x.wall += s.Wall
				if s.Status&tachyon.OnCPU != 0 && !s.NotSeen {
					x.cpu += s.Wall
				}
				want[k] = x
			}
			p := testenv.Must(FromStream(load(t), d))
			got := map[parts]sums{}
			for _, r := range p.Records {
				got[parts{r.Goroutine, r.System, r.State, fmt.Sprint(r.Stack), r.Group, r.Key}] = sums{r.Count, r.Wall, r.CPU}
				series := float32(0)
				for _, v := range r.Series[:max(0, len(r.Series)-1)] { // the last part is made as if it were as long as the others
					series += v
				}
				testenv.FailIf(t, d.Series && r.Wall > 0 && r.State != NotSeen && (series > 1.001*float32(r.Wall) || r.Wall > time.Second && series < 0.9*float32(r.Wall)), "the series of %+v has %v ns", r, series)
			}
			testenv.NoDiff(t, fmt.Sprintf("%+v", d), cmp.Diff(want, got))
			testenv.Same(t, "records", len(p.Records), len(got))
		}
	}
}

// oneStack returns samples of one stack. Each differs from the one before in one or two things.
func oneStack(t *testing.T) *stream.Source {
	return open(t, 0, func(w *writer.Writer) {
		testenv.OK(t, w.AddMetadata(tachyon.KindSession, tachyon.Session{Source: "native"}))
		for i := range uint64(60) {
			s := tachyon.Sample{Thread: 1 + i%7, Interpreter: uint32(i / 2 % 2), Time: 1000 * (i + 1), Status: []tachyon.Status{on, 0, tachyon.GILRequested}[i/3%3]}
			testenv.OK(t, w.WriteFrames(&s, []tachyon.Frame{{File: "m.go", Func: "main.main", Line: 9}}))
		}
	})
}

// Reports and trees of a real server are what they were when somebody looked at them last.
func TestReportOfSession(t *testing.T) {
	p := testenv.Must(FromStream(session(t, "requests"), Detail{Goroutines: true, Series: true}))
	var out strings.Builder
	for _, by := range Bys {
		for _, sort := range Sorts {
			r := testenv.Must(New(p, ReportOptions{By: by, Sort: sort, Top: 6}))
			fmt.Fprintf(&out, "by %s, %s: %v, %v on CPU, %v without a core, %v elsewhere, %d rows left\n", by, sort, r.Total, r.TotalCPU, r.NoCore, r.Elsewhere, r.Left)
			for _, row := range r.Rows {
				fmt.Fprintf(&out, "  %s %s:%d (%d-%d) self %v %v %v total %v %v %v, parts %.3g\n", row.Name, row.File, row.Line, row.FirstLine, row.LastLine,
					row.Self, row.SelfCPU, row.SelfNoCore, row.Total, row.TotalCPU, row.TotalNoCore, row.Series[:min(4, len(row.Series))])
			}
		}
	}
	tree := testenv.Must(NewTree(p, ReportOptions{Top: 12}))
	fmt.Fprintf(&out, "tree without %d\n%s", tree.NodesCut, treeText(tree.Nodes, " "))
	focused := testenv.Must(NewTree(p, ReportOptions{Sort: SortCPU, Top: 6, Focus: regexp.MustCompile("usualPath")}))
	fmt.Fprintf(&out, "tree of one function without %d\n%s", focused.NodesCut, treeText(focused.Nodes, " "))
	callers := testenv.Must(NewCallers(p, ReportOptions{Sort: SortCPU, Top: 12, Ignore: regexp.MustCompile("^crypto/")}, regexp.MustCompile(`^syscall\.`)))
	fmt.Fprintf(&out, "callers without %d\n%s", callers.NodesCut, treeText(callers.Nodes, " "))
	testenv.Golden(t, "testdata/report.txt", out.String(), *update)
	for _, o := range []ReportOptions{{By: "colour"}, {Sort: "size"}} {
		testenv.Fails(t, fmt.Sprintf("%+v", o), testenv.Err(New(p, o)), "no ")
	}
}

// What stands for a stack without the program's own code says what the goroutine does.
func TestOwnCode(t *testing.T) {
	const root = "/usr/lib/go/src/"
	frames := []Frame{
		{Func: "[IO wait]"},
		{Func: "internal/poll.runtime_pollWait", File: root + "runtime/netpoll.go"},
		{Func: "sync.(*Cond).Wait", File: root + "sync/cond.go"},
		{Func: "os.(*File).Read", File: root + "os/file.go"},
		{Func: "io.copyBuffer", File: root + "io/io.go"},
		{Func: "net.(*conn).Read", File: root + "net/net.go"},
		{Func: "os/exec.(*Cmd).writerDescriptor.func1", File: root + "os/exec/exec.go"},
		{Func: "net/http.(*connReader).backgroundRead", File: root + "net/http/server.go"},
		{Func: "net/http.(*conn).serve", File: root + "net/http/server.go"},
		{Func: "x.org/pool.(*Pool).clean", File: "/root/go/pkg/mod/x.org/pool@v1.2.3/pool.go"},
		{Func: "main.serve", File: "/src/app/main.go"},
		{Func: "net.(*TCPConn).Write", File: "<autogenerated>"},
		{Func: "main.(*client).Close", File: "<autogenerated>"},
	}
	for _, c := range []struct{ stack, want string }{
		{"[IO pollWait File).Read copyBuffer exec", "exec"},
		{"[IO pollWait conn).Read backgroundRead", "backgroundRead"},
		{"Cond backgroundRead conn).serve", "backgroundRead"},
		{"Cond clean", "clean"},
		{"[IO pollWait backgroundRead clean main.serve", "main.serve"},
		{"[IO pollWait File).Read copyBuffer", "File).Read"},
		{"[IO pollWait", "pollWait"},
		{"[IO pollWait TCPConn clean", "clean"},
		{"[IO pollWait client).Close clean", "clean"},
		{"[IO", ""},
		{"", ""},
	} {
		o := ownCode{p: &Profile{Frames: frames}, kind: make([]Code, len(frames))}
		var stack []uint32
		for part := range strings.FieldsSeq(c.stack) {
			for i := range frames {
				if strings.Contains(frames[i].Func, part) {
					stack = append(stack, uint32(i))
					break
				}
			}
		}
		id, ok := o.frame(stack)
		testenv.FailIf(t, ok != (c.want != "") || ok && !strings.Contains(frames[id].Func, c.want), "%s: %s %t, want %s", c.stack, frames[id].Func, ok, c.want)
	}
}

// The time of each sample is in the parts in which it was, whatever the order of the samples, and whether it
// is known how long the profile is.
func TestSeries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.Uint64Range(1000, 10_000_000).Draw(t, "length") // µs
		var s series
		if rapid.Bool().Draw(t, "known") {
			s.init(length)
		} else {
			s.init(0)
		}
		sums := make([]sum, 3)
		s.sums = func() []sum { return sums }
		var list []stream.Sample
		var of []uint32
		now := uint64(1)
		for range rapid.IntRange(1, 200).Draw(t, "samples") {
			now = min(length, now+rapid.Uint64Range(0, length/50).Draw(t, "step"))
			at := now - min(now-1, rapid.SampledFrom([]uint64{0, 0, 0, length / 100, length / 3}).Draw(t, "earlier"))
			wall := rapid.SampledFrom([]uint64{0, 1, 1000, length / 200, length / 20, length}).Draw(t, "wall")
			x := stream.Sample{Time: at, Wall: time.Duration(min(wall, at)) * time.Microsecond}
			n := uint32(rapid.IntRange(0, len(sums)-1).Draw(t, "sum"))
			sums[n].wall += x.Wall
			s.add(n, &x)
			list, of = append(list, x), append(of, n)
		}
		sums = append(sums, sum{wall: time.Hour})
		s.leaveOut(3, time.Hour)
		s.settle()
		testenv.FailIf(t, s.of(3) != nil, "time that is left out is in a series")
		for n := range uint32(3) {
			want := make([]float64, seriesBins)
			for i, x := range list {
				if of[i] != n {
					continue
				}
				for b := x.Time - uint64(x.Wall.Microseconds()); b < x.Time; {
					part := min(b/s.width, seriesBins-1)
					to := x.Time
					if part < seriesBins-1 {
						to = min(to, (part+1)*s.width)
					}
					want[part] += 1000 * float64(to-b)
					b = to
				}
			}
			got := s.of(int(n))
			for i := range want {
				g := float64(0)
				if got != nil {
					g = float64(got[i])
				}
				testenv.FailIf(t, math.Abs(g-want[i]) > 1e-4*float64(sums[n].wall)+1, "sum %d, part %d of %d µs: %v ns, want %v", n, i, s.width, g, want[i])
			}
		}
	})
}

const (
	on   = tachyon.HasGIL | tachyon.OnCPU
	ms   = time.Millisecond
	unit = 1000 // µs, the interval
)

// open returns a source of what write wrote.
func open(t testing.TB, start uint64, write func(w *writer.Writer)) *stream.Source {
	t.Helper()
	var f testenv.File
	w := testenv.Must(writer.New(&f, writer.Options{Start: start, Interval: unit}))
	write(w)
	return source(t, testenv.Finish(t, &f, w, reader.New))
}

func TestFromStream(t *testing.T) {
	const start = 1_700_000_000_000_000
	work := []tachyon.Frame{{File: "w.go", Func: "main.work", Line: 4}, {File: "m.go", Func: "main.main", Line: 9}}
	wait := []tachyon.Frame{{Func: "[chan receive]"}, {File: "m.go", Func: "main.main", Line: 9}}
	labels := map[string]string{"k": "v"}
	src := open(t, start, func(w *writer.Writer) {
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
	p := testenv.Must(FromStream(src, Detail{Goroutines: true, Labels: true}))
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
	src := open(t, 0, func(w *writer.Writer) {
		for id := range uint64(3) {
			for _, at := range []uint64{1, tachyon.MaxTime / 2, tachyon.MaxTime} {
				testenv.OK(t, w.WriteFrames(&tachyon.Sample{Thread: id, Time: at, Status: on}, []tachyon.Frame{{Func: "f"}}))
			}
		}
	})
	rep := testenv.Must(New(testenv.Must(FromStream(src, Detail{})), ReportOptions{}))
	testenv.FailIf(t, rep.Total != 1<<63-1 || rep.Rows[0].Self != rep.Total || rep.Rows[0].TotalCPU != rep.Total, "total %d, self %d", rep.Total, rep.Rows[0].Self)
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
