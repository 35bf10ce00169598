//go:build measure && (amd64 || arm64)

package attach

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/measure"
	"github.com/gotach/profiler/tachyon"
)

// shares sums up CPU time by function, of the leaves and of all that called them.
type shares struct {
	self, total map[string]float64
	all         float64
}

func (s *shares) add(stack []string, weight float64) {
	if s.self == nil {
		s.self, s.total = map[string]float64{}, map[string]float64{}
	}
	if stack[0] == "runtime.asyncPreempt" { // as TestMeasurePprof
		stack = stack[1:]
	}
	for i, name := range stack {
		if name = plain(name); i == 0 {
			s.self[name] += weight
		}
		if !slices.ContainsFunc(stack[:i], func(before string) bool { return plain(before) == name }) {
			s.total[name] += weight
		}
	}
	s.all += weight
}

// plain returns a name as both profiles have it: without type arguments. A name such as [scheduler] has none.
func plain(name string) string {
	if name[0] == '[' {
		return name
	}
	return shown(name)
}

// apart returns by how many points functions' shares differ at most, of those that runtime.Stack would print.
func (s *shares) apart(other *shares) (points float64, name string) {
	for _, maps := range [][2]map[string]float64{{s.self, other.self}, {s.total, other.total}} {
		for n := range maps[1] {
			if p := 100 * math.Abs(maps[0][n]/s.all-maps[1][n]/other.all); p > points && !goruntime.Hidden(n) {
				points, name = p, n
			}
		}
	}
	return points, name
}

// Shares of CPU time are those of runtime/pprof in the same run of the same program.
func TestMeasureCPU(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "busy")
	testenv.OK(t, testenv.Build(program, "./testdata/busy", nil, "-ldflags=-s -w"))
	measure.AtMost(t, "shares of CPU time beside runtime/pprof's", "points", 4, func() float64 {
		cmd := exec.Command(program, filepath.Join(dir, "cpu.pb.gz"))
		in, out := testenv.Must(cmd.StdinPipe()), testenv.Must(cmd.StdoutPipe())
		testenv.OK(t, cmd.Start())
		defer func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}()
		lines := bufio.NewReader(out)
		say := func() string {
			testenv.Must(io.WriteString(in, "\n"))
			return testenv.Must(lines.ReadString('\n'))
		}
		say()
		p := testenv.Must(Open(t.Context(), cmd.Process.Pid))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		path := filepath.Join(dir, "x.tach")
		_ = testenv.Must(p.Record(ctx, path, Options{Interval: time.Millisecond, Budget: 50}))
		say()
		f := testenv.Closes(t, testenv.Must(reader.Open(path)))
		if m := testenv.Must(f.Metadata()); m.Session.SourceReason == sourceNote {
			testenv.Skip(t, "perf events are not allowed here")
		}
		var got, want shares
		src := samples(f)
		for s := range testenv.All(t, src.Samples()) {
			if s.CPU() > 0 {
				names := callsOf(src, s)
				if names[0] == "[syscall]" {
					names = names[1:]
				}
				if !slices.Contains(names, "runtime.sigtramp") { // what runtime/pprof costs
					got.add(names, float64(s.CPU()))
				}
			}
		}
		for _, s := range testenv.Must(profile.ParseData(testenv.Must(os.ReadFile(cmd.Args[1])))).Sample {
			var names []string
			for _, l := range s.Location {
				for _, line := range l.Line {
					names = append(names, line.Function.Name)
				}
			}
			if slices.Contains(names, "runtime.schedule") {
				names = []string{tachyon.FuncScheduler}
			}
			want.add(names, float64(s.Value[1]))
		}
		points, name := got.apart(&want)
		t.Logf("%.1f points: %s; %.2f s of CPU time, runtime/pprof %.2f s", points, name, got.all/1e9, want.all/1e9)
		return points
	})
}

// A program that is recorded 1,000 times a second goes on as fast as beside a process that uses as much of the CPU and does not look at it. The
// program computes, and its goroutines hand over to each other, beside some that wait and some that wait again and again. Any process that
// runs takes something from one on another core: caches, memory, the share of a virtual machine. The log has what both cost beside a program that is alone.
func TestMeasureSlowdown(t *testing.T) {
	testenv.Night(t, "half a percent needs 20 rounds and an idle machine")
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // as gotach record
	x := start(t, build(t, ""), "move", "one")
	took := func() (ns float64) {
		testenv.Must(io.WriteString(x.in, "rounds\n"))
		testenv.Must(fmt.Fscan(x.out, &ns))
		return ns
	}
	measure.AtMost(t, "slowdown of a recorded program, compared with one beside a process as busy", "%", 0.5, func() float64 {
		var reading, presence, both []float64
		for range 20 {
			alone := took()
			var recorded, spun, share float64
			beside(t, func(ctx context.Context, began func()) {
				_ = testenv.Must(testenv.Must(Open(t.Context(), x.pid)).Record(ctx, filepath.Join(t.TempDir(), "x.tach"), Options{Interval: time.Millisecond, Budget: 100, Progress: func(ticks int64, _ time.Duration, _ string) {
					if ticks == 10 {
						began()
					}
				}}))
			}, func() {
				cpu, at := ownCPU(), monotonic()
				recorded = took()
				share = float64(ownCPU()-cpu) / float64(monotonic()-at)
			})
			beside(t, func(ctx context.Context, began func()) {
				began()
				spin(ctx, share)
			}, func() { spun = took() })
			reading, presence, both = append(reading, recorded/spun), append(presence, spun/alone), append(both, recorded/alone)
		}
		percent := func(ratios []float64) float64 {
			slices.Sort(ratios)
			return 100 * (ratios[len(ratios)/2] - 1)
		}
		t.Logf("%.2f %% slower recorded than alone, %.2f %% beside a process as busy", percent(both), percent(presence))
		return percent(reading)
	})
}

// beside measures while something else goes on. That calls began when it does.
func beside(t *testing.T, other func(ctx context.Context, began func()), measure func()) {
	ctx, stop := context.WithCancel(t.Context())
	began, done := make(chan bool), make(chan bool)
	go func() {
		defer close(done)
		other(ctx, func() { close(began) })
	}()
	<-began
	measure()
	stop()
	<-done
}

// spin uses a share of a core, in as many pieces as a recording.
func spin(ctx context.Context, share float64) {
	cpu, at := ownCPU(), monotonic()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ; ctx.Err() == nil; <-tick.C {
		for float64(ownCPU()-cpu) < share*float64(monotonic()-at) {
		}
	}
}
