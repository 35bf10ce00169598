//go:build peers

package fleet

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

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
	if err != nil {
		t.Fatalf("%s: %v\n%s", e.name, err, errors.Bytes())
	}
	if err := json.Unmarshal(b, &out); err != nil || len(out) != len(statements) {
		t.Fatalf("%s printed %s: %v", e.name, b, err)
	}
	return out
}
