//go:build measure && linux && (amd64 || arm64)

package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	judge "github.com/gotach/profiler/internal/testenv/measure" // measure is a function of this package
	"github.com/gotach/profiler/tachyon"
)

// attachedPrograms are those of testdata/causes that are recorded from outside and from inside at once.
var attachedPrograms = []string{"pool-sql", "rwmutex-writer", "lock-fsync", "busy-server", "balanced-pipeline", "chat-hub", "leak-senders",
	"straggler-group", "gc-pressure", "semaphore"}

// TestMeasureAttached compares a recording from outside with the program's own profile of the same seconds: by how many points of all
// goroutine time the time of a function, of a state or of a label differs at most, and by how many percent the CPU time is off the
// kernel's. At night that is ten programs.
func TestMeasureAttached(t *testing.T) {
	programs := attachedPrograms[:testenv.Times(1, len(attachedPrograms))]
	bound := float64(testenv.Times(2, 1)) // points; the ends of short recordings are a part of them
	const length = 5                      // seconds
	gotach := testenv.Must(testenv.BuildGotach(t.TempDir()))
	all := slices.DeleteFunc(readCauses(t), func(c cause) bool { return !slices.Contains(programs, c.Name) })
	bin := buildCauses(t, all)
	for _, c := range all {
		t.Run(c.Name, func(t *testing.T) {
			judge.AtMost(t, c.Name+", from outside", "points, or half percent of CPU time", bound, func() float64 {
				dir := t.TempDir()
				inside, outside := filepath.Join(dir, "inside.tach"), filepath.Join(dir, "outside.tach")
				cmd := exec.Command(filepath.Join(bin, c.Name), "-d", fmt.Sprint(length+3, "s"))
				cmd.Env = append(os.Environ(), "PROFILE_OUT="+inside, "PROFILE_BUDGET=10")
				testenv.OK(t, cmd.Start())
				testenv.Await(func() bool { _, err := os.Stat(inside); return err == nil }) // its session has begun
				record := exec.Command(gotach, "record", fmt.Sprint(cmd.Process.Pid), "-d", fmt.Sprint(length, "s"), "--interval", "1ms", "--budget", "50", "-o", outside)
				var out bytes.Buffer
				record.Stdout, record.Stderr = &out, &out
				testenv.OK(t, record.Start())
				testenv.Await(func() bool { _, err := os.Stat(outside); return err == nil }) // what it used before is not in the recording
				before := cpuOf(t, cmd.Process.Pid)
				err := record.Wait()
				testenv.StopIf(t, err != nil, "%v\n%s", err, &out)
				cpu := cpuOf(t, cmd.Process.Pid) - before
				testenv.OK(t, cmd.Wait())
				from, to := window(t, outside)
				a, b := timesOf(t, outside, from, to), timesOf(t, inside, from, to)
				points, what := 0.0, ""
				for _, m := range []map[string]float64{a.of, b.of} {
					for key := range m {
						if p := 100 * math.Abs(a.of[key]/a.all-b.of[key]/b.all); p > points {
							points, what = p, key
						}
					}
				}
				off := 100 * math.Abs(a.cpu/1e9/cpu-1)
				t.Logf("%.2f points: %s; %.3f s of CPU time, kernel %.3f s, inside %.3f; goroutine time %.1f and %.1f s", points, what, a.cpu/1e9, cpu, b.cpu/1e9, a.all/1e9, b.all/1e9)
				return max(points, off/2)
			})
		})
	}
}

// cpuOf returns the CPU time of a process and its threads, in seconds.
func cpuOf(t *testing.T, pid int) (s float64) {
	for _, path := range testenv.Must(filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))) {
		var ns float64
		if b, err := os.ReadFile(path); err == nil {
			_ = testenv.Must(fmt.Sscan(string(b), &ns))
		}
		s += ns / 1e9
	}
	return s
}

// window returns the time of a file without its ends, in µs.
func window(t *testing.T, path string) (from, to uint64) {
	src := sourceOf(t, path, stream.Options{})
	for range testenv.All(t, src.Samples()) {
	}
	const margin = 200_000
	return src.Header().Start + margin, src.Header().Start + src.End() - margin
}

// times is goroutine time in ns: all of it, that on a CPU, and that of each function, label and state.
type times struct {
	all, cpu float64
	of       map[string]float64
}

func timesOf(t *testing.T, path string, from, to uint64) times {
	src := sourceOf(t, path, stream.Options{Labels: true})
	out := times{of: map[string]float64{}}
	for s := range testenv.All(t, src.Samples()) {
		if s.NotSeen {
			continue
		}
		if s.Status&tachyon.OnCPU != 0 {
			out.cpu += float64(s.Wall)
		}
		if s.Interpreter != tachyon.User {
			continue
		}
		begin, end := max(s.Time-uint64(s.Wall.Microseconds()), from), min(s.Time, to)
		var keys []string
		for _, id := range src.AppendStack(nil, s.Stack) {
			keys = append(keys, src.Frames()[id].Func)
		}
		if end <= begin || slices.ContainsFunc(keys, func(name string) bool {
			return name == tachyon.FuncProfiler || strings.HasPrefix(name, "github.com/gotach/profiler.") || strings.HasPrefix(name, "github.com/gotach/profiler/sampler")
		}) {
			continue
		}
		keys = append(keys, "state "+src.State(s.Status, s.Stack))
		if s.Labels != nil {
			for k, v := range s.Labels.Map() {
				keys = append(keys, k+"="+v)
			}
		}
		w := float64(end-begin) * 1000
		out.all += w
		slices.Sort(keys)
		for _, key := range slices.Compact(keys) {
			out.of[key] += w
		}
	}
	return out
}
