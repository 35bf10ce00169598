package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// With --children, the Go programs that a command starts have files of their own, also if the command is a script.
func TestRecordChildren(t *testing.T) {
	testenv.Long(t)
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		testenv.Skip(t, "programs of "+runtime.GOARCH+" are not read")
	}
	app := filepath.Join(t.TempDir(), "app")
	must(testenv.Build(app, "./testdata/children", nil))
	for _, c := range []struct {
		command []string
		first   int // files of the command itself
		others  int
	}{
		{[]string{app}, 1, 2},
		{[]string{"sh", "-c", `"$0"; exit 7`, app}, 0, 3},
		{[]string{"sh", "-c", `exec "$0"`, app}, 1, 2},
	} {
		dir := t.TempDir()
		cmd := testCommand(t, "gotach", append([]string{"record", "--children", "-o", filepath.Join(dir, "x.tach"), "--"}, c.command...)...)
		in := testenv.Must(cmd.StdinPipe())
		var said bytes.Buffer
		cmd.Stderr = &said
		must(cmd.Start())
		found := func(pattern string) []string { return testenv.Must(filepath.Glob(filepath.Join(dir, pattern))) }
		testenv.Await(func() bool { return len(found("x-app-*.tach")) == c.others && len(found("x.tach")) == c.first })
		must(in.Close())
		err := cmd.Wait()
		testenv.Same(t, []any{"exit code of", c.command, err, &said}, cmd.ProcessState.ExitCode(), 7*(1-c.first))
		pids := map[string]bool{}
		for _, path := range append(found("x.tach"), found("x-app-*.tach")...) {
			out, _, _ := ran("info", path)
			m := regexp.MustCompile(`process +(\d+) on`).FindStringSubmatch(out)
			if m == nil || strings.Contains(path, "x-app-") && !strings.Contains(path, "x-app-"+m[1]+".tach") || strings.Contains(out, "not stopped") {
				t.Errorf("%s:\n%s", path, out)
				continue
			}
			pids[m[1]] = true
			if !strings.Contains(said.String(), filepath.Base(path)+": ") {
				t.Errorf("nothing is said of %s:\n%s", path, &said)
			}
		}
		if len(pids) != c.first+c.others || strings.Contains(said.String(), "no whole profile") {
			t.Errorf("%v: files of the processes %v\n%s", c.command, pids, &said)
		}
		testenv.Same(t, "files", len(testenv.Must(os.ReadDir(dir))), len(pids))
	}
}
