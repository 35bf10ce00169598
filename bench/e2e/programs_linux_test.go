package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
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
	"github.com/gotach/profiler/internal/recovery"
	"github.com/gotach/profiler/internal/session"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
)

// The program has many goroutines that set labels. With "stops" it calls Stop after some time.
func init() {
	programs["GOTACH_TEST_LOOP"] = func() {
		session.WrapSink = func(s sampler.Sink) sampler.Sink { return &teller{Sink: s} }
		for i := range 60 {
			go func() {
				for n := i; ; n++ {
					pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("n", strconv.Itoa(n/32))))
					deep(n%100, func() { time.Sleep(time.Millisecond) })
				}
			}()
		}
		s := profiler.Start(profiler.Budget(100), profiler.KeepFiles(1000), profiler.MaxPause(time.Minute))
		if os.Getenv("GOTACH_TEST_LOOP") == "stops" {
			time.Sleep(rand.N(60 * time.Millisecond))
			if err := s.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, "WARN", err)
			}
		}
		for s.Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}
}

// A teller is a sink that prints what the file has got, before and after each batch.
type teller struct {
	sampler.Sink
	passed
}

// passed is what a program has passed on to its file.
type passed struct {
	begun, samples int
	parts          int    // of what is known about goroutines
	last           uint64 // time of the latest sample, µs
}

func (p *passed) add(list []tachyon.Sample) {
	p.samples += len(list)
	for i := range list {
		p.last = max(p.last, list[i].Time)
	}
}

func (p *passed) tell() { fmt.Println(p.begun, p.samples, p.parts, p.last) }

func (t *teller) WriteBatch(list []tachyon.Sample) (int, error) {
	t.begun = t.samples + len(list)
	t.tell()
	n, err := t.Sink.WriteBatch(list)
	t.add(list[:n])
	t.tell()
	return n, err
}

func (t *teller) WriteRecords(r *tachyon.Records) error {
	n, err := len(r.Goroutines), t.Sink.WriteRecords(r)
	t.parts += n
	t.tell()
	return err
}

// killed starts the program, kills it at some time after its start, or after its first sample is in the file, and returns what it has passed on, what it
// has logged, and when it was killed.
func killed(t *testing.T, sampled bool, within time.Duration, env ...string) (cmd *exec.Cmd, p passed, said string, at time.Time) {
	cmd = again(t, env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	told := testenv.Must(cmd.StdoutPipe())
	testenv.OK(t, cmd.Start())
	lines := bufio.NewReader(told)
	for err := error(nil); sampled && p.samples == 0 && err == nil; {
		var line string
		line, err = lines.ReadString('\n')
		p.read(line)
	}
	time.Sleep(rand.N(within))
	at = time.Now()
	_ = cmd.Process.Kill()
	p.readAll(lines)
	_ = cmd.Wait()
	return cmd, p, stderr.String(), at
}

// A program is killed and starts again, many times: at any moment, also before sampling begins, and with rotation during Stop. At most three
// unfinished files and the last one are left, with and without rotation, and all of them can be recovered. The first run is among them. All
// that another run has passed on is in a file, until the log says that this file is deleted.
func TestCrashLoop(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	for _, rotate := range []string{"", "1h"} {
		t.Run("rotation "+rotate, func(t *testing.T) {
			t.Parallel()
			crashLoop(t, rotate)
		})
	}
}

func crashLoop(t *testing.T, rotate string) {
	dir := t.TempDir()
	runs, before := map[int]passed{}, map[int]string{} // by process; before has the files
	var last passed                                    // of the run before
	for n := range testenv.Times(5, 200) {
		how := "GOTACH_TEST_LOOP=goes on"
		if n%4 == 2 && rotate != "" { // without rotation the next run replaces a finished file
			how = "GOTACH_TEST_LOOP=stops"
		}
		cmd, p, said, _ := killed(t, n == 0 || n%3 > 0, 150*time.Millisecond, how, "PROFILE_OUT="+filepath.Join(dir, "app.tach"), "PROFILE_ROTATE="+rotate,
			"PROFILE_SOURCE="+[]string{"auto", "portable"}[n/2%2], "PROFILE_COMPRESSION="+[]string{"zstd", "none"}[n%2], "PROFILE_SYNC="+[]string{"", "20ms"}[n/4%2])
		runs[cmd.Process.Pid] = p
		testenv.FailIf(t, strings.Contains(said, "WARN"), "%s", said)
		testenv.FailIf(t, rotate == "" && last.samples > 0 && p.samples > 0 && !strings.Contains(said, "it is kept"), "the profile of run %d is kept without a word: %s", n-1, said)
		last = p
		now := fileOfRuns(t, dir, runs)
		for pid, p := range runs {
			path, ok := before[pid]
			if now[pid] != "" || p.samples == 0 {
				continue
			}
			delete(runs, pid)
			testenv.FailIf(t, !ok || !slices.Contains(strings.Fields(deletions(said)), path), "rotation %q: %+v of run %d, in %q, is lost without a word: %s", rotate, p, n, path, said)
		}
		before = now
	}
	files := testenv.Must(filepath.Glob(filepath.Join(dir, "*.tach")))
	most, unfinished := 0, 0
	for _, path := range files {
		if r, err := recovery.Finish(path); err != nil {
			t.Error(err)
		} else if !r.Finished {
			unfinished++
		}
		if n := testenv.Count(t, reader.Open, path); strings.HasSuffix(path, "app.1.tach") {
			most = n
		}
	}
	testenv.FailIf(t, most == 0 || unfinished > 5, "rotation %q: the first run is not among %q, or %d of them were unfinished", rotate, files, unfinished)
	fileOfRuns(t, dir, runs) // recovered
	// The others are journals of programs that were killed before they made the file.
	left := testenv.Must(filepath.Glob(filepath.Join(dir, "*")))
	testenv.FailIf(t, len(left) > len(files)+5, "%q is left", left)
}

// read takes what tell has printed, if the line is whole.
func (p *passed) read(line string) {
	var q passed
	if n, _ := fmt.Sscanf(line, "%d %d %d %d\n", &q.begun, &q.samples, &q.parts, &q.last); n == 4 && strings.HasSuffix(line, "\n") {
		*p = q
	}
}

// readAll takes the last whole line of all that a program prints.
func (p *passed) readAll(r *bufio.Reader) {
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		p.read(line)
	}
}

