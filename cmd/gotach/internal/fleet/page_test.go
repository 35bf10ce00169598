//go:build peers

package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/gotach/profiler/cmd/gotach/internal/push"
	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

var update = flag.Bool("update", false, "write the results in docs/fleet.md")

const page = "../../../../docs/fleet.md"

// block is a statement of the page and the result below it, if it has one.
var block = regexp.MustCompile("(?s)```sql\n(.*?)```\n(?:\n```text\n(.*?)```\n)?")

// readPage returns the page's statements. The first two blocks make the views, in DuckDB and in ClickHouse.
func readPage(t *testing.T) (text string, views [2][]string, statements, results []string) {
	t.Helper()
	b := testenv.Must(os.ReadFile(page))
	for i, m := range block.FindAllStringSubmatch(string(b), -1) {
		if i >= 2 {
			statements, results = append(statements, m[1]), append(results, m[2])
		} else {
			views[i] = strings.Split(strings.TrimSuffix(strings.TrimSpace(m[1]), ";"), ";")
		}
	}
	testenv.FailIf(t, len(statements) < 5, "%s has %d statements", page, len(statements))
	return string(b), views, statements, results
}

// table returns a result as text in columns.
func table(rows [][]string) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	w.Flush()
	return out.String()
}

// tables returns the directories with the tables of the fleet and with the files. Every file is sent twice, which changes
// nothing.
func tables(t *testing.T) (out, dir string) {
	t.Helper()
	dir, out = t.TempDir(), filepath.Join(t.TempDir(), "tables")
	writeFleet(t, dir)
	send(t, dir, "parquet:"+out)
	cursors := testenv.Files(t, filepath.Join(dir, ".push-*"), 1)
	for _, c := range cursors {
		testenv.OK(t, os.RemoveAll(c))
	}
	send(t, dir, "parquet:"+out)
	testenv.Same(t, "files", len(testenv.Must(filepath.Glob(filepath.Join(out, "*", "*")))), 2*minutes*len(processes))
	return out, dir
}

// in returns statements for tables in a directory.
func in(dir string, list []string) (out []string) {
	for _, s := range list {
		out = append(out, strings.ReplaceAll(s, "'tables/", "'"+dir+"/"))
	}
	return out
}

// Each statement of the page gives the result that is printed below it, in both databases. With -update the test writes the results.
func TestPeerPage(t *testing.T) {
	dir, _ := tables(t)
	t.Run(duckDB.name, func(t *testing.T) { testPage(t, dir, &duckDB, 0) })
	t.Run(clickHouse.name, func(t *testing.T) {
		testenv.Night(t, "the library is large")
		testPage(t, dir, &clickHouse, 1)
	})
}

func testPage(t *testing.T, dir string, e *engine, views int) {
	text, make, statements, results := readPage(t)
	out := e.run(t, append(in(dir, make[views]), statements...)...)[len(make[views]):]
	for i, rows := range out {
		got := table(rows)
		if *update && e == &duckDB {
			text = strings.Replace(text, "```sql\n"+statements[i]+"```\n\n```text\n"+results[i]+"```\n", "```sql\n"+statements[i]+"```\n\n```text\n"+got+"```\n", 1)
			continue
		}
		testenv.FailIf(t, len(rows) < 2, "no rows:\n%s", statements[i])
		testenv.NoDiff(t, statements[i]+" in "+e.name, cmp.Diff(results[i], got))
	}
	if *update && e == &duckDB {
		testenv.OK(t, os.WriteFile(page, []byte(text), 0o644))
	}
}

