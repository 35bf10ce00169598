package parquet

import (
	order "cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"

	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"
)

// openLines opens lines in the format jsonl.
func openLines(t *testing.T, lines ...string) *formats.Input {
	in := testenv.Closes(t, testenv.Must(formats.OpenReader(strings.NewReader(strings.Join(lines, "\n")), "x.jsonl", formats.Options{})))
	return in
}

// rows writes a profile and reads the two files.
func rows(t *testing.T, in *formats.Input, o Options) (Files, []Run, []Stack) {
	t.Helper()
	src := testenv.Must(in.Source(SourceOptions))
	f := testenv.Must(Write(filepath.Join(t.TempDir(), "out"), src, o))
	return f, read[Run](t, f.Runs), read[Stack](t, f.Stacks)
}

func read[T any](t *testing.T, path string) []T { return testenv.Must(parquet.ReadFile[T](path)) }

const (
	sessionLine = `{"gotach":"session","program":"shop","goos":"linux","goarch":"amd64","go_version":"go1.26","host":"web/1","pid":4711,` +
		`"module":"example.com/shop","version":"v1.2.3","start":"2026-02-03T04:05:58Z","duration_ns":5000000000,"markers":true,"not_seen_ns":2500}`
	header = `{"gotach":"file","start_us":1770091558000000,"interval_us":1000}`
)

// sample is a line for a sample, at a time in ms since the start.
func sample(id, interpreter, at, status int, stack string) string {
	return fmt.Sprintf(`{"thread_id":%d,"interpreter_id":%d,"timestamp":%d,"status":%d,"frames":[%s]}`, id, interpreter, 1770091558000000+at*1000, status, stack)
}

// example is lines of a session that begins two seconds before a full minute.
func example() []string {
	const work, lock = `["/x/m.go","main.work",12],["/x/m.go","main.main",3]`, `["","[sync.Mutex.Lock]",7],["/go/sync/mutex.go","sync.(*Mutex).Lock",40],`
	return []string{
		header, sessionLine,
		`{"gotach":"goroutine","id":7,"created_by":"main.main","created_at":"/x/main.go:9","first_us":0,"last_us":4000000,"labels":[{"from_us":1000000,"labels":{"trace_id":"0af7","span_id":"b7ad","user":"\"x\""}}]}`,
		`{"gotach":"object","n":7,"kind":"sync.Mutex","static":1,"symbol":"main.cache","offset":8}`,
		sample(7, 0, 1, 3, work), sample(7, 0, 2, 3, work), // two samples, one run
		sample(7, 0, 1000, 1, work),      // no core
		sample(7, 0, 4000, 0, lock+work), // waits over the full minute, with labels
		sample(1<<30, 2, 1, 2, `["","[profiler]",0]`),
		sample(3, 1, 5, 3, `["/go/runtime/mgc.go","runtime.gcBgMarkWorker",5]`),
	}
}