// deletions returns the files that a log says are deleted.
func deletions(log string) string {
	_, list, _ := strings.Cut(log, "are deleted, because there are too many")
	list, _, _ = strings.Cut(list, "\n")
	_, list, _ = strings.Cut(list, "files=")
	return strings.Trim(list, `"[]`)
}

// fileOfRuns returns the file of each run, which must have what the run has passed on, and nothing but the batch that it was passing on.
func fileOfRuns(t *testing.T, dir string, runs map[int]passed) map[int]string {
	files := testenv.Must(filepath.Glob(filepath.Join(dir, "*.tach")))
	of := map[int]string{}
	for _, path := range files {
		r := testenv.Must(reader.Open(path))
		m := testenv.Must(r.Metadata())
		var has passed
		ends := 0 // samples that the reader adds to waits that lasted
		for s := range testenv.All(t, r.Samples()) {
			if has.add([]tachyon.Sample{*s}); m.Session != nil && s.Time == r.Header().Start+uint64(m.Session.Duration.Microseconds()) {
				ends++
			}
		}
		for range testenv.All(t, r.Goroutines()) {
			has.parts++
		}
		present, err := r.VerifyChecksum()
		testenv.FailIf(t, err != nil || !present, "%s has a checksum: %v, %v", path, present, err)
		r.Close()
		if m.Session == nil { // killed before it passed on anything
			continue
		}
		of[m.Session.PID] = path
		p := runs[m.Session.PID]
		testenv.FailIf(t, has.samples < p.samples || has.samples-ends > p.begun || has.parts < p.parts || has.last < p.last, "%s has %+v, and %+v was passed on", path, has, p)
	}
	return of
}

//go:noinline
func deep(n int, f func()) {
	if n == 0 {
		f()
		return
	}
	deep(n-1, f)
}

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
		testenv.OK(t, cmd.Wait())
	}
	var said soaked
	testenv.OK(t, json.Unmarshal(stdout.Bytes(), &said))
	s := stderr.String()
	testenv.FailIf(t, s != "" && !strings.Contains(s, "gotach: sampling with the portable source"), "the program prints: %s", s)
	if night {
		const mb = 1 << 20
		early, late := median(more[:len(more)/2]), median(more[len(more)/2:])
		t.Logf("%d goroutines in %v; memory of the profiler: %.1f MB, then %.1f MB", said.Goroutines, d, float64(early)/mb, float64(late)/mb)
		// A leak of a hundred bytes per goroutine would be ten times this bound after two minutes.
		testenv.FailIf(t, late > early+8*mb || late > 100*mb, "the profiler's memory is %d bytes, then %d", early, late)
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
		present, err := r.VerifyChecksum()
		testenv.FailIf(t, err != nil || !present || unfinished, "%s: a checksum: %v, %v; unfinished: %v", path, present, err, unfinished)
		frames, n := r.Frames(), int64(0)
		for s := range testenv.All(t, r.Samples()) {
			n++
			testenv.StopIf(t, s.Time <= last[s.Thread], "%s: goroutine %d has a sample at %d after one at %d", path, s.Thread, s.Time, last[s.Thread])
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
		testenv.SameList(t, path+": part, and samples twice", []int64{int64(m.Session.Part), m.Session.Samples, int64(r.Header().Samples)}, []int64{int64(i + 1), n, n})
		samples += n
	}
	testenv.FailIf(t, samples != said.Samples || len(requests) == 0 || len(said.Files) < 2, "%d samples in %d files, but the sink took %d", samples, len(said.Files), said.Samples)
	labelled := map[uint64]bool{}
	for _, id := range labels {
		labelled[id] = true
	}
	for id := range requests {
		// The portable source may not see labels.
		testenv.StopIf(t, !created[id] || said.Source == "native" && !labelled[id], "goroutine %d has its creator: %v, and a label: %v", id, created[id], labelled[id])
	}
}
