//go:build measure && linux

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/diff"
	"github.com/gotach/profiler/internal/analyze/requests"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	judge "github.com/gotach/profiler/internal/testenv/measure" // measure is a function of this package
)

// TestMeasureServers compares where gotach and runtime/pprof say that CPU time goes, in the same run: by how many points a
// function's share differs at most, of those with 2 % or more. At night that is all programs of bench/servers. The runs
// here are short, so their bound is that of chance: runtime/pprof has a hundred samples a second.
func TestMeasureServers(t *testing.T) {
	loads, conditions, tags := []string{"bursts"}, []string{"alone"}, "small"
	bound, length := 8.0, testenv.Times(4*time.Second, time.Minute)
	if length == time.Minute {
		loads = []string{"bursts", "tcp", "mixed", "short", "nats", "etcd", "caddy", "victoria", "sonic", "wazero"}
		conditions, tags, bound = []string{"alone", "beside 3", "half a core"}, "", 3
	}
	bin := buildServers(t, tags)
	for _, condition := range conditions {
		for _, load := range loads {
			t.Run(load+", "+condition, func(t *testing.T) {
				judge.AtMost(t, load+", "+condition, "points", bound, func() float64 {
					table := runServer(t, condition, bin, load, fmt.Sprint(length.Seconds()), t.TempDir())
					_, rows, _ := strings.Cut(table, "apart\n")
					first, _, _ := strings.Cut(rows, "\n")
					var points float64
					testenv.Must(fmt.Sscan(strings.Join(strings.Fields(first)[8:9], ""), &points))
					t.Log(first)
					return points
				})
			})
		}
	}
}

// TestMeasureRequests compares what gotach requests says with what programs log of their own requests, at the default budget: how
// far the number of each kind is off the interval, and how far a percentile without a limit is off the log beyond a
// tenth or two ticks. At night that is all programs.
func TestMeasureRequests(t *testing.T) {
	loads, tags := []string{"groups"}, "small"
	length := testenv.Times(6*time.Second, 20*time.Second)
	if length == 20*time.Second {
		loads, tags = append(loads, "connections", "appends", "grpc", "service", "caddy", "etcd", "victoria"), ""
	}
	bin := buildServers(t, tags)
	for _, load := range loads {
		t.Run(load, func(t *testing.T) {
			judge.AtMost(t, load+": number of requests off its interval, and percentiles off the log", "%", 10, func() float64 {
				folder := t.TempDir()
				runServer(t, "alone", bin, "requests/"+load, fmt.Sprint(length.Seconds()), folder)
				return requestsOff(t, folder, load == "etcd" || load == "caddy")
			})
		})
	}
}

// TestMeasureIdle measures what a session costs in a server that nobody asks for anything, but whose timers wake goroutines.
func TestMeasureIdle(t *testing.T) {
	testenv.Night(t, "it takes minutes")
	bin := buildServers(t, "")
	for _, server := range []string{"nats", "etcd"} {
		t.Run(server, func(t *testing.T) {
			judge.AtMost(t, "cost in an idle server: "+server, "% of a core", 0.4, func() (percent float64) {
				testenv.Must(fmt.Sscan(runServer(t, "alone", bin, "idle/"+server, "30", t.TempDir()), &percent))
				return percent
			})
		})
	}
}

// buildServers builds bench/servers, which is a module that is not in the workspace.
func buildServers(t *testing.T, tags string) (bin string) {
	bin = filepath.Join(t.TempDir(), "servers")
	buildIn(t, "servers", "-tags="+tags, "-o", bin, ".")
	return bin
}

