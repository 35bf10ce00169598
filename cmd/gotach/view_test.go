package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
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
	if err := w.AddMetadata(tachyon.KindSession, tachyon.Session{Program: "app", PID: 7, Rate: 1000, Start: start, Duration: time.Second}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// A viewing is a running gotach view.
type viewing struct {
	t      *testing.T
	cmd    *exec.Cmd
	url    string
	out    *bufio.Reader
	stderr strings.Builder
}

// startView runs gotach view until the test ends.
func startView(t *testing.T, env []string, args ...string) *viewing {
	t.Helper()
	v := &viewing{t: t, cmd: testCommand(t, "gotach", append([]string{"view"}, args...)...)}
	v.cmd.Env = append(os.Environ(), env...)
	v.cmd.Stderr = &v.stderr
	out, err := v.cmd.StdoutPipe()
	if err == nil {
		err = v.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.cmd.Process.Kill() })
	v.out = bufio.NewReader(out)
	line, err := v.out.ReadString('\n')
	if err != nil {
		t.Fatalf("%v\n%s", err, &v.stderr)
	}
	v.url = strings.TrimSpace(line)
	return v
}

// interrupt is Ctrl-C. The command must end with success and print nothing more.
func (v *viewing) interrupt() {
	v.t.Helper()
	if err := v.cmd.Process.Signal(syscall.SIGINT); err != nil {
		v.t.Fatal(err)
	}
	rest, err := io.ReadAll(v.out)
	if e := v.cmd.Wait(); e != nil || err != nil || len(rest) > 0 {
		v.t.Errorf("after Ctrl-C: %v, %v, %q\n%s", e, err, rest, &v.stderr)
	}
}

// TestView: the command shows the files of a folder, those that come later too, and ends at Ctrl-C with success.
func TestView(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "x.1.tach"), 1, 100)
	v := startView(t, nil, "--no-open", dir)
	url := v.url
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
	v.interrupt()
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

// waitFor waits until the server has newer data than a generation. url may be that of the status of a range.
func waitFor(t *testing.T, url string, than int64) (s page.Status) {
	t.Helper()
	for end := time.Now().Add(time.Minute); s.Head == nil; time.Sleep(50 * time.Millisecond) {
		s = page.Status{}
		address := url + "data/status?"
		if strings.Contains(url, "?") {
			address = url
		}
		body, _ := fetch(t, fmt.Sprintf("%sgeneration=%d", address, than))
		if err := json.Unmarshal([]byte(body), &s); err != nil || s.Error != "" || time.Now().After(end) {
			t.Fatalf("%s: %v", body, err)
		}
	}
	return s
}

// TestViewLarge: of files that take long to read, some are shown first. A range needs only the files that have its time.
func TestViewLarge(t *testing.T) {
	dir := t.TempDir()
	const files, samples = 20, 900
	for n := range files {
		writeFile(t, filepath.Join(dir, fmt.Sprintf("x.%02d.tach", n)), n, samples)
	}
	v := &viewed{sides: [][]string{{dir}}, warn: func(err error) { t.Error(err) }, large: 10 << 10}
	s := page.NewServer(t.Context(), page.ServerOptions{Open: v.open, Version: v.version})
	defer s.Close()
	server := httptest.NewServer(s)
	defer server.Close()
	url := server.URL + "/"
	first := waitFor(t, url, 0).Head
	some := first.Sides[0].Samples / samples
	if want := fmt.Sprintf("%d of %d files", some, files); first.Sketch != want || some < 2 || some > files/2 {
		t.Errorf("it begins with %q and %d files, want %q", first.Sketch, some, want)
	}
	// The first and the last file are there. In between nothing is recorded.
	if length := first.Sides[0].To; length < (files-1)*1_000_000+samples*1000 {
		t.Errorf("it begins with %d µs", length)
	}
	whole := waitFor(t, url, 1)
	if got := whole.Head.Sides[0].Samples; got != files*samples || whole.Head.Sketch != "" || !whole.Head.NoLatency {
		t.Errorf("then it has %d samples, %q", got, whole.Head.Sketch)
	}
	start := int64(whole.Head.Sides[0].StartUS)
	span := page.Span{From: start + 7_100_000, To: start + 8_200_000}
	if list, _ := v.timed([]string{dir}, span); len(list) != 4 || filepath.Base(list[0].path) != "x.06.tach" {
		t.Errorf("the range is in %v", list)
	}
	part := waitFor(t, fmt.Sprintf("%sdata/status?from=%d&to=%d&", url, span.From, span.To), 0)
	// 1.1 s less the 100 ms after the samples of each file
	if got := part.Head.Sides[0].Samples; got < 995 || got > 1005 {
		t.Errorf("the range has %d samples", got)
	}
}

// TestViewChecks: also if only some of the files are shown first, a file that cannot be read is an error at the start.
func TestViewChecks(t *testing.T) {
	dir := t.TempDir()
	for n := range 5 {
		writeFile(t, filepath.Join(dir, fmt.Sprintf("x.%d.tach", n)), n, 900)
	}
	check := func() error {
		v := &viewed{sides: [][]string{{dir}}, warn: func(err error) { t.Error(err) }, large: 1}
		return v.check()
	}
	if err := check(); err != nil {
		t.Fatal(err)
	}
	wrong := filepath.Join(dir, "x.2.tach")
	if err := os.WriteFile(wrong, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := check(); err == nil || !strings.Contains(err.Error(), wrong) {
		t.Errorf("with a wrong file: %v", err)
	}
}
