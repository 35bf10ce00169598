package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/gotach/profiler/internal/testenv"
)

// startWatched starts a program that writes a profile. It ends when stop is called.
func startWatched(t *testing.T, out string) (stop func()) {
	t.Helper()
	cmd := testCommand(t, "watched", out)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if _, err := stdout.Read(make([]byte, 1)); err != nil { // it runs
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		stdin.Close()
		_, _ = io.Copy(io.Discard, stdout)
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestViewLive: while a program writes its file, the page shows what is new, and a selected range stays. When the program has
// ended, the page has all.
func TestViewLive(t *testing.T) {
	chromium := testenv.Chromium(t)
	out := filepath.Join(t.TempDir(), "live.tach")
	stop := startWatched(t, out)
	v := startView(t, nil, "--no-open", out)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.Flag("headless", "new"), chromedp.Flag("disable-gpu", true))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	defer end()
	ctx, cancel := chromedp.NewContext(allocator)
	defer cancel()
	ctx, expire := context.WithTimeout(ctx, 2*time.Minute)
	defer expire()
	wait := func(expression string) {
		t.Helper()
		if _, err := chromedp.Run(ctx, chromedp.Poll[bool]("!!("+expression+")", chromedp.WithPollingTimeout(time.Minute))); err != nil {
			text, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`document.body.innerText`))
			t.Fatalf("%s: %v\n%s", expression, err, text)
		}
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(v.url)); err != nil {
		t.Fatal(err)
	}
	wait(`[...document.querySelectorAll('#functions tbody button')].some((b) => b.textContent.endsWith('gotach.busy'))`)
	wait(`gotach.generations().duration > 1e8`) // the address may have a range only of what the page has
	const sums, ranged = `document.getElementById('sums').textContent`, `JSON.stringify(gotach.settings().range) === '[10000,60000]'`
	for n := range 2 { // a range is kept through each change
		before, err := chromedp.Run(ctx, chromedp.Evaluate[string](`location.hash = 'r=10000.60000'; `+sums))
		if err != nil {
			t.Fatal(err)
		}
		wait(ranged)
		wait(sums + ` !== ` + fmt.Sprintf("%q", before))
		wait(ranged)
		if n == 0 {
			continue
		}
		stop()
		wait(`!gotach.generations().growing`)
	}
	ns, err := chromedp.Run(ctx, chromedp.Evaluate[int64](`gotach.generations().duration`))
	if err != nil {
		t.Fatal(err)
	}
	if got := waitFor(t, v.url, 0).Head.Sides[0].Duration; time.Duration(ns) != got || got < time.Second {
		t.Errorf("the page has %v, the server %v", time.Duration(ns), got)
	}
	v.interrupt()
}

// TestViewOpens: the command opens the page with xdg-open. Without a display, with --no-open, and if that fails it only prints
// the address.
func TestViewOpens(t *testing.T) {
	dir := t.TempDir()
	file, opened := filepath.Join(dir, "x.tach"), filepath.Join(dir, "opened")
	writeFile(t, file, 1, 100)
	if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte("#!/bin/sh\nprintf '%s\\n' \"$@\" >"+opened+".part; mv "+opened+".part "+opened+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	path, none := "PATH="+dir+":"+os.Getenv("PATH"), t.TempDir()
	for _, c := range []struct {
		name   string
		env    []string
		args   []string
		opens  bool
		stderr string
	}{
		{"a display", []string{path, "DISPLAY=:7"}, nil, true, ""},
		{"Wayland", []string{path, "DISPLAY=", "WAYLAND_DISPLAY=wayland-0"}, nil, true, ""},
		{"no display", []string{path, "DISPLAY=", "WAYLAND_DISPLAY="}, nil, false, "there is no display"},
		{"--no-open", []string{path, "DISPLAY=:7"}, []string{"--no-open"}, false, ""},
		{"no xdg-open", []string{"PATH=" + none, "DISPLAY=:7"}, nil, false, "none was opened"},
	} {
		_ = os.Remove(opened)
		v := startView(t, c.env, append(c.args, file)...)
		waitFor(t, v.url, 0)
		if c.opens {
			for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				if _, err := os.Stat(opened); err == nil {
					break
				}
			}
		}
		text, _ := os.ReadFile(opened)
		if want := v.url + "\n"; c.opens && string(text) != want || !c.opens && len(text) > 0 {
			t.Errorf("%s: the browser was opened with %q", c.name, text)
		}
		v.interrupt()
		if got := v.stderr.String(); !strings.Contains(got, c.stderr) || (c.stderr == "") == strings.Contains(got, "none was opened") {
			t.Errorf("%s: it says %q", c.name, got)
		}
	}
}
