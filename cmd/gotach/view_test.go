package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/page"
	"github.com/gotach/profiler/writer"

	"github.com/gotach/profiler/tachyon"
)

// writeFile writes a finished profile of some samples that are 1 ms apart, the number-th of its session.
func writeFile(t *testing.T, path string, number, samples int) {
	t.Helper()
	start := time.UnixMicro(1_795_234_224_000_000 + int64(number)*1_000_000).UTC()
	w, err := writer.Create(path, writer.Options{Start: uint64(start.UnixMicro()), Interval: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(samples) {
		at := uint64(start.UnixMicro()) + 1000*(i+1)
		if err := w.WriteFrames(&tachyon.Sample{Thread: 1, Time: at, Status: tachyon.HasGIL | tachyon.OnCPU}, []tachyon.Frame{{Func: "main.work", File: "/src/app/main.go", Line: 3}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestView: the command shows the files of a folder, those that come later too, and ends at Ctrl-C with success.
func TestView(t *testing.T) {
	test, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "gotach") // this name makes the test binary gotach
	if err := os.Symlink(test, program); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "x.1.tach"), 1, 100)
	cmd := exec.Command(program, "view", "--no-open", dir)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	url := strings.TrimSpace(line)
	if body, status := fetch(t, url); status != http.StatusOK || !strings.HasPrefix(body, "<!doctype html>") {
		t.Fatalf("%s: %d %.100s", url, status, body)
	}
	if _, status := fetch(t, url[:len(url)-10]+"/"); status != http.StatusNotFound {
		t.Errorf("a wrong token: %d", status)
	}
	first := waitFor(t, url, 0)
	if got := first.Head.Sides[0].Samples; got != 100 {
		t.Errorf("%d samples, want 100", got)
	}
	writeFile(t, filepath.Join(dir, "x.2.tach"), 2, 50)
	if got := waitFor(t, url, first.Generation).Head.Sides[0].Samples; got != 150 {
		t.Errorf("%d samples with the second file, want 150", got)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(lines)
	if e := cmd.Wait(); e != nil || err != nil || len(rest) > 0 {
		t.Errorf("after Ctrl-C: %v, %v, %q\n%s", e, err, rest, &stderr)
	}
}

func fetch(t *testing.T, url string) (string, int) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b), r.StatusCode
}

// waitFor waits until the server has newer data than a generation.
func waitFor(t *testing.T, url string, than int64) (s page.Status) {
	t.Helper()
	for end := time.Now().Add(time.Minute); s.Head == nil; time.Sleep(50 * time.Millisecond) {
		s = page.Status{}
		body, _ := fetch(t, fmt.Sprintf("%sdata/status?generation=%d", url, than))
		if err := json.Unmarshal([]byte(body), &s); err != nil || s.Error != "" || time.Now().After(end) {
			t.Fatalf("%s: %v", body, err)
		}
	}
	return s
}
