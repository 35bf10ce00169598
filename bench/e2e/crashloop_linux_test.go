package e2e

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
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

func init() {
	programs["GOTACH_TEST_LOOP"] = func() {
		session.WrapSink = func(s sampler.Sink) sampler.Sink { return &teller{Sink: s} }
		s := profiler.Start(profiler.Source(profiler.Portable), profiler.Budget(100))
		for s.Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}
}

// A teller is a sink that prints how many samples the file has got, and the time of the latest one.
type teller struct {
	sampler.Sink
	passed
}

// passed is what a program has passed on to its file.
type passed struct {
	samples int
	last    uint64 // µs
}

func (p *passed) add(list []tachyon.Sample) {
	p.samples += len(list)
	for i := range list {
		p.last = max(p.last, list[i].Time)
	}
}

func (t *teller) WriteBatch(list []tachyon.Sample) (int, error) {
	n, err := t.Sink.WriteBatch(list)
	t.add(list[:n])
	if n > 0 {
		fmt.Println(t.samples, t.last)
	}
	return n, err
}

// A program is killed and starts again, many times. At most three unfinished files and the last one are left, with and without
// rotation, and all of them can be recovered. The first run is among them. All that another run has passed on is in a file, until
// the log says that this file is deleted.
func TestCrashLoop(t *testing.T) {
	testenv.Long(t)
	for _, rotate := range []string{"", "1h"} {
		dir := t.TempDir()
		out := filepath.Join(dir, "app.tach")
		runs, before := map[int]passed{}, map[int]string{} // by process; before has the files
		var last passed                                    // of the run before
		for n := range testenv.Times(12, 100) {
			cmd := again(t, "GOTACH_TEST_LOOP=1", "PROFILE_OUT="+out, "PROFILE_ROTATE="+rotate)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			r, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			testenv.OK(t, err)
			told := bufio.NewReader(r)
			if n == 0 || n%3 > 0 { // at least the first one has samples
				_, _ = told.Peek(1)
			}
			time.Sleep(rand.N(60 * time.Millisecond))
			_ = cmd.Process.Kill()
			p := lastTold(told)
			runs[cmd.Process.Pid] = p
			_ = cmd.Wait()
			said := stderr.String()
			if strings.Contains(said, "WARN") {
				t.Fatal(said)
			}
			if rotate == "" && last.samples > 0 && p.samples > 0 && !strings.Contains(said, "it is kept") {
				t.Errorf("the profile of run %d is kept without a word: %s", n-1, said)
			}
			last = p
			now := fileOfRuns(t, dir, runs)
			for pid, p := range runs {
				path, ok := before[pid]
				if now[pid] != "" || p.samples == 0 {
					continue
				}
				if delete(runs, pid); !ok || !slices.Contains(strings.Fields(deletions(said)), path) {
					t.Errorf("rotation %q: %+v of run %d, in %q, is lost without a word: %s", rotate, p, n, path, said)
				}
			}
			before = now
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.tach"))
		if err != nil || len(files) == 0 || len(files) > 5 {
			t.Fatalf("%q, %v", files, err)
		}
		most := 0
		for _, path := range files {
			if _, err := recovery.Finish(path); err != nil {
				t.Error(err)
			}
			if n := testenv.Count(t, reader.Open, path); strings.HasSuffix(path, "app.1.tach") {
				most = n
			}
		}
		if most == 0 {
			t.Errorf("rotation %q: the first run is not among %q", rotate, files)
		}
		if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > len(files)+5 { // journals of programs that were killed before they made the file
			t.Error(fmt.Sprint(left, err))
		}
	}
}

// lastTold reads all that a program has printed, and returns the last whole line.
func lastTold(r io.Reader) (p passed) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		var q passed
		if n, _ := fmt.Sscanf(lines.Text()+"\n", "%d %d\n", &q.samples, &q.last); n == 2 {
			p = q
		}
	}
	return p
}

// deletions returns the files that a log says are deleted.
func deletions(log string) string {
	_, list, _ := strings.Cut(log, "are deleted, because there are too many")
	list, _, _ = strings.Cut(list, "\n")
	_, list, _ = strings.Cut(list, "files=")
	return strings.Trim(list, `"[]`)
}

// fileOfRuns returns the file of each run, which must have at least what the run has passed on.
func fileOfRuns(t *testing.T, dir string, runs map[int]passed) map[int]string {
	files := testenv.Must(filepath.Glob(filepath.Join(dir, "*.tach")))
	of := map[int]string{}
	for _, path := range files {
		r := testenv.Must(reader.Open(path))
		m := testenv.Must(r.Metadata())
		var has passed
		for s, err := range r.Samples() {
			testenv.OK(t, err)
			has.add([]tachyon.Sample{*s})
		}
		r.Close()
		if m.Session == nil { // killed before it passed on anything
			continue
		}
		of[m.Session.PID] = path
		if p := runs[m.Session.PID]; has.samples < p.samples || has.last < p.last {
			t.Errorf("%s has %+v, and %+v was passed on", path, has, p)
		}
	}
	return of
}
