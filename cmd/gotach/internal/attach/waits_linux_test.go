//go:build amd64 || arm64

package attach

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/testenv"
)

// A recording from outside and the program's own profile of the same time have the same locks, channels and groups in the same order, with
// the same names.
func TestWaits(t *testing.T) {
	for _, mode := range []string{"-buildmode=exe", "-buildmode=pie"}[:testenv.Brief(1, 2)] {
		x, out, inside, end := profiled(t, "waits", mode)
		outside := filepath.Join(t.TempDir(), "outside.tach")
		out.Scan()
		recordTo(t, x, outside, 1000, func(stop func()) { stop() })
		end()
		got, want := objectsIn(t, outside), objectsIn(t, inside)
		if !slices.Equal(got, want) || len(want) != 9 {
			t.Errorf("%s, from outside:\n%s\nfrom inside:\n%s", mode, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// profiled starts a program of testdata, which profiles itself to the file inside until end is called. out has the lines that it prints.
func profiled(t *testing.T, name string, flags ...string) (x *target, out *bufio.Scanner, inside string, end func()) {
	notEmulated(t)
	dir := t.TempDir()
	program, inside := filepath.Join(dir, name), filepath.Join(dir, "inside.tach")
	testenv.OK(t, testenv.Build(program, "./testdata/"+name, nil, flags...))
	cmd := exec.Command(program, inside)
	cmd.Stderr = os.Stderr
	in, lines := testenv.Must(cmd.StdinPipe()), testenv.Must(cmd.StdoutPipe())
	testenv.OK(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return &target{pid: cmd.Process.Pid}, bufio.NewScanner(lines), inside, func() {
		testenv.OK(t, in.Close())
		testenv.OK(t, cmd.Wait())
	}
}

// objectsIn returns what the program's goroutines waited for in a profile, the most waited time first.
func objectsIn(t *testing.T, path string) (list []string) {
	src, _ := withObjects(t, path)
	for _, l := range testenv.Must(locks.Find(analyze.NewSamples(path, src), locks.Options{})).Locks {
		if at := strings.TrimPrefix(l.Sites[0].Func, "main."); l.Object != 0 && slices.Contains([]string{"globally", "(*account).pay", "read", "condition", "group", "feed", "choose", "receive", "send"}, at) {
			name, _, _ := strings.Cut(l.Name, " of ") // the numbers of a select's channels differ
			if key := l.Kind + " " + name + " in " + at; !slices.Contains(list, key) {
				list = append(list, key)
			}
		}
	}
	return list
}
