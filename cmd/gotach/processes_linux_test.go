package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// The command with at most 32 open files is one of the programs of TestMain.
func init() {
	programs["fewfiles"] = func() {
		must(unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 32, Max: 32}))
		main()
	}
}

// limited runs gotach with few open files.
func limited(t *testing.T, wantCode int, args ...string) (stdout, stderr string) {
	t.Helper()
	cmd := testCommand(t, "fewfiles", args...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != wantCode {
		t.Fatalf("gotach %v: exit code %d, want %d\n%s", args[0], code, wantCode, errs.String())
	}
	return out.String(), errs.String()
}

// TestManyProcesses reads the files of many processes with few open files, and in spite of files that are damaged or of another
// kind, of which it warns.
func TestManyProcesses(t *testing.T) {
	testenv.Long(t)
	dir := t.TempDir()
	var paths []string
	for n := range 20 { // the processes of one host in two have the version v2
		b := newBigSession()
		b.process = tachyon.Session{
			Program: "app", Host: fmt.Sprintf("web-%d", n/2), PID: 100 + n%2, Service: "shop", ServiceVersion: []string{"v1", "v2"}[n/2%2], GoVersion: "go1.26.0",
		}
		for part := range 2 {
			path := filepath.Join(dir, fmt.Sprintf("app-%d.%d.tach", n, part+1))
			b.file(path, part+1, 1, 5)
			paths = append(paths, path)
		}
	}
	whole := testenv.Must(os.ReadFile(paths[0]))
	torn := bytes.Clone(whole)
	for i := range torn[100:200] {
		torn[len(torn)/4+i] ^= 0x55
	}
	var bad []string
	for name, b := range map[string][]byte{
		"cut.tach": whole[:len(whole)/2], "text.tach": []byte("no profile"), "empty.tach": nil, "folded.folded": []byte("main;f 100\n"), "torn.tach": torn,
	} {
		bad = append(bad, filepath.Join(dir, name))
		must(os.WriteFile(bad[len(bad)-1], b, 0o644))
	}
	out, errs := limited(t, 1, append(append([]string{"leaks"}, bad...), paths...)...)
	if out == "" {
		t.Error("no leaks of the files that are whole")
	}
	for _, path := range bad {
		if n := strings.Count(errs, path+": "); n != 1 {
			t.Errorf("%d warnings for %s", n, path)
		}
	}
	if !strings.Contains(errs, "5 of 45 files could not be read as a whole") {
		t.Error(errs)
	}
	out, errs = limited(t, 1, append([]string{"report", "--by", "label:version", "--json", filepath.Join(dir, "cut.tach"), filepath.Join(dir, "text.tach")}, paths...)...)
	var got struct {
		Rows []struct {
			Name string
			Self int64 `json:"self_ns"`
		}
	}
	must(json.Unmarshal([]byte(out), &got))
	if len(got.Rows) != 2 || got.Rows[0].Self != got.Rows[1].Self || got.Rows[0].Name == got.Rows[1].Name {
		t.Errorf("rows of two versions that do the same: %+v\n%s", got.Rows, errs)
	}
}