// The sums of the tables are those of the reports.
func TestPeerSums(t *testing.T) {
	out, dir := tables(t)
	_, views, _, _ := readPage(t)
	results := duckDB.run(t, append(in(out, views[0]),
		"SELECT service, CASE WHEN reason = '' THEN state ELSE reason END AS did, sum(wall_ns), sum(cpu_ns) FROM runs GROUP BY service, did",
		"SELECT service, frames[1].function AS function, sum(wall_ns), sum(cpu_ns) FROM runs JOIN stacks USING (stack) GROUP BY service, function")...)[len(views[0]):]
	for i, by := range []profile.By{profile.ByState, profile.ByFunction} {
		got := map[string][2]int64{}
		for _, row := range results[i][1:] {
			got[row[0]+" "+row[1]] = [2]int64{testenv.Must(strconv.ParseInt(row[2], 10, 64)), testenv.Must(strconv.ParseInt(row[3], 10, 64))}
		}
		testenv.NoDiff(t, "by "+string(by), cmp.Diff(reports(t, dir, by), got))
	}
}

// An engine is a database that reads the tables.
type engine struct {
	name   string
	find   func(testing.TB) (node, dir string)
	script string // of node: reads a list of statements, prints a list with the rows of the last one for each statement
}

var (
	duckDB = engine{"DuckDB", testenv.DuckDB, `
const { DuckDBInstance } = require('@duckdb/node-api');
(async () => {
	const c = await (await DuckDBInstance.create(':memory:')).connect();
	const out = [];
	for (const q of JSON.parse(require('fs').readFileSync(0, 'utf8'))) {
		const r = await c.runAndReadAll(q);
		out.push([r.columnNames(), ...r.getRowsJson()].map(row => row.map(String)));
	}
	console.log(JSON.stringify(out));
})().catch(e => { console.error(String(e)); process.exit(1); });
`}
	clickHouse = engine{"ClickHouse", testenv.Chdb, `
const m = require('chdb');
const c = m.CreateConnection(':memory:');
const out = [];
for (const q of JSON.parse(require('fs').readFileSync(0, 'utf8'))) {
	const text = m.QueryWithConnection(c, q, 'JSONCompactEachRowWithNames').toString().trim();
	out.push(text === '' ? [] : text.split('\n').map(row => JSON.parse(row).map(String)));
}
m.CloseConnection(c);
console.log(JSON.stringify(out));
`}
)

// run runs statements one after the other. It returns the columns' names and the rows of each.
func (e *engine) run(t *testing.T, statements ...string) (out [][][]string) {
	t.Helper()
	node, dir := e.find(t)
	temp := t.TempDir()
	script := filepath.Join(temp, "run.cjs")
	testenv.OK(t, os.WriteFile(script, []byte(e.script), 0o600))
	input := testenv.Must(json.Marshal(statements))
	cmd := exec.Command(node, script)
	// chdb makes a directory ":memory:". Results do not depend on the time zone.
	cmd.Dir = temp
	cmd.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(dir, "node_modules"), "TZ=America/New_York")
	cmd.Stdin = bytes.NewReader(input)
	var errors bytes.Buffer
	cmd.Stderr = &errors
	b, err := cmd.Output()
	testenv.StopIf(t, err != nil, "%s: %v\n%s", e.name, err, errors.Bytes())
	testenv.OK(t, json.Unmarshal(b, &out))
	testenv.Same(t, "results of "+e.name, len(out), len(statements))
	return out
}

// kubectl-validate accepts the manifests of docs/deploy, and refuses copies with a mistake.
func TestPeerManifests(t *testing.T) {
	testenv.Night(t, "kubectl-validate is large")
	validate := testenv.KubectlValidate(t)
	manifests := testenv.Must(os.ReadFile("../../../../docs/deploy/kubernetes.yaml"))
	path := filepath.Join(t.TempDir(), "kubernetes.yaml")
	check := func(text []byte, version string) (string, error) {
		t.Helper()
		testenv.OK(t, os.WriteFile(path, text, 0o600))
		out, err := exec.Command(validate, "--version", version, path).CombinedOutput()
		return string(out), err
	}
	for _, version := range []string{"1.29", "1.30"} { // 1.29 is the oldest that docs/deploy.md names
		out, err := check(manifests, version)
		testenv.FailIf(t, err != nil, "Kubernetes %s: %v\n%s", version, err, out)
	}
	for _, mistake := range []struct{ old, new, want string }{
		{"restartPolicy: Always", "restartPolcy: Always", "restartPolcy"},
		{"replicas: 3", "replicas: three", "spec.replicas"},
		{"  selector:\n    matchLabels: {app: shop}\n", "", "spec.selector"},
		{"stringData:", "stringdata:", "stringdata"},
	} {
		if bytes.Count(manifests, []byte(mistake.old)) != 1 {
			t.Errorf("the manifests do not have %q once", mistake.old)
			continue
		}
		out, err := check(bytes.Replace(manifests, []byte(mistake.old), []byte(mistake.new), 1), "1.30")
		testenv.FailIf(t, err == nil || !strings.Contains(out, mistake.want), "with %q for %q: %v, want a message with %q:\n%s", mistake.new, mistake.old, err, mistake.want, out)
	}
}

