package push

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

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
	target, name, err := Open(to, TargetOptions{})
	if err != nil {
		panic(err)
	}
	target.(*otlpTarget).message = 600
	p, err := New(Options{Dir: dir, Target: target, Name: name, Once: true, Backoff: time.Millisecond})
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
	dir := t.TempDir()
	r := newReceiver(t)
	run := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+dir+" otlp+"+r.URL)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	kills := testenv.Kills(t)
	killed, between := 0, 0
	for i := range kills {
		p := process{pid: 1 + i, program: "shop", labels: 10}
		for part := range 3 {
			p.file(t, filepath.Join(dir, fmt.Sprintf("p%d.%d.tach", i, part+1)), part+1, true)
		}
		before := r.count()
		cmd := run()
		// The time until the first request is different each time, so the kill is at a random time after one of them.
		requests := int(testenv.Mix(uint64(i)) % 8)
		for end := time.Now().Add(10 * time.Second); r.count() < before+requests && time.Now().Before(end); {
			time.Sleep(50 * time.Microsecond)
		}
		time.Sleep(time.Duration(testenv.Mix(uint64(i)+1e6)%1000) * time.Microsecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
			killed++
			if r.count() > before {
				between++
			}
		}
	}
	if err := run().Wait(); err != nil {
		t.Fatal(err)
	}
	if err := same(profiled(t, dir), r.sums()); err != nil {
		t.Error(err)
	}
	requests, repeats := r.count(), r.repeats
	t.Logf("%d of %d killed, %d of them after a request; %d requests, %d profiles came twice", killed, kills, between, requests, repeats)
	if between < kills/4 {
		t.Errorf("only %d of %d were killed in the middle of their work", between, kills)
	}
	if most := 2 * 40 * kills; repeats > most { // a file has fewer than 40 messages of two profiles
		t.Errorf("%d profiles came twice", repeats)
	}
	if err := run().Wait(); err != nil || r.count() != requests {
		t.Errorf("a further run sends %d requests: %v", r.count()-requests, err)
	}
}

// If the disk with the cursor is full, everything is sent, and the cursor is saved when there is room again. Until
// then, a restart sends files again, with the same ids.
func TestFullDisk(t *testing.T) {
	dir := testenv.Disk(t, "8m")
	fleet(t, dir, 4, 3)
	filler := filepath.Join(dir, "filler")
	fill := func() {
		b := make([]byte, 16<<20)
		if err := os.WriteFile(filler, b, 0o600); !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	fill()
	r := newReceiver(t)
	want := profiled(t, dir)
	log := &testenv.Log{}
	o := r.options(t, dir)
	o.Log = log.Logger()
	for round := range 2 {
		if err := push(t, o); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("round %d: %v", round, err)
		}
		if err := same(want, r.sums()); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
	}
	if n := r.count(); n != 24 || r.repeats != 24 {
		t.Errorf("%d requests, %d repeats", n, r.repeats)
	}
	if n := strings.Count(strings.Join(log.Lines(), "\n"), "the cursor cannot be saved"); n != 2 {
		t.Errorf("%d warnings:\n%s", n, strings.Join(log.Lines(), "\n"))
	}
	// Room comes while files are being sent: then all that was sent before is saved too.
	before := r.count()
	r.fault = func(http.ResponseWriter, *http.Request, *pb.ProfilesData) bool {
		if r.count() == before+6 {
			remove(t, filler)
		}
		return false
	}
	if err := push(t, o); err != nil {
		t.Error(err)
	}
	n := r.count()
	if err := push(t, o); err != nil || r.count() != n {
		t.Errorf("%v; %d files were sent again although there was room", err, r.count()-n)
	}
	if err := same(want, r.sums()); err != nil {
		t.Error(err)
	}
}
