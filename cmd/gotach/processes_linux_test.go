package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gotach/profiler/tachyon"
)

// manyHosts writes the files of many processes, each with parts of a second. The processes of one host in two have
// the version v2.
func manyHosts(t testing.TB, dir string, processes, parts int) (paths []string) {
	t.Helper()
	for n := range processes {
		b := newBigSession()
		b.process = tachyon.Session{
			Program: "app", Host: fmt.Sprintf("web-%d", n/2), PID: 100 + n%2, Service: "shop", ServiceVersion: []string{"v1", "v2"}[n/2%2], GoVersion: "go1.26.0",
		}
		for part := range parts {
			path := filepath.Join(dir, fmt.Sprintf("app-%d.%d.tach", n, part+1))
			b.file(t, path, part+1, 1, 100)
			paths = append(paths, path)
		}
	}
	return paths
}

// limited runs gotach in a process of its own that may have 64 open files. It returns the most memory that it had.
func limited(t *testing.T, wantCode int, args ...string) (stdout, stderr string, memory int64) {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", `ulimit -n 64 && exec "$@"`, "sh", testProgram(t, "gotach")}, args...)...)
	cmd.Env = append(os.Environ(), "GOGC=")
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if code := cmd.ProcessState.ExitCode(); code != wantCode {
		t.Fatalf("gotach %v: exit code %d, want %d\n%s", args[0], code, wantCode, errs.String())
	}
	return out.String(), errs.String(), cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
}

// TestManyProcesses reads the files of many processes: in memory that hardly depends on their number, with few open files, and
// in spite of files that are damaged or of another kind, of which it warns. GOTACH_PROCESSES is the number of processes, for
// measurements by hand.
func TestManyProcesses(t *testing.T) {
	processes := 40
	if n, err := strconv.Atoi(os.Getenv("GOTACH_PROCESSES")); err == nil {
		processes = n
	}
	dir := t.TempDir()
	paths := manyHosts(t, dir, processes, 2)
	t.Logf("%d files", len(paths))
	want := func(text string) {
		t.Helper()
		var got struct {
			Rows []struct {
				Name string
				Self int64 `json:"self_ns"`
			}
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		if len(got.Rows) != 2 || got.Rows[0].Self != got.Rows[1].Self || got.Rows[0].Name == got.Rows[1].Name {
			t.Errorf("rows of two versions that do the same: %+v", got.Rows)
		}
	}
	few := len(paths) / 4
	commands := [][]string{{"report", "--by", "label:version", "--json"}, {"report"}, {"leaks"}, {"locks"}, {"requests"}}
	if processes > 40 {
		commands = append(commands, []string{"html", "-o", filepath.Join(dir, "x.html")})
	}
	for i, args := range commands {
		_, _, least := limited(t, 0, append(args, paths[:few]...)...)
		out, _, most := limited(t, 0, append(args, paths...)...)
		t.Logf("%v: %d MB for %d files, %d MB for %d", args, least>>20, few, most>>20, len(paths))
		if most > 2*least+64<<20 {
			t.Errorf("%v: %d bytes of memory for %d files, %d for %d", args, least, few, most, len(paths))
		}
		if i == 0 {
			want(out)
		}
	}

	whole, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	torn := bytes.Clone(whole)
	for i := range torn[100:200] {
		torn[len(torn)/4+i] ^= 0x55
	}
	bad := []string{
		write("cut.tach", whole[:len(whole)/2]), write("text.tach", []byte("no profile")), write("empty.tach", nil),
		write("folded.folded", []byte("main;f 100\n")), write("torn.tach", torn),
	}
	for _, args := range commands[2:3] {
		out, errs, _ := limited(t, 1, append(append(args, bad...), paths[:16]...)...)
		for _, path := range bad {
			if n := strings.Count(errs, path+": "); n != 1 {
				t.Errorf("%v: %d warnings for %s", args, n, path)
			}
		}
		if !strings.Contains(errs, "5 of 21 files could not be read as a whole") {
			t.Errorf("%v: %s", args, errs)
		}
		if out == "" {
			t.Errorf("%v: no output", args)
		}
	}
	out, errs, _ := limited(t, 1, append([]string{"report", "--by", "label:version", "--json", bad[0], bad[1]}, paths[:16]...)...)
	want(out)
	if strings.Count(errs, "warning: ") != 2 {
		t.Errorf("warnings: %s", errs)
	}
	if _, errs, _ = limited(t, 1, "report", filepath.Join(dir, "missing.tach"), paths[0]); !strings.Contains(errs, "missing.tach: no such file") {
		t.Errorf("a missing file: %s", errs)
	}
	if _, errs, _ = limited(t, 1, "report", bad[0], bad[1]); strings.Count(errs, ".tach: ") != 2 {
		t.Errorf("only damaged files: %s", errs)
	}
}
