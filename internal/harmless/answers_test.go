//go:build linux && (amd64 || arm64)

package harmless

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const answersPage = "../../docs/cases.md"

// A question is a command on docs/cases.md, and what its answer must have.
type question struct {
	program string
	args    string // of gotach. WINDOW stands for flags that select the time of the slowest request.
	keep    string // the page has those paragraphs of the answer that match; "": all
	under   string // the cause is below the line that matches this
	rows    int    // it is in one of so many lines
	cause   string // it matches this
}

var questions = []question{
	{"nats", `report nats.tach`, `BLOCKED AT|LOCK\n`, `LOCK$`, 2, `held in \[sleep\] main\.\(\*rates\)\.load `},
	{"nats", `requests nats.tach --func 'main.answerPrice$'`, "", `MORE  AT$`, 1, `\[(sync\.Mutex\.Lock|sleep)\] main\.\(\*rates\)\.(current|load) `},
	{"nats", `waits 'main.answerPrice$' nats.tach`, "", `for r\.mu`, 1, `held by .*\[sleep\] main\.\(\*rates\)\.load `},
	{"sqlite", `report sqlite.tach`, `BLOCKED AT`, `BLOCKED AT`, 4, `\[sleep\] main\.fetchPage `},
	{"sqlite", `requests sqlite.tach --func 'main.saveOrder$'`, "", `MORE  AT$`, 2, `\[syscall\] .*modernc\.org/libc\.sleepSyscall`},
	{"sqlite", `report sqlite.tach --callers 'libc.sleepSyscall$' --top 1`, "", `FUNCTION, AND BELOW`, 1, `_sqlite3InvokeBusyHandler → .* → main\.saveOrder\b`},
	{"sqlite", `report sqlite.tach --blocked WINDOW`, "", `BLOCKED AT`, 3, `\[sleep\] main\.fetchPage `},
	{"prometheus", `report prometheus.tach`, `BLOCKED AT|ON CPU|REQUESTS`, `REQUESTS$`, 3, `in the slowest 1 %: \[(running|no core)\] .*/(promql|tsdb|storage)\.`},
	{"prometheus", `requests prometheus.tach`, "", `MORE  AT$`, 5, `/promql\.\(\*evaluator\)\.`},
	{"prometheus", `report prometheus.tach --weight cpu --tree --focus 'promql\.' --top 8`, "", `CALLS, FROM`, 4, `/promql\.\(\*evaluator\)\.evalSubquery`},
}

// TestCases checks the answers on docs/cases.md: they must name the causes of the faults of three real programs.
//
// GOTACH_CASES=1 builds the programs, which takes minutes, and checks what gotach says now. With -update it writes
// that to the page.
func TestCases(t *testing.T) {
	if os.Getenv("GOTACH_CASES") == "" {
		for _, q := range questions {
			if answer, ok := q.onPage(t); !ok {
				t.Errorf("%s does not have the command gotach %s", answersPage, q.args)
			} else if err := q.check(answer); err != nil {
				t.Errorf("%s: %v", answersPage, err)
			}
		}
		return
	}
	dir := t.TempDir()
	gocmd(t, toolchain(t, t.TempDir()), here(t), "build", "-o", filepath.Join(dir, "gotach"), "github.com/gotach/profiler/cmd/gotach")
	for _, program := range []string{"nats", "sqlite", "prometheus"} {
		t.Run(program, func(t *testing.T) {
			if program == "prometheus" {
				profilePrometheus(t, dir)
			} else {
				profileAnswers(t, dir, program)
			}
			for _, q := range questions {
				if q.program == program {
					q.ask(t, dir)
				}
			}
		})
	}
}

// ask asks gotach the question about the profile in dir.
func (q *question) ask(t *testing.T, dir string) {
	t.Helper()
	args := q.args
	if before, after, ok := strings.Cut(args, "WINDOW"); ok {
		args = before + slowest(t, dir) + after
	}
	answer := "$ gotach " + args + "\n" + gotach(t, dir, args)
	t.Log(answer)
	if err := q.check(answer); err != nil {
		t.Error(err)
		return
	}
	if !*update {
		return
	}
	old, ok := q.onPage(t)
	if !ok {
		t.Errorf("%s does not have the command gotach %s", answersPage, q.args)
		return
	}
	text, err := os.ReadFile(answersPage)
	if err != nil {
		t.Fatal(err)
	}
	write(t, answersPage, strings.Replace(string(text), old, q.shorten(answer), 1))
}

// onPage returns the command and the answer that docs/cases.md has for a question.
func (q *question) onPage(t *testing.T) (answer string, ok bool) {
	t.Helper()
	text, err := os.ReadFile(answersPage)
	if err != nil {
		t.Fatal(err)
	}
	command := strings.Replace(regexp.QuoteMeta(q.args), "WINDOW", `--since [0-9.]+s --until [0-9.]+s`, 1)
	m := regexp.MustCompile("(?s)```\n(\\$ gotach " + command + "\n.*?)```\n").FindSubmatch(text)
	if m == nil {
		return "", false
	}
	return string(m[1]), true
}

