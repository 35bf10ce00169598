package fleet

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gotach/profiler/internal/profile"
)

// Two programs call each other. In the database, a trace has the time of both, and all sums are those of reports.
func TestTwoPrograms(t *testing.T) {
	dir := t.TempDir()
	stock, address := launch(t, dir, "stock")
	shop, lines := launch(t, dir, "shop", "GOTACH_FLEET_STOCK="+strings.TrimSpace(line(t, address)))
	printed, err := io.ReadAll(lines)
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []*exec.Cmd{shop, stock} {
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v: %v", cmd.Args, err)
		}
	}
	traces := strings.Split(strings.TrimSpace(string(printed)), "\n")
	if len(traces) != 4 {
		t.Fatalf("the shop printed %q", printed)
	}
	out := filepath.Join(dir, "tables")
	send(t, dir, "parquet:"+out)

	text, views, statements, _ := readPage(t)
	n := slices.IndexFunc(statements, func(s string) bool { return strings.Contains(s, traceID) })
	if n < 0 || len(text) == 0 {
		t.Fatal("no statement for a trace")
	}
	list := in(out, views[0])
	for _, trace := range traces {
		list = append(list, strings.Replace(statements[n], traceID, strings.Fields(trace)[0], 1))
	}
	list = append(list,
		"SELECT service, CASE WHEN reason = '' THEN state ELSE reason END AS did, sum(wall_ns), sum(cpu_ns) FROM runs GROUP BY service, did",
		"SELECT service, frames[1].function AS function, sum(wall_ns), sum(cpu_ns) FROM runs JOIN stacks USING (stack) GROUP BY service, function",
		"SELECT service, version FROM runs GROUP BY service, version ORDER BY service")
	results := duckDB.run(t, list...)[len(views[0]):]

	for i, trace := range traces {
		ids := strings.Fields(trace)
		wall := map[string]float64{} // ms, by service and span
		for _, row := range results[i][1:] {
			ms, err := strconv.ParseFloat(row[5], 64)
			if err != nil {
				t.Fatal(err)
			}
			wall[row[0]+" "+row[2]] += ms
		}
		// The requests of the shop wait for those of the stock, and then take 100 ms more.
		inShop, inStock := wall["shop "+ids[1]], wall["stock "+ids[2]]
		if len(wall) != 2 || inStock < 200 || inShop < inStock {
			t.Errorf("trace %q: %v ms", ids, wall)
		}
	}
	results = results[len(traces):]
	for i, by := range []profile.By{profile.ByState, profile.ByFunction} {
		want := map[string][2]int64{}
		for _, service := range []string{"shop", "stock"} {
			report(t, filepath.Join(dir, service+".tach"), service, by, want)
		}
		got := map[string][2]int64{}
		for _, row := range results[i][1:] {
			wall, e1 := strconv.ParseInt(row[2], 10, 64)
			cpu, e2 := strconv.ParseInt(row[3], 10, 64)
			if e1 != nil || e2 != nil {
				t.Fatal(row)
			}
			key := row[0] + " " + row[1]
			got[key] = [2]int64{wall, cpu}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("by %s (-report +database):\n%s", by, d)
		}
	}
	if d := cmp.Diff([][]string{{"service", "version"}, {"shop", "v1"}, {"stock", "v2"}}, results[2]); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// launch starts the test binary as a program.
func launch(t *testing.T, dir, program string, env ...string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), append(env, "GOTACH_FLEET_PROGRAM="+program, "PROFILE_OUT="+filepath.Join(dir, program+".tach"))...)
	cmd.Stderr = os.Stderr
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() { r.Close(); cmd.Process.Kill() })
	if err := r.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewReader(r)
}

func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	text, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(fmt.Errorf("a program printed %q: %w", text, err))
	}
	return text
}