// A row for each run, in the order of their starts, with all that is known.
func TestRuns(t *testing.T) {
	f, runs, stacks := rows(t, openLines(t, example()...), Options{})
	testenv.Same(t, "files", filepath.Base(f.Runs)+" "+filepath.Base(filepath.Dir(f.Stacks)), "web_1-4711-20260203T040558.000000Z.parquet stacks")
	names := map[int64]string{}
	for i, s := range stacks {
		testenv.FailIf(t, i > 0 && stacks[i-1].Stack >= s.Stack, "stacks are not sorted")
		for _, f := range s.Frames {
			names[s.Stack] += fmt.Sprintf(" %s:%d", f.Function, f.Line)
		}
	}
	var got []string
	for _, r := range runs {
		testenv.FailIf(t, r.Service != "shop" || r.Host != "web/1" || r.PID != 4711 || r.Version != "v1.2.3" || r.Instance != "web/1-4711-20260203T040558.000000Z", "process %+v", r)
		testenv.FailIf(t, r.TraceID != r.Labels["trace_id"] || r.SpanID != r.Labels["span_id"], "trace %q, span %q, labels %v", r.TraceID, r.SpanID, r.Labels)
		line := fmt.Sprintf("%s-%s wall %v cpu %v, %s %d", clock(r.Start), clock(r.End), time.Duration(r.Wall), time.Duration(r.CPU), r.Kind, r.Goroutine)
		if r.Creator != "" {
			line += fmt.Sprintf(" by %s at %s", r.Creator, r.CreatorSite)
		}
		line += ": " + r.State
		if r.Reason != "" {
			line += fmt.Sprintf(" for %s %s %d", r.Reason, r.Object, r.ObjectID)
		}
		if len(r.Labels) > 0 {
			line += fmt.Sprint(" ", r.Labels)
		}
		got = append(got, line+","+names[r.Stack])
	}
	want := []string{
		"58.000-58.001 wall 1ms cpu 1ms, process 0: running, [profiler]:0",
		"58.000-03.000 wall 2.5µs cpu 0s, process 0: not seen, [not seen]:0",
		"58.000-58.002 wall 2ms cpu 2ms, goroutine 7 by main.main at /x/main.go:9: running, main.work:12 main.main:3",
		"58.002-59.000 wall 998ms cpu 0s, goroutine 7 by main.main at /x/main.go:9: no core map[span_id:b7ad trace_id:0af7 user:\"x\"], main.work:12 main.main:3",
		"58.004-58.005 wall 1ms cpu 1ms, runtime 3: running, runtime.gcBgMarkWorker:5",
		"59.000-00.000 wall 1s cpu 0s, goroutine 7 by main.main at /x/main.go:9: waiting for sync.Mutex.Lock main.cache+8 7 map[span_id:b7ad trace_id:0af7 user:\"x\"], [sync.Mutex.Lock]:0 sync.(*Mutex).Lock:40 main.work:12 main.main:3",
		"00.000-02.000 wall 2s cpu 0s, goroutine 7 by main.main at /x/main.go:9: waiting for sync.Mutex.Lock main.cache+8 7 map[span_id:b7ad trace_id:0af7 user:\"x\"], [sync.Mutex.Lock]:0 sync.(*Mutex).Lock:40 main.work:12 main.main:3",
	}
	testenv.NoDiff(t, "", cmp.Diff(want, got))
}

func clock(us int64) string { return time.UnixMicro(us).UTC().Format("05.000") }

// The caller may say what the service is.
func TestOptions(t *testing.T) {
	f, runs, _ := rows(t, openLines(t, example()...), Options{Name: "a", Service: "till", Version: "9"})
	testenv.FailIf(t, filepath.Base(f.Stacks) != "a.parquet" || runs[0].Service != "till" || runs[0].Version != "9" || runs[0].Host != "web/1", "%v %+v", f, runs[0])
}

// Hashes stay the same for ever: files that different versions of gotach wrote are one table. An object's number does
// not matter, a line does.
func TestHashes(t *testing.T) {
	lines := example()
	_, runs, _ := rows(t, openLines(t, lines...), Options{})
	testenv.Same(t, "hash", runs[2].Stack, 3810330302425206843)
	hash := func(old, new string) (out int64) {
		var changed []string
		for _, l := range lines {
			changed = append(changed, strings.ReplaceAll(l, old, new))
		}
		_, runs, _ := rows(t, openLines(t, changed...), Options{})
		return runs[5].Stack
	}
	was := runs[5].Stack
	testenv.Same(t, "hash, with another object", hash(`[sync.Mutex.Lock]",7`, `[sync.Mutex.Lock]",8`), was)
	testenv.FailIf(t, hash(`main.work",12`, `main.work",13`) == was || hash("/x/m.go", "/y/m.go") == was, "another line or file has the same hash")
}

// Waits for the same thing one after the other are separate runs.
func TestMoved(t *testing.T) {
	const wait = `["","[select]",0],["/x/m.go","main.main",3]`
	_, runs, _ := rows(t, openLines(t, header, sessionLine, sample(1, 0, 1, 0, wait), sample(1, 0, 2, 0, wait), sample(1, 0, 3, 64, wait)), Options{})
	var walls []int64
	for _, r := range runs {
		if r.Kind == "goroutine" {
			walls = append(walls, r.Wall)
		}
	}
	testenv.NoDiff(t, "", cmp.Diff([]int64{2e6, 1e6}, walls))
}