// requestsOff returns by how many percent the worst figure of a session is off what the program logged. Programs whose
// clients keep the log know how long their requests took with the way there, so their percentiles are not compared.
func requestsOff(t *testing.T, folder string, byClients bool) (worst float64) {
	var log map[string][][2]int64 // when each ended, and how long it took, µs
	testenv.OK(t, json.Unmarshal(testenv.Must(os.ReadFile(filepath.Join(folder, "requests.json"))), &log))
	file := testenv.Closes(t, testenv.Must(reader.Open(filepath.Join(folder, "gotach.tach"))))
	src := testenv.Must(stream.New([]stream.File{{Stream: file}}, stream.Options{Labels: true}))
	r := testenv.Must(requests.Find(analyze.NewSamples("", src), requests.Options{}))
	session := src.Metadata().Session
	begin := int64(math.MaxInt64) // until the first tick nothing is known
	for g := range testenv.All(t, file.Goroutines()) {
		begin = min(begin, int64(g.First))
	}
	for kind, all := range log {
		var took []int64 // of those that ended in the session
		for _, x := range all {
			if at := time.UnixMicro(x[0]).Sub(session.Start); at.Microseconds() > begin && at < session.Duration {
				took = append(took, x[1])
			}
		}
		slices.Sort(took)
		i := slices.IndexFunc(r.Rows, func(x requests.Row) bool { return x.All && !x.Aside && strings.EqualFold(x.Kind, kind) })
		testenv.StopIf(t, i < 0, "no row of %s", kind)
		row, n := &r.Rows[i], len(took)
		t.Logf("%s: %d requests by the log, %+v", kind, n, row)
		off := max(0, row.Low-n)
		if row.High > 0 {
			off = max(off, n-row.High)
		}
		worst = max(worst, 100*float64(off)/float64(n))
		if byClients {
			continue
		}
		for q, p := range map[float64][2]time.Duration{0.5: {row.P50, row.P50Below}, 0.9: {row.P90, row.P90Below}, 0.99: {row.P99, row.P99Below}} {
			want := time.Duration(took[int(q*float64(n-1))]) * time.Microsecond
			beyond := max(0, want-p[1]-2*r.Short) // a limit is one
			if p[0] > 0 {
				beyond = max(0, (p[0]-want).Abs()-2*r.Short)
			}
			worst = max(worst, 100*float64(beyond)/float64(want))
		}
	}
	return worst
}

// runServer runs a command under a condition, and returns what it prints.
func runServer(t *testing.T, condition string, command ...string) string {
	cmd := exec.Command(command[0], command[1:]...)
	run := func() ([]byte, error) { return cmd.CombinedOutput() }
	switch condition {
	case "beside 1", "beside 3":
		for range map[string]int{"beside 1": 1, "beside 3": 3}[condition] {
			spin := exec.Command("sh", "-c", "while :; do :; done")
			testenv.OK(t, spin.Start())
			defer func() { spin.Process.Kill(); spin.Wait() }()
		}
	case "half a core":
		run = func() (out []byte, err error) {
			t.Run("", func(t *testing.T) { out, err = testenv.RunLimited(t, 0.5, cmd) }) // a cgroup is removed with its test
			return out, err
		}
	}
	out, err := run()
	testenv.StopIf(t, err != nil, "%v\n%s", err, out)
	return string(out)
}

// TestMeasureChanges compares real programs before a change and after it, as gotach diff does: what changed is the first row
// that is different. Two runs of one program have no row that is. At night that is also a proxy of caddy whose pool of
// connections is bigger, and each beside another program that spins.
func TestMeasureChanges(t *testing.T) {
	testenv.Night(t, "many pairs of ten seconds")
	changes := map[string]struct{ after, row string }{
		"jobs": {"jobs-checked", "main.check"}, // 4 % of the CPU time, in a function that the others call too
		"leak": {"leak-faster", "[chan receive] main.forgotten"},
		"pool": {"pool-bigger", "[select] github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy.(*HTTPTransport).RoundTrip in net/http.(*Transport).getConn"},
	}
	bin := buildServers(t, "")
	record := func(t *testing.T, condition, load string) string {
		dir := t.TempDir()
		runServer(t, condition, bin, "alone/"+load, "10", dir)
		return filepath.Join(dir, "gotach.tach")
	}
	for _, condition := range []string{"alone", "beside 1"} {
		for _, load := range []string{"jobs", "leak", "pool"} {
			t.Run(load+", "+condition, func(t *testing.T) {
				change := changes[load]
				before := record(t, condition, load)
				judge.AtMost(t, load+", "+condition+": runs in which something else is first", "misses", 0, func() float64 {
					if first := firstDifferent(t, before, record(t, condition, change.after)); first != change.row {
						t.Logf("%q is first", first)
						return 1
					}
					return 0
				})
				judge.AtMost(t, load+", "+condition+": runs of one program that differ", "runs", 0, func() float64 {
					again := record(t, condition, load)
					first := firstDifferent(t, before, again)
					before = again
					if first != "" {
						t.Logf("%q differs", first)
						return 1
					}
					return 0
				})
			})
		}
	}
}

// firstDifferent returns the first row that is different in two files, "" if none is.
func firstDifferent(t *testing.T, paths ...string) string {
	var sides [2][]*analyze.Samples
	for i, path := range paths {
		src := sourceOf(t, path, stream.Options{Creators: true})
		sides[i] = []*analyze.Samples{analyze.NewSamples(path, src)}
	}
	d := testenv.Must(diff.Find(sides[0], sides[1], diff.Options{}))
	for _, r := range d.Rows {
		if r.Level != diff.LevelWhole && r.Significant {
			return r.Name
		}
	}
	return ""
}
