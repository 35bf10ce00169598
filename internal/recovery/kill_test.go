//go:build darwin || dragonfly || freebsd || linux || netbsd

package recovery

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) {
	if os.Getenv("GOTACH_TEST_WRITE") != "" {
		writeUntilKilled()
		return
	}
	os.Exit(m.Run())
}

// A load is a sequence of samples, and of goroutines' metadata between them. Each depends only on its
// number, so the parent process knows what the killed child wrote.
type load struct {
	Path         string
	Count        string // path of a shared file with the number of samples that were written
	Seed         uint64
	Threads      uint64
	Samples      uint64 // the child closes the file after this number
	Same         uint64 // every Same-th sample of a thread has a different stack
	Tick         time.Duration
	Layout       tachyon.Layout
	Uncompressed bool
	Each         uint64 // after so many samples there is a goroutine, and progress
}

// goroutine returns the metadata of the ith goroutine.
func goroutine(i uint64) tachyon.Goroutine {
	return tachyon.Goroutine{
		ID: i + 1, Parent: testenv.Mix(i) % 5, CreatedBy: fmt.Sprint("pkg.f", i%7), CreatedAt: "file.go:3", First: i * 200, Last: i*200 + testenv.Mix(i)%5000,
		Labels: []tachyon.LabelSpan{{From: i * 200, Labels: map[string]string{"request": strconv.FormatUint(testenv.Mix(i), 36), "kind": "a"}}},
	}
}

// frames are the frames of the stacks.
var frames = func() (list []tachyon.Frame) {
	for n := range int32(3000) {
		list = append(list, tachyon.Frame{File: fmt.Sprintf("dir/file%d.go", n%200), Func: fmt.Sprintf("pkg.f%d", n), Line: n})
	}
	return list
}()

const countSize = 4096 // a page

const start = 1_700_000_000_000_000

// sample returns the ith sample and its stack.
func (l *load) sample(i uint64, stack []tachyon.Frame) (tachyon.Sample, []tachyon.Frame) {
	tick, thread := i/l.Threads, i%l.Threads
	h := testenv.Mix(l.Seed ^ testenv.Mix(thread)<<1 ^ testenv.Mix(tick/max(1, l.Same)))
	stack = stack[:0]
	for d := range h % 60 {
		stack = append(stack, frames[testenv.Mix(h>>8^d*7919)%uint64(len(frames))])
	}
	return tachyon.Sample{
		Thread: thread + 1, Interpreter: uint32(thread & 1), Status: tachyon.Status(testenv.Mix(i) & 63),
		Time: start + tick*1000 + testenv.Mix(i)%900,
	}, stack
}

// pace is the number of samples after which a child without ticks writes slowly. It goes on
// writing while the file is checked, and the check holds all goroutines in memory: on a busy
// machine these were tens of millions.
const pace = 100_000

// writeUntilKilled is the main function of the child.
func writeUntilKilled() {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	l := parse(os.Getenv("GOTACH_TEST_WRITE"))
	count, err := testenv.Share(l.Count, countSize)
	fail(err)
	w, err := writer.Create(l.Path, writer.Options{Layout: l.Layout, Uncompressed: l.Uncompressed, Start: start, Interval: 1000})
	fail(err)
	fail(w.Provisional("session", map[string]int{"pid": os.Getpid()}))
	binary.NativeEndian.PutUint64(count[8:], 1) // ready
	var stack []tachyon.Frame
	var s tachyon.Sample
	for i := range l.Samples {
		s, stack = l.sample(i, stack)
		fail(w.WriteFrames(&s, stack))
		binary.NativeEndian.PutUint64(count, i+1)
		if n := i / l.Each; i%l.Each == 0 {
			fail(w.WriteRecords(&tachyon.Records{Goroutines: []tachyon.Goroutine{goroutine(n)}, Progress: &tachyon.Progress{Duration: time.Duration(n + 1)}}))
			binary.NativeEndian.PutUint64(count[24:], n+1)
		}
		switch {
		case l.Tick > 0 && i%l.Threads == 0:
			time.Sleep(l.Tick)
		case i > pace && i%10 == 0:
			time.Sleep(time.Millisecond)
		}
	}
	fail(w.AddMetadata("session", map[string]int{"pid": os.Getpid()}))
	fail(w.Close())
	binary.NativeEndian.PutUint64(count[16:], 1) // done
	time.Sleep(time.Hour)
}

func (l *load) String() string {
	return fmt.Sprintf("%s|%s|%d|%d|%d|%d|%d|%d|%v|%d", l.Path, l.Count, l.Seed, l.Threads, l.Samples, l.Same, l.Tick, l.Layout, l.Uncompressed, l.Each)
}

