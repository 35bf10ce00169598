//go:build measure

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/measure"
)

func init() { measures = true }

// memory runs a command and returns the most memory that it had, in MB.
func memory(t *testing.T, cmd *exec.Cmd) float64 {
	t.Helper()
	testenv.Run(t, cmd)
	return float64(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss) / 1024
}

// Memory hardly grows with the number of files, samples and goroutines. Two files are in memory at once:
// one is read while the next one is decoded. The files' tables and the last samples of goroutines that may come again take some.
func TestMeasureMemory(t *testing.T) {
	dir := t.TempDir()
	paths := bigFiles(dir, 10, 1, false)
	for _, args := range [][]string{{"report"}, {"report", "--by", "line"}, {"leaks"}, {"convert", "-o", filepath.Join(dir, "out.pb.gz")}} {
		measure.SizeAtMost(t, fmt.Sprint(args), "times the memory for two files, for ten", 2.5, func() float64 {
			few := memory(t, testCommand(t, "gotach", append(args, paths[:2]...)...))
			return memory(t, testCommand(t, "gotach", append(args, paths...)...)) / few
		})
	}
}

// What is known of all goroutines, with labels of their own, takes at most some 700 bytes for each while a file is written
// again from others, and some 200 while it is sent.
func TestMeasureMemoryLabels(t *testing.T) {
	dir := t.TempDir()
	path := bigFiles(dir, 1, 20, true)[0] // of 91,000 goroutines
	measure.SizeAtMost(t, "convert to tach", "MB", 120, func() float64 {
		return memory(t, testCommand(t, "gotach", "convert", "-o", filepath.Join(t.TempDir(), "out.tach"), path))
	})
	measure.SizeAtMost(t, "push", "MB", 80, func() float64 {
		cursors, _ := filepath.Glob(filepath.Join(dir, ".push-*"))
		for _, name := range cursors {
			must(os.Remove(name))
		}
		p := newPushed(t)
		mb := memory(t, testCommand(t, "gotach", "push", dir, "--once", "--to", "otlp+"+p.URL))
		testenv.FailIf(t, p.requests < 10, "%d requests", p.requests)
		return mb
	})
}

// One gotach push on one core keeps up with a thousand processes. The files are copies of one that gotach demo records,
// each with a start of its own, ten in a folder for each process. GOTACH_FLEET is the number of files, of a minute each; see
// docs/fleet.md.
func TestMeasureFleet(t *testing.T) {
	files, seconds := 100, "1s"
	if n, err := strconv.Atoi(os.Getenv("GOTACH_FLEET")); err == nil {
		files, seconds = n, "60s"
	}
	source := filepath.Join(t.TempDir(), "demo.tach")
	memory(t, testCommand(t, "gotach", "demo", "-d", seconds, "-o", source))
	measure.AtMost(t, "CPU time of a file", "ms", 60, func() float64 {
		dir := t.TempDir()
		size := copies(t, source, dir, files)
		p := newPushed(t)
		cmd := testCommand(t, "gotach", "push", dir, "--once", "--to", "otlp+"+p.URL)
		cmd.Env = append(cmd.Env, "GOMAXPROCS=1")
		mb := memory(t, cmd)
		testenv.FailIf(t, p.requests < files, "%d requests for %d files", p.requests, files)
		cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		each := cpu / time.Duration(files)
		t.Logf("%d files, %.0f KB each: %v of CPU time a file, %d files an hour; %d requests, %.0f KB each; memory %.0f MB",
			files, float64(size)/1e3, each, int(time.Hour/each), p.requests, float64(p.sent)/float64(p.requests)/1e3, mb)
		return each.Seconds() * 1000
	})
}

// copies writes copies of a profile as files of processes with ten files each. It returns the size of a file.
func copies(t *testing.T, source, dir string, files int) (size int) {
	t.Helper()
	b := testenv.Must(os.ReadFile(source))
	// The session's start is not in the part of the file that the checksum covers.
	_, after, ok := bytes.Cut(b, []byte(`"start":"`))
	dot := bytes.IndexByte(after, '.')
	testenv.StopIf(t, !ok || dot < 0 || dot > len("2006-01-02T15:04:05") || bytes.ContainsAny(after[dot+1:dot+7], "Z\""), "the session's start in the file has no microseconds: %.40q", after)
	for n := range files {
		copy(after[dot+1:], fmt.Sprintf("%06d", n)) // after is a part of b
		folder := filepath.Join(dir, fmt.Sprint("p", n/10))
		must(os.MkdirAll(folder, 0o700))
		must(os.WriteFile(filepath.Join(folder, fmt.Sprintf("app.%d.tach", n%10+1)), b, 0o600))
	}
	return len(b)
}
