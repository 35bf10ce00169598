package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// One gotach push on one core keeps up with a thousand processes. The files are copies of one that gotach demo records,
// each with a start of its own, ten in a folder for each process. With GOTACH_FLEET, which is the number of files, they
// are of a minute, as a program has with rotation, and the test measures. GOTACH_FLEET_SOURCE is a file to use instead.
func TestFleet(t *testing.T) {
	dir, files, seconds := t.TempDir(), 40, "500ms"
	if n, err := strconv.Atoi(os.Getenv("GOTACH_FLEET")); err == nil {
		files, seconds = n, "60s"
	}
	source := os.Getenv("GOTACH_FLEET_SOURCE")
	if source == "" {
		source = filepath.Join(t.TempDir(), "demo.tach")
		if out, err := gotachCommand(t, "demo", "-d", seconds, "-o", source).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	size := manyProcesses(t, source, dir, files)
	var requests, sent atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		requests.Add(1)
		sent.Add(n)
	}))
	defer server.Close()
	cmd := gotachCommand(t, "push", dir, "--once", "--to", "otlp+"+server.URL)
	cmd.Env = append(cmd.Env, "GOMAXPROCS=1")
	begin := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(begin)
	if err != nil || !bytes.HasPrefix(out, fmt.Appendf(nil, "%d files (", files)) || requests.Load() < int64(files) {
		t.Fatalf("%v, %d requests: %s", err, requests.Load(), out)
	}
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	each := cpu / time.Duration(files)
	hour := int(time.Hour / each)
	t.Logf("%d files of %d processes, %.0f KB each", files, (files+9)/10, float64(size)/1e3)
	t.Logf("%v, CPU %v: %v a file, so one core sends %d files an hour", took.Round(time.Millisecond), cpu, each.Round(10*time.Microsecond), hour)
	t.Logf("%d requests, %.0f KB each; memory %d MB", requests.Load(), float64(sent.Load())/float64(requests.Load())/1e3,
		cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss>>10)
	if hour < 10_000 && os.Getenv("GOTACH_FLEET") != "" {
		t.Errorf("%d files an hour, want 10000", hour)
	}
}

// manyProcesses writes copies of a profile as files of processes with ten files each. It returns the size of a
// file.
func manyProcesses(t *testing.T, source, dir string, files int) (size int) {
	t.Helper()
	b, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	// The session's start is not in the part of the file that the checksum covers.
	_, after, ok := bytes.Cut(b, []byte(`"start":"`))
	dot := bytes.IndexByte(after, '.')
	if !ok || dot < 0 || dot > len("2006-01-02T15:04:05") || bytes.ContainsAny(after[dot+1:dot+7], "Z\"") {
		t.Fatalf("the session's start in the file has no microseconds: %.40q", after)
	}
	for n := range files {
		copy(after[dot+1:], fmt.Sprintf("%06d", n)) // after is a part of b
		folder := filepath.Join(dir, fmt.Sprint("p", n/10))
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("app.%d.tach", n%10+1)), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return len(b)
}
