//go:build peers

package fleet

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/gotach/profiler/internal/testenv/cmp"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
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
		switch {
		case i >= 2:
			statements, results = append(statements, m[1]), append(results, m[2])
		default:
			for s := range strings.SplitSeq(m[1], ";") {
				if strings.TrimSpace(s) != "" {
					views[i] = append(views[i], s)
				}
			}
		}
	}
	if len(statements) < 5 {
		t.Fatalf("%s has %d statements", page, len(statements))
	}
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
	if list, err := filepath.Glob(filepath.Join(out, "*", "*")); err != nil || len(list) != 2*minutes*len(processes) {
		t.Fatalf("files %q, %v", list, err)
	}
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
		if len(rows) < 2 {
			t.Errorf("no rows:\n%s", statements[i])
		}
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
