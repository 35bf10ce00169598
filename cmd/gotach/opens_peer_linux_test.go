//go:build peers

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// TestPeerOpens: commands open nothing that a file names, neither as a source file nor as an executable, but what the user named.
func TestPeerOpens(t *testing.T) {
	strace := testenv.Command(t, "strace", "apt-get install strace")
	dir := t.TempDir()
	secret, path := filepath.Join(dir, "secret"), filepath.Join(dir, "x.tach")
	must(os.Mkdir(secret, 0o700))
	named := func(name string) string {
		must(os.WriteFile(filepath.Join(secret, name), []byte("one\ntwo\nthree\n"), 0o600))
		return filepath.Join(secret, name)
	}
	writeFixture(path, func(f *fixture, _ []string) {
		frames := []tachyon.Frame{own("main.go", "main", 9)}
		for _, name := range []string{"id_rsa", "wp-config.php", "a.py", "b.c", "c.pl", "d.go"} {
			frames = append(frames, tachyon.Frame{File: named(name), Func: "main." + name, Line: 2}, tachyon.Frame{File: dir + "/none/../secret/" + name, Func: "main.up", Line: 2})
		}
		for i := range frames {
			f.add(uint64(i), 1, onCPU, frames[i:]...)
			f.add(uint64(i), 2, onCPU, frames[i:]...)
			f.goroutine(uint64(i), frames[i].Func, frames[i].File+":2")
		}
		f.session = tachyon.Session{Program: named("program"), Executable: named("executable"), BuildID: "x", GOOS: "linux", Source: "native"}
		must(f.w.AddMetadata(tachyon.KindPCs, tachyon.LeafPCs{TextStart: 1, TextSize: 99, PCs: []tachyon.LeafPC{{Addr: 2, CPU: 1, Wall: 1}}}))
	})
	log := filepath.Join(dir, "log")
	cmd := testCommand(t, "hostile")
	cmd.Args = append([]string{strace, "-f", "-qq", "-o", log, "-e", "trace=open,openat,openat2,stat,newfstatat,statx,readlink,readlinkat,execve", cmd.Path}, cmd.Args[1:]...)
	cmd.Path, cmd.Stdin = strace, strings.NewReader(path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(testenv.Must(os.ReadFile(log)))) {
		if opened := regexp.MustCompile(`open[^"]*"([^"]*secret[^"]*)"`).FindString(line); opened != "" {
			t.Errorf("%s", strings.TrimSpace(line))
		}
	}
}
