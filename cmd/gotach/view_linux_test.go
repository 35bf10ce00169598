package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// The program that opens a page is one of TestMain: it writes what it is to open to the file $OPENED.
func init() {
	programs["xdg-open"] = func() {
		name := os.Getenv("OPENED")
		must(os.WriteFile(name+".part", []byte(strings.Join(os.Args[1:], "\n")), 0o600))
		must(os.Rename(name+".part", name))
	}
}

// TestView: the command shows the files of a folder, those that come later too, and opens the page with xdg-open. Without a
// display, with --no-open, and if that fails it only prints the address. It ends at Ctrl-C with success.
func TestView(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	dir, opened := t.TempDir(), filepath.Join(t.TempDir(), "opened")
	writeFile(t, filepath.Join(dir, "x.1.tach"), 1, 100)
	path, none := "PATH="+filepath.Dir(testProgram(t, "xdg-open")), t.TempDir()
	for _, c := range []struct {
		name    string
		env     []string
		args    []string
		opens   bool
		stderr  string
		samples int64
	}{
		{"a display", []string{path, "DISPLAY=:7"}, nil, true, "", 100},
		{"Wayland", []string{path, "DISPLAY=", "WAYLAND_DISPLAY=wayland-0"}, nil, true, "", 100},
		{"no display", []string{path, "DISPLAY=", "WAYLAND_DISPLAY="}, nil, false, "there is no display", 100},
		{"--no-open", []string{path, "DISPLAY=:7"}, []string{"--no-open"}, false, "", 100},
		{"no xdg-open", []string{"PATH=" + none, "DISPLAY=:7"}, nil, false, "none was opened", 100},
		{"a file comes", nil, []string{"--no-open"}, false, "", 150},
	} {
		_ = os.Remove(opened)
		v := startView(t, append(c.env, "OPENED="+opened), append(c.args, dir)...)
		if body, status := fetch(v.url); status != http.StatusOK || !strings.HasPrefix(body, "<!doctype html>") {
			t.Fatalf("%s: %d %.100s", v.url, status, body)
		}
		if _, status := fetch(v.url[:len(v.url)-10] + "/"); status != http.StatusNotFound {
			t.Errorf("a wrong token: %d", status)
		}
		page := getter(fetch).waitFor(t, v.url, "", 0)
		if c.opens {
			testenv.Await(func() bool { _, err := os.Stat(opened); return err == nil })
		}
		text, _ := os.ReadFile(opened)
		if want := v.url; c.opens && string(text) != want || !c.opens && len(text) > 0 {
			t.Errorf("%s: the browser was opened with %q", c.name, text)
		}
		if c.name == "a file comes" {
			writeFile(t, filepath.Join(dir, "x.2.tach"), 2, 50)
			page = getter(fetch).waitFor(t, v.url, "", page.Generation)
		}
		if got, want := page.Head.Sides[0].Samples, c.samples; got != want {
			t.Errorf("%s: %d samples, want %d", c.name, got, want)
		}
		v.interrupt()
		if got := v.stderr.String(); !strings.Contains(got, c.stderr) || (c.stderr == "") == strings.Contains(got, "none was opened") {
			t.Errorf("%s: it says %q", c.name, got)
		}
	}
}
