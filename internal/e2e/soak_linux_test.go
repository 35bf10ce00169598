package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/reader"
)

// soaked is a program's report at its end.
type soaked struct {
	Goroutines uint64        // number of goroutines that it started
	Samples    int64         // number of samples that the sink took
	Stop       time.Duration // time that Stop took
	Files      []string
}

func init() { programs["GOTACH_TEST_SOAK"] = runSoak }

// runSoak is a program that starts a million goroutines a minute and makes garbage.
func runSoak() {
	d, err := time.ParseDuration(os.Getenv("GOTACH_TEST_SOAK"))
	if err != nil {
		panic(err)
	}
	var s *profiler.Session
	if os.Getenv("PROFILE_OUT") != "" {
		s, err = profiler.Open(profiler.Budget(10), profiler.RotateEvery(max(time.Second, d/12)), profiler.KeepFiles(1000), profiler.KeepBytes(1<<40))
		if err != nil {
			panic(err)
		}
	}
	const perSecond = 1_000_000 / 60
	var out soaked
	var garbage atomic.Pointer[[]byte]
	room := make(chan struct{}, 2000) // bounds the living goroutines on a slow machine
	for begin := time.Now(); time.Since(begin) < d; time.Sleep(2 * time.Millisecond) {
		due := uint64(time.Since(begin).Seconds() * perSecond)
		for ; out.Goroutines < due; out.Goroutines++ {
			n := out.Goroutines
			room <- struct{}{}
			go func() {
				defer func() { <-room }()
				if n%64 == 0 {
					pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("n", strconv.FormatUint(n, 10))))
				}
				b := make([]byte, 4096)
				garbage.Store(&b)
				left(int(n%30), testenv.Mix(n))
			}()
		}
	}
	for range cap(room) {
		room <- struct{}{}
	}
	stopping := time.Now()
	if err := s.Stop(); err != nil {
		panic(err)
	}
	out.Stop = time.Since(stopping)
	if s != nil {
		out.Samples, out.Files = s.Stats().Samples, s.Files()
	}
	_ = json.NewEncoder(os.Stdout).Encode(out)
}

// rss returns the resident memory of a process in bytes.
func rss(pid int) int64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if f := strings.Fields(string(b)); len(f) > 1 {
		n, _ := strconv.ParseInt(f[1], 10, 64)
		return n * int64(os.Getpagesize())
	}
	return 0
}

// TestSoak runs a program for long, with short-lived goroutines and a profile in several files. The
// profiler's memory must not grow; it is the difference to the same program without the profiler. Each file
// must be finished and have the right number of samples. No sample may be missing or double at the end of
// a file.
//
// GOTACH_SOAK sets the time. The memory is compared only after the first minute, when it has reached its
// final size.
func TestSoak(t *testing.T) {
	d := 5 * time.Second
	if v := os.Getenv("GOTACH_SOAK"); v != "" {
		var err error
		if d, err = time.ParseDuration(v); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(t.TempDir(), "x.tach")
	var cmds [2]*exec.Cmd // without and with the profiler
	var stdout, stderr [2]bytes.Buffer
	for i, path := range []string{"", out} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "GOTACH_TEST_SOAK="+d.String(), "PROFILE_SOURCE=auto", "PROFILE_OUT="+path, "GOCOVERDIR="+t.TempDir())
		cmd.Stdout, cmd.Stderr = &stdout[i], &stderr[i]
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Process.Kill()
		cmds[i] = cmd
	}
	var more []int64 // additional memory of the profiled program, in the last two thirds of the time
	begin := time.Now()
	for now := begin; now.Sub(begin) < d-time.Second; now = time.Now() {
		if plain, profiled := rss(cmds[0].Process.Pid), rss(cmds[1].Process.Pid); now.Sub(begin) > d/3 {
			more = append(more, profiled-plain)
		}
		time.Sleep(d / 600)
	}
	var said [2]soaked
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v: %s", err, &stderr[i])
		}
		if err := json.Unmarshal(stdout[i].Bytes(), &said[i]); err != nil {
			t.Fatalf("%v: %q", err, &stdout[i])
		}
	}
	if s := stderr[1].String(); s != "" && !strings.Contains(s, "gotach: sampling with the portable source") {
		t.Errorf("the program prints: %s", s)
	}

	const mb = 1 << 20
	half := len(more) / 2
	early, late := median(more[:half]), median(more[half:])
	t.Logf("%d goroutines in %v; memory of the profiler: %.1f MB, then %.1f MB; Stop took %v", said[1].Goroutines, d, float64(early)/mb, float64(late)/mb, said[1].Stop)
	// A leak of a hundred bytes per goroutine would be ten times this bound after two minutes.
	if d >= time.Minute && late > early+8*mb {
		t.Errorf("the profiler's memory grew by %.1f MB", float64(late-early)/mb)
	}
	checkParts(t, &said[1])
}

func median(list []int64) int64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// checkParts checks the files of a session in their order.
func checkParts(t *testing.T, said *soaked) {
	var samples, dropped, missed int64
	last := map[uint64]uint64{} // time of the latest sample, by goroutine
	for i, path := range said.Files {
		r, err := reader.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		m, err := r.Metadata()
		if err != nil || m.Session == nil {
			t.Fatalf("%s: %+v, %v", path, m, err)
		}
		if present, err := r.VerifyChecksum(); err != nil || !present || r.Unfinished() {
			t.Errorf("%s: a checksum: %v, %v; unfinished: %v", path, present, err, r.Unfinished())
		}
		n := int64(0)
		for s, err := range r.Samples() {
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			n++
			if s.Time <= last[s.Thread] {
				t.Fatalf("%s: goroutine %d has a sample at %d after one at %d", path, s.Thread, s.Time, last[s.Thread])
			}
			last[s.Thread] = s.Time
		}
		if m.Session.Part != i+1 || m.Session.Samples != n || int64(r.Header().Samples) != n {
			t.Errorf("%s: part %d has %d samples, its metadata count %d", path, m.Session.Part, n, m.Session.Samples)
		}
		samples += n
		dropped += m.Session.Dropped
		missed += m.Session.TicksAsked - m.Session.TicksReached
	}
	t.Logf("%d files, %d samples; by the metadata %d samples were dropped and %d ticks missed", len(said.Files), samples, dropped, missed)
	if samples != said.Samples || samples == 0 || len(said.Files) < 3 {
		t.Errorf("%d samples in %d files, but the sink took %d", samples, len(said.Files), said.Samples)
	}
}
