package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/cmd/gotach/internal/top"
	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/page"
	"github.com/gotach/profiler/internal/testenv"
)

// The limits of the commands that read what strangers wrote.
const (
	hostileMemory  = 1 << 30 // bytes of address space, besides what the runtime has reserved when the program starts
	hostileTimeout = 20 * time.Second
)

func init() { programs["hostile"] = hostile }

// hostile is a program that runs all reading commands on the files whose paths are the lines of its input. It prints each
// command before it begins. It has little memory, and a command that takes too long ends it with the stacks of all goroutines.
func hostile() {
	var statm, pages uint64
	testenv.Must(fmt.Sscan(string(testenv.Must(os.ReadFile("/proc/self/statm"))), &statm))
	pages = statm * uint64(os.Getpagesize())
	must(unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: pages + hostileMemory, Max: pages + hostileMemory}))
	debug.SetTraceback("all")
	tmp := testenv.Must(os.MkdirTemp("", "hostile"))
	defer os.RemoveAll(tmp)
	lines := bufio.NewScanner(os.Stdin)
	for file := 0; lines.Scan(); file++ {
		for i, c := range readingCommands(lines.Text(), tmp) {
			// By day the variants of a command have some of the files each.
			if every := testenv.Times(8, 1); c.variant && (file+i)%every != 0 {
				continue
			}
			fmt.Printf("%s\t%s\n", lines.Text(), c.name)
			late := time.AfterFunc(testenv.Times(3*hostileTimeout, hostileTimeout), func() { panic("it takes too long") })
			out := c.run()
			late.Stop()
			// Text of a file may not reach the terminal as it is.
			if i := strings.IndexFunc(out, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' && r != '\r' || r >= 0x7f && r < 0xa0 }); i >= 0 && c.text {
				panic(fmt.Sprintf("an escape: %.200q", out[max(0, i-50):]))
			}
		}
	}
}

// A readingCommand is a command with its arguments.
type readingCommand struct {
	name string
	text bool // it prints to the terminal
	// variant says that another command reads the file in nearly the same way.
	variant bool
	run     func() string // returns what it prints
}

// readingCommands returns all commands that read a file. They write to a folder.
func readingCommands(path, tmp string) (list []readingCommand) {
	command := func(text bool, args ...string) {
		variant := args[0] == "convert" || args[0] == "html" || strings.HasPrefix(args[1], "--") && args[1] != "--func" || strings.Count(strings.Join(args, " "), path) > 1
		list = append(list, readingCommand{strings.Join(args, " "), text, variant, func() string {
			var out bytes.Buffer
			run(args, strings.NewReader(""), &out, &out)
			return out.String()
		}})
	}
	for _, args := range []string{
		"verify", "info", "info --json", "report", "report --json --by goroutine --idle", "report --tree", "report --blocked", "report --by object",
		"report --weight latency", "report --weight cpu --by line", "report --since 1ms --until -1ms", "report --by label:a",
		"leaks", "leaks --json", "locks", "locks --json", "waits", "waits --json", "requests --func .", "requests --label a --json",
	} {
		command(true, append(strings.Fields(args), path)...)
	}
	command(true, "report", path, path)
	command(true, "diff", path, path)
	command(true, "diff", "--per", "share", "--json", path, path)
	command(false, "dump", path)
	command(false, "html", path, "-o", filepath.Join(tmp, "x.html"))
	command(false, "html", path, path, "-o", filepath.Join(tmp, "x.html"))
	for _, f := range formats.All() {
		if f.CanWrite() {
			out := filepath.Join(tmp, "x."+f.Name)
			command(false, "convert", path, "-o", out, "--to", f.Name)
		}
	}
	command(false, "convert", path, "-o", filepath.Join(tmp, "x.pgo"), "--slowest", "1%", "--func", ".")
	list = append(list, readingCommand{"view", false, true, func() string { viewOnce(path); return "" }},
		readingCommand{"top", false, false, func() string { topOnce(path); return "" }},
		readingCommand{"recover", true, false, func() string {
			// recover changes the file.
			x, out := filepath.Join(tmp, "x.tach"), bytes.Buffer{}
			_ = os.Remove(x + ".journal")
			for _, end := range []string{"", ".journal"} {
				if b, err := os.ReadFile(path + end); err == nil {
					must(os.WriteFile(x+end, b, 0o600))
				}
			}
			run([]string{"recover", x}, strings.NewReader(""), &out, &out)
			return out.String()
		}})
	return list
}

// viewOnce gets all that the page of gotach view gets of a file.
func viewOnce(path string) {
	v := &viewed{sides: [][]string{{path}}, warn: func(error) {}}
	if v.check() != nil {
		return
	}
	s := page.NewServer(context.Background(), page.ServerOptions{Options: page.Options{MaxSize: 15_000_000}, Title: v.title(), Open: v.open, Version: v.version})
	defer s.Close()
	get := func(address string) []byte {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, address, nil))
		return w.Body.Bytes()
	}
	status := func(query string) *page.Head {
		var x page.Status
		testenv.Await(func() bool {
			must(json.Unmarshal(get("/data/status?"+query), &x))
			return x.Head != nil || x.Error != ""
		})
		return x.Head
	}
	h := status("")
	for _, piece := range []string{"stacks", "goroutines", "time", "overview"} {
		get("/data/" + piece + "?generation=1")
	}
	if h != nil && len(h.Sides) > 0 {
		if from := h.Sides[0].StartUS; from < 1<<52 {
			status(fmt.Sprintf("from=%d&to=%d", from+1, from+1_000_000))
		}
	}
}

// topOnce shows all screens of gotach top of a file.
func topOnce(path string) {
	w, err := top.File(path)
	if err != nil {
		return
	}
	defer w.Close()
	m := newTopModel(context.Background(), w, 10*time.Second, false, true)
	m.after = func(time.Duration, func(time.Time) tea.Msg) tea.Cmd { return nil }
	s := &topScreen{nil, m}
	s.size(120, 50)
	s.do(m.Init())
	s.press("l", "0", "1", "2", "3", "4", "c", "i", "W", "W", "W", "left", "left", "0", "end")
}

// A finding is a command that did not end well, with the end of what it printed.
type finding struct{ path, command, text string }

// findHostile runs all reading commands on files.
func findHostile(t *testing.T, paths []string) (list []finding) {
	t.Helper()
	for len(paths) > 0 {
		cmd := testCommand(t, "hostile")
		cmd.Stdin = strings.NewReader(strings.Join(paths, "\n"))
		cmd.Env = append(cmd.Env, "TMPDIR="+t.TempDir())
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out := testenv.Must(cmd.StdoutPipe())
		must(cmd.Start())
		last := ""
		for lines := bufio.NewScanner(out); lines.Scan(); {
			last = lines.Text()
		}
		if err := cmd.Wait(); err == nil {
			return list
		} else if last == "" {
			t.Fatalf("%v\n%s", err, &errs)
		}
		path, command, _ := strings.Cut(last, "\t")
		text := errs.String()
		list = append(list, finding{path, command, text[:min(len(text), 3000)]})
		paths = paths[slices.Index(paths, path)+1:]
	}
	return list
}