func parse(s string) *load {
	p := strings.Split(s, "|")
	n := func(i int) uint64 { v, _ := strconv.ParseUint(p[i], 10, 64); return v }
	return &load{p[0], p[1], n(2), n(3), n(4), n(5), time.Duration(n(6)), tachyon.Layout(n(7)), p[8] == "true", n(9)}
}

// TestKilled kills programs at random times, from their start on, during flushes and while
// they finish the file. No sample, goroutine or label that the program had written is missing,
// doubled or changed, and the progress is the last one.
//
// The switches GOTACH_KILLS (more kills) and GOTACH_KILLED_FILES (keep the files) are in
// package testenv.
func TestKilled(t *testing.T) {
	count := testenv.Kills(t)
	seen := map[string]int{}
	dir := t.TempDir()
	n := 0
	for begin := time.Now(); n < count && (count != 40 || time.Since(begin) < 40*time.Second); {
		gen := rapid.Custom(func(t *rapid.T) *load {
			l := &load{
				Seed:         rapid.Uint64().Draw(t, "seed"),
				Threads:      rapid.SampledFrom([]uint64{1, 3, 20, 300, 9000}).Draw(t, "threads"),
				Same:         rapid.SampledFrom([]uint64{1, 5, 1000}).Draw(t, "same"),
				Layout:       rapid.SampledFrom([]tachyon.Layout{tachyon.Document, tachyon.CPython315}).Draw(t, "layout"),
				Uncompressed: rapid.Bool().Draw(t, "uncompressed"),
				Each:         rapid.SampledFrom([]uint64{1, 20, 1000}).Draw(t, "each"),
				Samples:      rapid.SampledFrom([]uint64{1, 500, 20_000, 1 << 40, 1 << 40}).Draw(t, "samples"),
			}
			if rapid.Bool().Draw(t, "1 kHz") {
				l.Tick = time.Millisecond
			}
			return l
		})
		instant := rapid.Custom(func(t *rapid.T) int {
			most := rapid.SampledFrom([]uint64{3000, 300_000}).Draw(t, "at most")
			return int(testenv.Mix(rapid.Uint64().Draw(t, "instant")) % most)
		})
		l, µs := gen.Example(int(time.Now().UnixNano()>>10)), instant.Example(int(time.Now().UnixNano()>>9))
		l.Path = filepath.Join(dir, fmt.Sprintf("%d.tach", n))
		l.Count = l.Path + ".count"
		name := fmt.Sprintf("kill %d after %d µs of %v", n, µs, l)
		state, err := killOne(t, l, time.Duration(µs)*time.Microsecond, n%4 != 0)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		seen[state]++
		n++
		if l.Layout == tachyon.Document {
			testenv.KeepKilled(t, l.Path)
		}
		os.Remove(l.Path)
		os.Remove(l.Count)
	}
	t.Logf("%d kills: %v", n, seen)
}

// killOne runs a child, kills it after d and checks what is left.
func killOne(t *testing.T, l *load, d time.Duration, afterReady bool) (state string, err error) {
	count, err := testenv.Share(l.Count, countSize)
	if err != nil {
		return "", err
	}
	defer unix.Munmap(count)
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(count[8*i:]) }

	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GOTACH_TEST_WRITE="+l.String(), "GOCOVERDIR="+t.TempDir())
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return "", err
	}
	for begin := time.Now(); afterReady && word(1) == 0; {
		if time.Since(begin) > time.Minute {
			cmd.Process.Kill()
			cmd.Wait()
			return "", fmt.Errorf("the child does not start: %s", &stderr)
		}
		time.Sleep(50 * time.Microsecond)
	}
	time.Sleep(d)
	live, liveErr := "", error(nil)
	if d > 100*time.Millisecond && word(1) == 1 && word(2) == 0 {
		// Read it while it is being written.
		live = " read live"
		liveErr = l.check(l.Path, 0, l.Samples)
		if liveErr == nil {
			liveErr = l.checkRecords(0, l.Samples)
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	if liveErr != nil {
		return "", fmt.Errorf("while it is written: %w", liveErr)
	}
	if stderr.Len() > 0 {
		return "", fmt.Errorf("the child failed: %s", &stderr)
	}
	handed := word(0)
	if word(1) == 0 {
		// The child may not have made the file yet.
		if _, err := os.Stat(l.Path); err != nil {
			return "killed before the file", nil
		}
		if _, err := Finish(l.Path); err != nil {
			return "", fmt.Errorf("killed in Create: %w", err)
		}
		return "killed in Create", l.check(l.Path, 0, 1)
	}
	most := min(handed+1, l.Samples)
	if err := l.check(l.Path, handed, most); err != nil {
		return "", fmt.Errorf("%d samples were written, before recovery: %w", handed, err)
	}
	if err := l.checkRecords(word(3), word(3)+1); err != nil {
		return "", fmt.Errorf("%d goroutines were written, before recovery: %w", word(3), err)
	}
	res, err := Finish(l.Path)
	if err != nil {
		return "", fmt.Errorf("%d samples were written, recovery: %w", handed, err)
	}
	if err := l.check(l.Path, handed, most); err != nil {
		return "", fmt.Errorf("%d samples were written, after recovery: %w", handed, err)
	}
	if err := l.checkRecords(word(3), word(3)+1); err != nil {
		return "", fmt.Errorf("%d goroutines were written, after recovery: %w", word(3), err)
	}
	if _, err := os.Stat(l.Path + ".journal"); !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("the journal still exists: %v", err)
	}
	switch {
	case word(2) == 1:
		state = "closed"
	case handed == l.Samples && res.Finished:
		state = "killed after the header"
	case handed == l.Samples:
		state = "killed in Close"
	case res.Restored < res.Samples:
		state = "killed with some in the file"
	default:
		state = "killed with all in the journal"
	}
	return state + live, nil
}

