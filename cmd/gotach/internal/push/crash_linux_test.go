package push

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv/cmp"
	pb "go.opentelemetry.io/proto/otlp/profiles/v1development"

	"github.com/gotach/profiler/internal/testenv"
)

// With this variable the test binary pushes a directory to a URL.
const childEnv = "GOTACH_TEST_PUSH"

func TestMain(m *testing.M) {
	if v := os.Getenv(childEnv); v != "" {
		os.Exit(child(v))
	}
	os.Exit(m.Run())
}

func child(v string) int {
	dir, to, _ := strings.Cut(v, " ")
	target, name, key, err := Open(to, TargetOptions{})
	must(err)
	target.(*otlpTarget).message = 600
	p, err := New(Options{Dir: dir, Target: target, Name: name, Key: key, Once: true, Backoff: time.Millisecond})
	if err == nil {
		err = p.Run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// However often and whenever gotach push is killed, everything arrives, and what comes twice has the same ids.
func TestKilled(t *testing.T) {
	testenv.Long(t)
	dir, r, o := received(t, 0, 0)
	to := r.serve(t, &o)
	var cmd *exec.Cmd
	start := func() {
		cmd = exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+dir+" "+to)
		cmd.Stderr = os.Stderr
		must(cmd.Start())
	}
	repeats := 0
	for i := range testenv.Times(6, 300) {
		p := process{pid: 1 + i, program: "shop", labels: 10}
		for part := range 3 {
			p.file(t, filepath.Join(dir, fmt.Sprintf("p%d.%d.tach", i, part+1)), part+1, true)
		}
		// It is killed at another request each time, whose profiles the receiver has or has not.
		left := i%8 + 1
		started := make(chan bool)
		r.set(func(_ http.ResponseWriter, _ *http.Request, d *pb.ProfilesData) bool {
			if left--; left > 0 {
				return false
			}
			if i%2 == 0 {
				repeats += len(d.ResourceProfiles[0].ScopeProfiles[0].Profiles)
				r.keep(d)
			}
			<-started
			must(cmd.Process.Kill())
			panic(http.ErrAbortHandler)
		})
		start()
		close(started)
		_ = cmd.Wait()
		testenv.Same(t, "the signal", cmd.ProcessState.Sys().(syscall.WaitStatus).Signal(), syscall.SIGKILL)
	}
	r.set(nil)
	start()
	must(cmd.Wait())
	testenv.NoDiff(t, "", cmp.Diff(profiled(t, dir), r.sums()))
	// Other messages of the file at which it was killed come again too: a file has fewer than 40 of two profiles.
	testenv.Within(t, "profiles that came twice", r.repeats, repeats, 2*40*testenv.Times(6, 300))
	requests := r.count()
	start()
	err := cmd.Wait()
	testenv.FailIf(t, err != nil || r.count() != requests, "a further run sends %d requests: %v", r.count()-requests, err)
}