// Times that make no sense, as in damaged files, do not make a file large.
func TestJumps(t *testing.T) {
	const stack = `["/x/m.go","main.main",3]`
	lines := []string{header, sessionLine}
	for i := range 200 {
		lines = append(lines, sample(1, 0, 1+i%2*1_000_000_000_000, 3, stack))
	}
	_, runs, _ := rows(t, openLines(t, lines...), Options{})
	testenv.Within(t, "runs", len(runs), 0, 500)
}

// The sums of recorded files are those of their reports.
func TestSums(t *testing.T) {
	for _, name := range []string{"none.bin", "unicode.zstd.bin"} {
		in := testenv.Closes(t, testenv.Must(formats.Open("../../../../testdata/tachyon/document-v2/"+name, formats.Options{})))
		_, runs, stacks := rows(t, in, Options{})
		leaf := map[int64]string{}
		for _, s := range stacks {
			leaf[s.Stack] = s.Frames[0].Function
		}
		type times struct{ Wall, CPU time.Duration }
		got, want := map[string]times{}, map[string]times{}
		for _, r := range runs {
			s := got[leaf[r.Stack]]
			got[leaf[r.Stack]] = times{s.Wall + time.Duration(r.Wall), s.CPU + time.Duration(r.CPU)}
		}
		for _, r := range testenv.Must(in.Report(profile.ReportOptions{})).Rows {
			if r.Name == "?" {
				r.Name = ""
			}
			if r.Self > 0 {
				want[r.Name] = times{r.Self, r.SelfCPU}
			}
		}
		testenv.NoDiff(t, name, cmp.Diff(want, got))
	}
}

// A name never leaves the directory.
func TestName(t *testing.T) {
	for host, want := range map[string]string{"a": "a-1-", "../x": "_x-1-", "": "1-", "a\x00b": "a_b-1-"} {
		c := &collector{files: []facts{{instance: host + "-1-"}}}
		testenv.Same(t, host, c.name(), want)
	}
	testenv.Same(t, "no host", (&collector{}).name(), "profile")
}

// After an error there are no runs and no temporary files.
func TestFails(t *testing.T) {
	in := openLines(t, example()...)
	src := testenv.Must(in.Source(SourceOptions))
	dir := t.TempDir()
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "runs"), nil, 0o600))
	testenv.FailIf(t, testenv.Err(Write(dir, src, Options{})) == nil, "no error")
	list, hidden := testenv.Must(filepath.Glob(filepath.Join(dir, "*", "*"))), testenv.Must(filepath.Glob(filepath.Join(dir, ".*")))
	testenv.SameList(t, "left", append(list, hidden...), nil)
}

// Rows come in order, and as they were, however few of them fit into memory.
func TestSort(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		s := &sorter{dir: dir, limit: rapid.IntRange(1, 20).Draw(t, "limit"), less: func(a, b *row) int {
			return order.Or(order.Compare(a.start, b.start), order.Compare(a.goroutine, b.goroutine))
		}}
		defer s.close()
		var want []row
		for i := range rapid.IntRange(0, 100).Draw(t, "rows") {
			r := row{
				start: rapid.Int64().Draw(t, "start") >> rapid.IntRange(0, 62).Draw(t, "shift"), goroutine: uint64(i), wall: int64(-i), cpu: int64(i) << 40,
				file: uint32(i), creator: uint32(i) << 20, place: ^uint32(i), kind: uint8(i % 3), labels: rapid.String().Draw(t, "labels"),
			}
			want = append(want, r)
			testenv.OK(t, s.add(&r))
		}
		slices.SortFunc(want, func(a, b row) int { return s.less(&a, &b) })
		var got []row
		for r := range testenv.All(t, s.rows()) {
			got = append(got, *r)
		}
		testenv.SameList(t, "rows", got, want)
	})
	testenv.Empty(t, dir)
}