// check returns an error if the answer does not name the cause.
func (q *question) check(answer string) error {
	lines := strings.Split(answer, "\n")
	under, cause := regexp.MustCompile(q.under), regexp.MustCompile(q.cause)
	at := slices.IndexFunc(lines, under.MatchString)
	if at < 0 {
		return fmt.Errorf("gotach %s: no line has %s", q.args, q.under)
	}
	below := lines[at+1:]
	if below = below[:min(q.rows, len(below))]; !slices.ContainsFunc(below, cause.MatchString) {
		return fmt.Errorf("gotach %s: the %d lines below %q do not have %s:\n%s", q.args, q.rows, lines[at], q.cause, strings.Join(below, "\n"))
	}
	return nil
}

// shorten leaves out paragraphs that the page does not need, and the middle of long chains of calls.
func (q *question) shorten(answer string) string {
	const arrow, first, last = " → ", 8, 3
	keep := regexp.MustCompile(q.keep)
	paragraphs := strings.Split(strings.TrimRight(answer, "\n"), "\n\n")
	for i, p := range paragraphs {
		if i > 0 && !keep.MatchString(p) {
			paragraphs[i] = "…"
			continue
		}
		lines := strings.Split(p, "\n")
		for j, line := range lines {
			chain := strings.Split(line, arrow)
			if n := len(chain) - first - last; n > 1 {
				chain = slices.Replace(chain, first, first+n, fmt.Sprintf("… %d more …", n))
			}
			lines[j] = strings.TrimRight(strings.Join(chain, arrow), " ")
		}
		paragraphs[i] = strings.Join(lines, "\n")
	}
	return strings.Join(slices.CompactFunc(paragraphs, func(a, b string) bool { return a == "…" && b == "…" }), "\n\n") + "\n"
}

// slowest returns the flags that select the time of the slowest order.
func slowest(t *testing.T, dir string) string {
	t.Helper()
	var r struct {
		Slowest []struct {
			Start int64 `json:"start_us"`
			Wall  int64 `json:"ns"`
		} `json:"slowest"`
	}
	if err := json.Unmarshal([]byte(gotach(t, dir, `requests sqlite.tach --func 'main.saveOrder$' --json`)), &r); err != nil || len(r.Slowest) == 0 {
		t.Fatalf("%d slow requests: %v", len(r.Slowest), err)
	}
	s := r.Slowest[0]
	return fmt.Sprintf("--since %.2fs --until %.2fs", float64(s.Start)/1e6, float64(s.Start)/1e6+float64(s.Wall)/1e9)
}

// gotach runs a command line in a directory that has the program.
func gotach(t *testing.T, dir, args string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", "./gotach "+args)
	cmd.Dir = dir
	var said strings.Builder // such as that a file is unfinished
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("gotach %s: %v\n%s", args, err, said.String())
	}
	return string(out)
}

func here(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// profileAnswers writes a profile of testdata/answers with one of its faults.
func profileAnswers(t *testing.T, dir, fault string) {
	t.Helper()
	bin := filepath.Join(dir, "answers")
	gocmd(t, toolchain(t, t.TempDir()), filepath.Join(here(t), "testdata", "answers"), "build", "-o", bin, ".")
	profileCase(t, exec.Command(bin, fault, t.TempDir()), filepath.Join(dir, fault+".tach"), func() { time.Sleep(12 * time.Second) })
}

// profilePrometheus writes a profile of prometheus while it answers queries. One of 41 asks for the greatest sum of
// all its metrics in each of 20,000 milliseconds.
func profilePrometheus(t *testing.T, dir string) {
	t.Helper()
	s := &servers[slices.IndexFunc(servers, func(s server) bool { return s.name == "prometheus" })]
	bin := s.build(t)
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	args, _ := s.args(t, t.TempDir(), addr)
	get := func(query string) error {
		r, err := http.Get("http://" + addr + "/api/v1/query?query=" + url.QueryEscape(query))
		if err != nil {
			return err
		}
		defer r.Body.Close()
		if _, err = io.Copy(io.Discard, r.Body); err == nil && r.StatusCode != http.StatusOK {
			err = errors.New(r.Status)
		}
		return err
	}
	profileCase(t, exec.Command(bin, args...), filepath.Join(dir, "prometheus.tach"), func() {
		err := get("up")
		for begin := time.Now(); err != nil && time.Since(begin) < time.Minute; err = get("up") {
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(8 * time.Second) // it collects metrics
		for range 10 {
			for range 40 {
				err = errors.Join(err, get("up"))
				time.Sleep(10 * time.Millisecond)
			}
			err = errors.Join(err, get(`max_over_time(sum({__name__=~".+"})[20s:1ms])`))
		}
		if err != nil {
			t.Error(err)
		}
	})
	http.DefaultClient.CloseIdleConnections()
}

// profileCase starts a program with package auto, calls load and ends it by SIGTERM.
func profileCase(t *testing.T, cmd *exec.Cmd, out string, load func()) {
	t.Helper()
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Env = append(os.Environ(), "PROFILE_OUT="+out)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	load()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("the program has ended: %v", err)
	}
	_ = cmd.Wait() // most of the programs end by the signal
	if _, err := os.Stat(out); err != nil || t.Failed() {
		t.Fatalf("%v\n%s", err, said.String())
	}
}
