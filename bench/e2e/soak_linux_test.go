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

// soakRates says how many goroutines a second the programs start: a million a minute, or fewer that live for 20 ms.
var soakRates = map[string]float64{"many files": 1_000_000 / 60, "one file": 5000}

// runSoak is a program that starts many goroutines and makes garbage, for some time and until there are enough files or samples. Each
// goroutine has a label of its own, as in a server that labels requests with random ids.
func runSoak() {
	name, duration, _ := strings.Cut(os.Getenv("GOTACH_TEST_SOAK"), "|")
	d, err := time.ParseDuration(duration)
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	check(err)
	rotates := name == "many files"
	var s *profiler.Session
	if os.Getenv("PROFILE_OUT") != "" {
		options := []profiler.Option{profiler.Budget(10)}
		if rotates {
			options = append(options, profiler.RotateBytes(1<<20), profiler.Compression(profiler.Uncompressed), profiler.KeepFiles(1e6), profiler.KeepBytes(1<<40))
		}
		s, err = profiler.Open(options...)
		check(err)
	}
	enough := func() bool {
		return s == nil || s.Err() != nil || rotates && len(s.Files()) > 1 || !rotates && s.Stats().Samples > 1000
	}
	var out soaked
	room := make(chan []byte, 2000) // bounds the living goroutines on a slow machine
	for begin := time.Now(); time.Since(begin) < d || !enough(); time.Sleep(2 * time.Millisecond) {
		for due := uint64(time.Since(begin).Seconds() * soakRates[name]); out.Goroutines < due; out.Goroutines++ {
			room <- make([]byte, 4096)
			go request(out.Goroutines, !rotates, room)
		}
	}
	for range cap(room) {
		room <- nil
	}
	check(s.Stop())
	if s != nil {
		out.Samples, out.Files, out.Source = s.Stats().Samples, s.Files(), s.Stats().Source
	}
	check(json.NewEncoder(os.Stdout).Encode(out))
}

func request(n uint64, sleeps bool, room chan []byte) {
	defer func() { <-room }()
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("request", strconv.FormatUint(testenv.Mix(n), 36))))
	left(int(n%30), testenv.Mix(n))
	if sleeps {
		time.Sleep(20 * time.Millisecond)
	}
}

// soak runs the program for half a second, or for ten minutes in the night. Then it runs the program without the profiler beside it, and the
// profiler's memory, which is the difference, must be at most so many MB and must not grow after the first minutes.
func soak(t *testing.T, name string, mostMB int64) (said soaked) {
	d := testenv.Times(time.Second/2, 10*time.Minute)
	night := d > time.Minute
	var stdout, stderr bytes.Buffer
	var cmds []*exec.Cmd // with the profiler, and without
	for _, path := range []string{filepath.Join(t.TempDir(), "x.tach"), ""}[:testenv.Times(1, 2)] {
		cmd := again(t, fmt.Sprintf("GOTACH_TEST_SOAK=%s|%v", name, d), "PROFILE_SOURCE=auto", "PROFILE_OUT="+path)
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
	if err := json.Unmarshal(stdout.Bytes(), &said); err != nil {
		t.Fatalf("%v: %q", err, &stdout)
	}
	if s := stderr.String(); s != "" && !strings.Contains(s, "gotach: sampling with the portable source") {
		t.Errorf("the program prints: %s", s)
	}
	if night {
		const mb = 1 << 20
		early, late := median(more[:len(more)/2]), median(more[len(more)/2:])
		t.Logf("%d goroutines in %v; memory of the profiler: %.1f MB, then %.1f MB", said.Goroutines, d, float64(early)/mb, float64(late)/mb)
		// A leak of a hundred bytes per goroutine would be ten times this bound after two minutes.
		if late > early+8*mb || late > mostMB*mb {
			t.Errorf("the profiler's memory is %d bytes, then %d", early, late)
		}
	}
	return said
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

func median(list []int64) int64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// TestSoak runs a program with many short-lived goroutines and a profile in several files. Each file must be finished and have
// the right number of samples. No sample may be missing or double at the end of a file.
func TestSoak(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	said := soak(t, "many files", 100)
	checkParts(t, &said)
}

// TestChurn runs a program that starts 5,000 goroutines a second, each with a unique label. The file must
// have creator and label of every goroutine in it.
func TestChurn(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	said := soak(t, "one file", 40)
	r := testenv.Must(reader.Open(said.Files[0]))
	defer r.Close()
	is := make([]bool, len(r.Frames())) // frames of request after it has set its label
	for i, f := range r.Frames() {
		is[i] = strings.HasSuffix(f.Func, "e2e.request")
	}
	sampled := map[uint64]bool{} // goroutines that had a sample in their last sleep
	for s, err := range r.Samples() {
		testenv.OK(t, err)
		if n := len(s.Stack); n > 1 && s.Stack[n-1] < uint32(len(is)) && is[s.Stack[n-1]] && strings.HasPrefix(r.Frames()[s.Stack[0]].Func, "[sleep]") {
			sampled[s.Thread] = true
		}
	}
	creators, labels := map[uint64]bool{}, map[string]bool{}
	for g, err := range r.Goroutines() {
		testenv.OK(t, err)
		if !sampled[g.ID] {
			continue
		}
		if strings.HasSuffix(g.CreatedBy, "e2e.runSoak") {
			creators[g.ID] = true
		}
		for _, l := range g.Labels {
			if v := l.Labels["request"]; v != "" {
				labels[v] = true
			}
		}
	}
	if len(sampled) == 0 || len(creators) != len(sampled) {
		t.Errorf("%d of %d goroutines have their creator", len(creators), len(sampled))
	}
	// The portable source may not see labels.
	if said.Source == "native" && len(labels) != len(sampled) {
		t.Errorf("%d goroutines have %d labels", len(sampled), len(labels))
	}
}

// checkParts checks the files of a session in their order.
func checkParts(t *testing.T, said *soaked) {
	var samples, dropped, missed int64
	last := map[uint64]uint64{} // time of the latest sample, by goroutine
	for i, path := range said.Files {
		r := testenv.Must(reader.Open(path))
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
	if samples != said.Samples || samples == 0 || len(said.Files) < 2 {
		t.Errorf("%d samples in %d files, but the sink took %d", samples, len(said.Files), said.Samples)
	}
}
