package fleet

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gotach/profiler/internal/testenv"
)

// Two servers of ClickHouse, which are shards of one table, give the sums of the Parquet files. The rows come from these
// through DuckDB, because Debian's version does not read Parquet. This is for the step night.
func TestShards(t *testing.T) {
	if os.Getenv("GOTACH_ENGINES") == "" {
		t.Log("only with GOTACH_ENGINES=all")
		return
	}
	_, views, _, _ := readPage(t)
	const sums = "SELECT service, host, %s AS did, function, sum(wall_ns) AS wall, sum(cpu_ns) AS cpu FROM %s GROUP BY service, host, did, function ORDER BY service, host, did, function"
	results := duckDB.run(t, append(in(tables(t), views[0]),
		`SELECT service, host, CASE WHEN reason = '' THEN state ELSE reason END, frames[1].function, epoch_us(start_time), wall_ns, cpu_ns, trace_id FROM runs JOIN stacks USING (stack)`,
		fmt.Sprintf(sums, "CASE WHEN reason = '' THEN state ELSE reason END", "(SELECT *, frames[1].function AS function FROM runs JOIN stacks USING (stack)) AS r"))...)
	rows, want := results[len(views[0])][1:], results[len(views[0])+1][1:]

	ports := freePorts(t, 4)
	shards := []string{serve(t, ports, 0), serve(t, ports, 1)}
	const columns = "(service String, host String, did String, function String, start_us Int64, wall_ns Int64, cpu_ns Int64, trace_id String)"
	for _, shard := range shards {
		query(t, shard, "CREATE TABLE runs_here "+columns+" ENGINE = MergeTree() PARTITION BY tuple() ORDER BY (service, start_us)", "")
		query(t, shard, "CREATE TABLE runs "+columns+" ENGINE = Distributed(fleet, default, runs_here, cityHash64(host))", "")
	}
	var text strings.Builder
	for _, row := range rows {
		text.WriteString(strings.Join(row, "\t") + "\n") // no cell has a tab
	}
	query(t, shards[0], "INSERT INTO runs FORMAT TabSeparated", text.String())
	for i, shard := range shards {
		if n := query(t, shard, "SELECT count() > 0 AND count() < "+fmt.Sprint(len(rows))+" FROM runs_here", ""); n != "1\n" {
			t.Errorf("shard %d does not have a part of the rows", i)
		}
		var got [][]string
		for line := range strings.Lines(query(t, shard, fmt.Sprintf(sums, "did", "runs"), "")) {
			got = append(got, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("shard %d (-Parquet +ClickHouse):\n%s", i, d)
		}
		if n := query(t, shard, "SELECT uniqExact(host) FROM runs WHERE trace_id = '"+traceID+"'", ""); n != "2\n" {
			t.Errorf("the trace is of %s hosts", n)
		}
	}
}

// freePorts returns ports that nobody listens at.
func freePorts(t *testing.T, n int) (ports []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// serve starts a shard and returns its URL. Ports are those for HTTP and for the other shard, of each shard.
func serve(t *testing.T, ports []int, shard int) string {
	t.Helper()
	dir := t.TempDir()
	config := fmt.Sprintf(`<yandex>
<logger><level>warning</level><console>1</console></logger>
<listen_host>127.0.0.1</listen_host><http_port>%d</http_port><tcp_port>%d</tcp_port>
<path>%s/data/</path><tmp_path>%s/tmp/</tmp_path>
<users_config>users.xml</users_config><default_profile>default</default_profile><default_database>default</default_database>
<mark_cache_size>100000000</mark_cache_size>
<remote_servers><fleet>
<shard><replica><host>127.0.0.1</host><port>%d</port></replica></shard>
<shard><replica><host>127.0.0.1</host><port>%d</port></replica></shard>
</fleet></remote_servers>
</yandex>`, ports[2*shard], ports[2*shard+1], dir, dir, ports[1], ports[3])
	const users = `<yandex><profiles><default><insert_distributed_sync>1</insert_distributed_sync></default></profiles><quotas><default/></quotas>
<users><default><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users></yandex>`
	for name, text := range map[string]string{"config.xml": config, "users.xml": users} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	cmd := exec.Command(testenv.ClickHouseServer(t), "--config-file="+filepath.Join(dir, "config.xml"))
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("shard %d: %s", shard, log.Bytes())
		}
	})
	address := fmt.Sprintf("http://127.0.0.1:%d/", ports[2*shard])
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		r, err := http.Get(address)
		if err == nil {
			r.Body.Close()
			return address
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// query runs a statement on a shard.
func query(t *testing.T, shard, statement, data string) string {
	t.Helper()
	r, err := http.Post(shard+"?query="+url.QueryEscape(statement), "text/plain", strings.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v\n%s", statement, r.Status, err, b)
	}
	return string(b)
}