// A process of the fleet writes a file a minute, for minutes minutes.
type process struct {
	service, version, host string
	pid                    int
}

var processes = []process{
	{"shop", "v1.4.0", "web-1", 101}, {"shop", "v1.4.0", "web-2", 102}, {"shop", "v1.5.0", "web-3", 103}, {"stock", "v0.9.1", "db-1", 201},
}

const (
	minutes = 3
	traceID = "0af7651916cd43dd8448eb211c80319c" // of a request to the shop, which asks the stock
)

var start = time.Date(2026, 2, 3, 4, 0, 13, 0, time.UTC)

// writeFleet writes the files of all processes below a directory.
func writeFleet(t *testing.T, dir string) {
	t.Helper()
	for _, p := range processes {
		for part := 1; part <= minutes; part++ {
			p.write(t, p.path(dir, part), part)
		}
	}
}

// path returns the path of a file, given the directory of all.
func (p process) path(dir string, part int) string {
	return filepath.Join(dir, p.host, fmt.Sprintf("%s.%d.tach", p.service, part))
}

// write writes a file. Its workers have 100 ticks of 10 ms in each second, in which they calculate, wait for the cache's lock and wait for
// the network. Version 1.5.0 calculates more, and in each minute leaves goroutines behind that wait forever.
func (p process) write(t *testing.T, path string, part int) {
	testenv.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
	begin := start.Add(time.Duration(part-1) * time.Minute)
	from := uint64(begin.UnixMicro())
	w := testenv.Must(writer.Create(path, writer.Options{Start: from, Interval: 10_000}))
	session := tachyon.Session{
		Program: p.service, Service: p.service, ServiceVersion: p.version, Host: p.host, PID: p.pid, Start: begin, Duration: time.Minute,
		SessionStart: start, Part: part, Source: "native", Rate: 100, Markers: true, GoVersion: "go1.26.0", GOOS: "linux", GOARCH: "amd64",
	}
	frame := func(function, file string, line int32) uint32 {
		return w.Intern(tachyon.Frame{Func: function, File: file, Line: line})
	}
	entry := frame("main."+map[string]string{"shop": "serve", "stock": "answer"}[p.service], "/src/"+p.service+"/main.go", 40)
	work := frame("main."+map[string]string{"shop": "price", "stock": "count"}[p.service], "/src/"+p.service+"/work.go", 12)
	format, get := frame("encoding/json.Marshal", "/go/encoding/json/encode.go", 171), frame("main.(*Cache).Get", "/src/"+p.service+"/cache.go", 7)
	lock, io := w.Intern(tachyon.Frame{Func: "[sync.Mutex.Lock]", Line: 1}), w.Intern(tachyon.Frame{Func: "[IO wait]"})
	mutex, read := frame("sync.(*Mutex).Lock", "/go/sync/mutex.go", 46), frame("net.(*conn).Read", "/go/net/net.go", 196)
	send, notify := w.Intern(tachyon.Frame{Func: "[chan send]"}), frame("main.notify", "/src/shop/notify.go", 25)
	testenv.OK(t, w.WriteRecords(&tachyon.Records{Objects: []tachyon.Object{{Number: 1, Kind: tachyon.ObjectMutex, Static: 1, Symbol: "main.cache"}}}))

	busy := 2 // of 10 ticks
	if p.version == "v1.5.0" {
		busy = 4
	}
	for id := uint64(10); id < 14; id++ {
		info := tachyon.Goroutine{ID: id, CreatedBy: "main.main", CreatedAt: "/src/" + p.service + "/main.go:22"}
		labels := map[string]string{"route": "/search"}
		if id == 10 && part == 2 && (p.host == "web-1" || p.host == "db-1") { // a traced request for a second
			span := map[string]string{"web-1": "b7ad6b7169203331", "db-1": "00f067aa0ba902b7"}[p.host]
			info.Labels = []tachyon.LabelSpan{
				{From: 5_000_000, Labels: map[string]string{"route": "/search", "trace_id": traceID, "span_id": span}}, {From: 6_000_000, Labels: labels},
			}
		} else if id%2 == 0 {
			info.Labels = []tachyon.LabelSpan{{Labels: labels}}
		}
		testenv.OK(t, w.WriteRecords(&tachyon.Records{Goroutines: []tachyon.Goroutine{info}}))
		for tick := range 6000 {
			s := tachyon.Sample{Thread: id, Time: from + uint64(tick+1)*10_000}
			switch step := tick % 10; {
			case step < busy:
				s.Status, s.Stack = tachyon.HasGIL|tachyon.OnCPU, []uint32{work, entry}
			case step == 5:
				s.Status, s.Stack = tachyon.HasGIL|tachyon.OnCPU, []uint32{format, entry}
			case step == 6 || step == 7 && p.service == "shop":
				s.Stack = []uint32{lock, mutex, get, entry}
			default:
				s.Stack = []uint32{io, read, entry}
			}
			testenv.OK(t, w.Write(&s))
		}
	}
	if p.version == "v1.5.0" {
		for n := range uint64(5 * part) {
			id, first := 1000+n, uint64(1_000_000)
			if n < uint64(5*(part-1)) { // of the minutes before
				first = 0
			}
			testenv.OK(t, w.WriteRecords(&tachyon.Records{Goroutines: []tachyon.Goroutine{{ID: id, CreatedBy: "main.serve", CreatedAt: "/src/shop/main.go:47"}}}))
			for at := first; at <= 60_000_000; at += 1_000_000 {
				testenv.OK(t, w.Write(&tachyon.Sample{Thread: id, Time: from + max(at, 10_000), Stack: []uint32{send, notify}}))
			}
		}
	}
	session.NotSeen = 1500 * time.Microsecond
	testenv.OK(t, w.AddMetadata(tachyon.KindSession, session))
	testenv.OK(t, w.Close())
}

// reports returns the self times of the files of writeFleet, wall and CPU, by service and what a row is.
func reports(t *testing.T, dir string, by profile.By) map[string][2]int64 {
	sums := map[string][2]int64{}
	for _, p := range processes {
		for part := 1; part <= minutes; part++ {
			in := testenv.Closes(t, testenv.Must(formats.Open(p.path(dir, part), formats.Options{})))
			r := testenv.Must(in.Report(profile.ReportOptions{By: by}))
			for _, row := range r.Rows {
				if row.Self != 0 {
					key := p.service + " " + row.Name
					sums[key] = [2]int64{sums[key][0] + int64(row.Self), sums[key][1] + int64(row.SelfCPU)}
				}
			}
		}
	}
	return sums
}

// send sends all files below a directory to a target.
func send(t *testing.T, dir, to string) {
	t.Helper()
	target, name, key, err := push.Open(to, push.TargetOptions{})
	testenv.OK(t, err)
	defer target.Close()
	p := testenv.Must(push.New(push.Options{Dir: dir, Target: target, Name: name, Key: key, Once: true}))
	testenv.OK(t, p.Run(context.Background()))
}
