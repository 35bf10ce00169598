package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/testenv"
)

// The command with at most 32 open files is one of the programs of TestMain.
func init() {
	programs["fewfiles"] = func() {
		must(unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 32, Max: 32}))
		main()
	}
}

// TestManyProcesses reads the files of many processes with few open files, and in spite of files that are damaged or of another
// kind, of which it warns.
func TestManyProcesses(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	add := func(name string, b []byte) {
		paths = append(paths, filepath.Join(dir, name))
		must(os.WriteFile(paths[len(paths)-1], b, 0o644))
	}
	writeFixture(filepath.Join(dir, "whole"), leaky)
	whole := testenv.Must(os.ReadFile(filepath.Join(dir, "whole")))
	torn := bytes.Clone(whole)
	for i := range torn[100:200] {
		torn[len(torn)/4+i] ^= 0x55
	}
	add("cut.tach", whole[:len(whole)/2])
	add("text.tach", []byte("no profile"))
	add("empty.tach", nil)
	add("folded.folded", []byte("main;f 100\n"))
	add("torn.tach", torn)
	bad := len(paths)
	for n := range 40 {
		add(fmt.Sprintf("app-%d.tach", n), whole)
	}
	cmd := testCommand(t, "fewfiles", append([]string{"leaks"}, paths...)...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(out.String(), " and 40 more: ") {
		t.Errorf("exit code %d, want 1, and what the files have that are whole\n%s", code, &out)
	}
	for _, path := range paths[:bad] {
		testenv.Same(t, "warnings for "+path, strings.Count(errs.String(), path+": "), 1)
	}
	if !strings.Contains(errs.String(), "5 of 45 files could not be read as a whole") {
		t.Error(errs.String())
	}
}
