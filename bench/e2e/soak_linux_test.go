package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
)

// soaked is a program's report at its end.
type soaked struct {
	Goroutines uint64 // number of goroutines that it started
	Samples    int64  // number of samples that the sink took
	Files      []string
	Source     string
}

func init() { programs["GOTACH_TEST_SOAK"] = runSoak }

// runSoak is a program that starts a million goroutines a minute and makes garbage, for some time and until there are two files. Each
// goroutine lives for 20 ms and has a label of its own, as in a server that labels requests with random ids.
func runSoak() {
	d := testenv.Must(time.ParseDuration(os.Getenv("GOTACH_TEST_SOAK")))
	var s *profiler.Session
	if os.Getenv("PROFILE_OUT") != "" {
		s = testenv.Must(profiler.Open(profiler.Budget(10), profiler.RotateBytes(1<<20), profiler.Compression(profiler.Uncompressed), profiler.KeepFiles(1e6), profiler.KeepBytes(1<<40)))
	}
	var out soaked
	room := make(chan []byte, 2000) // bounds the living goroutines on a slow machine
	for begin := time.Now(); time.Since(begin) < d || s != nil && s.Err() == nil && len(s.Files()) < 2; time.Sleep(2 * time.Millisecond) {
		for due := uint64(time.Since(begin).Seconds() * 1_000_000 / 60); out.Goroutines < due; out.Goroutines++ {
			room <- make([]byte, 4096)
			go request(out.Goroutines, room)
		}
	}
	for range cap(room) {
		room <- nil
	}
	testenv.Must(0, s.Stop())
	if s != nil {
		out.Samples, out.Files, out.Source = s.Stats().Samples, s.Files(), s.Stats().Source
	}
	testenv.Must(os.Stdout.Write(testenv.Must(json.Marshal(out))))
}

func request(n uint64, room chan []byte) {
	defer func() { <-room }()
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("request", strconv.FormatUint(testenv.Mix(n), 36))))
	deep(int(testenv.Mix(n)%30), func() {})
	time.Sleep(20 * time.Millisecond)
}

// TestSoak runs the program for half a second, or for ten minutes in the night. Each file must be finished and have the right number of
// samples. No sample may be missing or double at the end of a file, and creator and label of every goroutine must be there. In the night it
// runs the program without the profiler beside it, and the profiler's memory, which is the difference, must be at most 100 MB and must not
// grow after the first minutes.
func TestSoak(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	d := testenv.Times(time.Second/2, 10*time.Minute)
	night := d > time.Minute
	var stdout, stderr bytes.Buffer
	var cmds []*exec.Cmd // with the profiler, and without
	for _, path := range []string{filepath.Join(t.TempDir(), "x.tach"), ""}[:testenv.Times(1, 2)] {
		cmd := again(t, "GOTACH_TEST_SOAK="+d.String(), "PROFILE_SOURCE=auto", "PROFILE_OUT="+path)
		if path != "" {
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
		}
		testenv.OK(t, cmd.Start())
		defer cmd.Process.Kill()
		cmds = append(cmds, cmd)
	}
	var more []int64 // additional memory, in the last two thirds of the time
	for begin := time.Now(); night && time.Since(begin) < d-time.Second; time.Sleep(d / 600) {
		if of, without := rss(cmds[0].Process.Pid), rss(cmds[1].Process.Pid); time.Since(begin) > d/3 {
			more = append(more, of-without)
		}
	}
	for _, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v: %s", err, &stderr)
		}
	}
	var said soaked
	testenv.OK(t, json.Unmarshal(stdout.Bytes(), &said))
	if s := stderr.String(); s != "" && !strings.Contains(s, "gotach: sampling with the portable source") {
		t.Errorf("the program prints: %s", s)
	}
	if night {
		const mb = 1 << 20
		early, late := median(more[:len(more)/2]), median(more[len(more)/2:])
		t.Logf("%d goroutines in %v; memory of the profiler: %.1f MB, then %.1f MB", said.Goroutines, d, float64(early)/mb, float64(late)/mb)
		// A leak of a hundred bytes per goroutine would be ten times this bound after two minutes.
		if late > early+8*mb || late > 100*mb {
			t.Errorf("the profiler's memory is %d bytes, then %d", early, late)
		}
	}
	checkParts(t, &said)
}

// rss returns the resident memory of a process in bytes.
func rss(pid int) int64 {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if f := strings.Fields(string(b)); len(f) > 1 {
		n, _ := strconv.ParseInt(f[1], 10, 64)
		return n * int64(os.Getpagesize())
	}
	return 0
}

func median(list []int64) int64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// checkParts checks the files of a session in their order.
func checkParts(t *testing.T, said *soaked) {
	var samples int64
	last := map[uint64]uint64{}   // time of the latest sample, by goroutine
	requests := map[uint64]bool{} // goroutines that had a sample in their sleep
	created := map[uint64]bool{}  // goroutines with the right creator
	labels := map[string]uint64{} // the goroutine that has it
	for i, path := range said.Files {
		r := testenv.Must(reader.Open(path))
		defer r.Close()
		m, unfinished := metadata(t, path)
		if present, err := r.VerifyChecksum(); err != nil || !present || unfinished {
			t.Errorf("%s: a checksum: %v, %v; unfinished: %v", path, present, err, unfinished)
		}
		frames, n := r.Frames(), int64(0)
		for s := range testenv.All(t, r.Samples()) {
			n++
			if s.Time <= last[s.Thread] {
				t.Fatalf("%s: goroutine %d has a sample at %d after one at %d", path, s.Thread, s.Time, last[s.Thread])
			}
			last[s.Thread] = s.Time
			if d := len(s.Stack); d > 1 && strings.HasSuffix(frames[s.Stack[d-1]].Func, "e2e.request") && strings.HasPrefix(frames[s.Stack[0]].Func, "[sleep]") {
				requests[s.Thread] = true
			}
		}
		for g := range testenv.All(t, r.Goroutines()) {
			created[g.ID] = created[g.ID] || strings.HasSuffix(g.CreatedBy, "e2e.runSoak")
			for _, l := range g.Labels {
				labels[l.Labels["request"]] = g.ID
			}
		}
		if m.Session.Part != i+1 || m.Session.Samples != n || int64(r.Header().Samples) != n {
			t.Errorf("%s: part %d has %d samples, its metadata count %d", path, m.Session.Part, n, m.Session.Samples)
		}
		samples += n
	}
	if samples != said.Samples || len(requests) == 0 || len(said.Files) < 2 {
		t.Errorf("%d samples in %d files, but the sink took %d", samples, len(said.Files), said.Samples)
	}
	labelled := map[uint64]bool{}
	for _, id := range labels {
		labelled[id] = true
	}
	for id := range requests {
		// The portable source may not see labels.
		if !created[id] || said.Source == "native" && !labelled[id] {
			t.Fatalf("goroutine %d has its creator: %v, and a label: %v", id, created[id], labelled[id])
		}
	}
}
