//go:build peers

package pprof

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// go tool pprof, which is what users have, sees what we mean, and we read what it writes.
func TestPeerGoToolPProf(t *testing.T) {
	p := sample()
	p.Metadata = &tachyon.Metadata{Session: &tachyon.Session{BuildID: "the-build-id", Executable: "/opt/prog"}}
	path := filepath.Join(t.TempDir(), "x.pb.gz")
	f := testenv.Must(os.Create(path))
	testenv.OK(t, Write(f, p))
	testenv.OK(t, f.Close())
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("go", append([]string{"tool", "pprof"}, args...)...)
		cmd.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir())
		return testenv.Run(t, cmd)
	}
	for _, c := range []struct {
		args, want []string
	}{
		{[]string{"-top", path}, []string{
			"File: prog", "Build ID: the-build-id", "Type: wall", "Duration: 3s, Total samples = 721ms",
			"700ms 97.09% 97.09% 700ms 97.09% [sleep]", "21ms 2.91% 100% 721ms 100% main.sleeper",
		}},
		{[]string{"-top", "-sample_index=cpu", path}, []string{"Type: cpu", "Total samples = 20ms", "main.sleeper"}},
		{[]string{"-top", "-sample_index=samples", path}, []string{"Type: samples", "Total samples = 10"}},
		{[]string{"-tags", path}, []string{"goroutine: Total", "state: Total", "sleep", "label.state: Total", "mine", "user: Total"}},
		{[]string{"-raw", path}, []string{
			"samples/count wall/nanoseconds[dflt] cpu/nanoseconds", "state:[sleep]", "goroutine:[1 id]", "/opt/prog", "main.go:12:0 s=10",
		}},
	} {
		testenv.Has(t, fmt.Sprint(c.args[:len(c.args)-1]), strings.Join(strings.Fields(run(c.args...)), " "), c.want...)
	}
	out := filepath.Join(t.TempDir(), "y.pb.gz")
	run("-proto", "-output="+out, path)
	got := testenv.Must(Read(testenv.Closes(t, testenv.Must(os.Open(out)))))
	got.Start, p.Metadata, got.Program = got.Start.UTC(), nil, p.Program // the executable's path stands for the program
	equal(t, got, p)
}
