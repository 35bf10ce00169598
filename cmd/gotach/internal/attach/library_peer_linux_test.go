//go:build peers && (amd64 || arm64)

package attach

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// A library of Go in a program of C says of itself what is read of it, and so does a plugin, also one that is loaded after the program was opened.
func TestPeerLibraries(t *testing.T) {
	gcc := testenv.Command(t, "gcc", "apt-get install gcc")
	for _, mode := range []string{"c-shared", "c-archive", "plugin"} {
		t.Run(mode, func(t *testing.T) {
			dir := t.TempDir()
			library, loader := filepath.Join(dir, "library"), filepath.Join(dir, "loader")
			testenv.OK(t, testenv.Build(library, "./testdata/library", nil, "-buildmode="+mode, "-ldflags=-s -w"))
			var x *target
			if mode == "plugin" {
				testenv.OK(t, testenv.Build(loader, "./testdata/loader", nil, "-ldflags=-s -w"))
				x = launch(t, nil, loader, library)
				testenv.Must(x.out.ReadString('\n'))
				p := testenv.Must(Open(x.pid))
				testenv.Must(fmt.Fprintln(x.in))
				compareBy(t, p, x.waits(t))
			} else {
				args := []string{"-o", loader, "testdata/c/loader.c", "-ldl"}
				if mode == "c-archive" {
					args = append(args, "-DRUN", library, "-lpthread", "-s")
				}
				if out, err := exec.Command(gcc, args...).CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				x = start(t, loader, library)
			}
			compare(t, x)
			r, f := record(t, x, 50, func(stop func()) { stop() })
			src, deep := samples(f), map[uint64]bool{}
			for s := range testenv.All(t, src.Samples()) {
				for _, id := range src.AppendStack(nil, s.Stack) {
					deep[s.Goroutine] = deep[s.Goroutine] || strings.HasSuffix(src.Frames()[id].Func, ".deep")
				}
			}
			n := 0
			for _, yes := range deep {
				if yes {
					n++
				}
			}
			if n != 40 || r.Torn > 0 {
				t.Errorf("%d goroutines of 40, %d torn", n, r.Torn)
			}
		})
	}
}