// checkRecords checks that a file has the first n goroutines, with n between least and most, and the
// latest progress if it was not finished by its writer. For a file that is being written, most is more
// than least+1.
func (l *load) checkRecords(least, most uint64) error {
	r, err := reader.Open(l.Path)
	if err != nil {
		return err
	}
	defer r.Close()
	m, err := r.Metadata()
	if err != nil {
		return err
	}
	n := uint64(len(m.Goroutines))
	if n < least || n > most {
		return fmt.Errorf("%d goroutines, want %d to %d", n, least, most)
	}
	for i, g := range m.Goroutines {
		if want := goroutine(uint64(i)); !reflect.DeepEqual(g, want) {
			return fmt.Errorf("goroutine %d is %+v, want %+v", i, g, want)
		}
	}
	if m.Session == nil || most > least+1 {
		return nil // the file is being written, and the goroutines were read before the progress
	}
	if d := uint64(m.Session.Duration); d > n || d+1 < n && (r.Unfinished() || d > 0) {
		return fmt.Errorf("the progress is %d of %d", d, n)
	}
	return nil
}

// check reads a file and checks that it has the first n samples of the load, with n between
// least and most. If least is 0, it checks this for each thread alone.
func (l *load) check(path string, least, most uint64) error {
	r, err := reader.Open(path)
	if err != nil {
		return err
	}
	defer r.Close()
	h := r.Header()
	if h.Samples < least || h.Samples > most {
		return fmt.Errorf("%d samples, want %d to %d", h.Samples, least, most)
	}
	if _, err := r.VerifyChecksum(); err != nil {
		return err
	}
	m, err := r.Metadata()
	if err != nil {
		return err
	}
	if m.Session == nil && most > 1 || m.Session != nil && m.Session.PID == 0 {
		return fmt.Errorf("the session is %+v", m.Session)
	}
	ticks := make(map[uint64]uint64) // number of samples of each thread
	var stack []tachyon.Frame
	var want tachyon.Sample
	total := uint64(0)
	for s, err := range r.Samples() {
		if err != nil {
			return err
		}
		total++
		n := ticks[s.Thread]*l.Threads + s.Thread - 1
		ticks[s.Thread]++
		want, stack = l.sample(n, stack)
		if s.Time != want.Time || s.Status != want.Status || s.Thread != want.Thread || s.Interpreter != want.Interpreter {
			return fmt.Errorf("sample %d is %+v, want %+v", n, *s, want)
		}
		if !slices.EqualFunc(s.Stack, stack, func(id uint32, f tachyon.Frame) bool { return r.Frames()[id] == f }) {
			return fmt.Errorf("sample %d has a wrong stack", n)
		}
	}
	if total != h.Samples {
		return fmt.Errorf("%d samples, but the header counts %d", total, h.Samples)
	}
	if least == 0 {
		return nil
	}
	for i := h.Samples; i < h.Samples+l.Threads; i++ {
		// The samples of each thread are complete up to the first missing one.
		if got := ticks[i%l.Threads+1]; got != i/l.Threads {
			return fmt.Errorf("%d samples of thread %d, want %d of %d in all", got, i%l.Threads+1, i/l.Threads, h.Samples)
		}
	}
	return nil
}
