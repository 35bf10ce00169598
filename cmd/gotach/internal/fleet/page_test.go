//go:build peers

package fleet

import (
	"bytes"
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

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
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
