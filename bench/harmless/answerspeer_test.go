//go:build linux && (amd64 || arm64) && peers

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

	"github.com/gotach/profiler/internal/testenv"
)

// TestPeerCases builds the three programs, profiles them and checks what gotach says now. With -update it writes that to docs/cases.md.
func TestPeerCases(t *testing.T) {
	testenv.Night(t, "the programs take minutes to build")
	dir := t.TempDir()
	testenv.Must(testenv.BuildGotach(dir))
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
	text := testenv.Must(os.ReadFile(answersPage))
	write(t, answersPage, strings.Replace(string(text), old, q.shorten(answer), 1))
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
	err := json.Unmarshal([]byte(gotach(t, dir, `requests sqlite.tach --func 'main.saveOrder$' --json`)), &r)
	testenv.StopIf(t, err != nil || len(r.Slowest) == 0, "%d slow requests: %v", len(r.Slowest), err)
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
	testenv.Fails(t, "gotach "+args+"\n"+said.String(), err, "")
	return string(out)
}

// profileAnswers writes a profile of testdata/answers with one of its faults.
func profileAnswers(t *testing.T, dir, fault string) {
	t.Helper()
	bin := filepath.Join(dir, "answers")
	gocmd(t, toolchain(t, t.TempDir()), "testdata/answers", "build", "-o", bin, ".")
	profileCase(t, exec.Command(bin, fault, t.TempDir()), filepath.Join(dir, fault+".tach"), func() { time.Sleep(12 * time.Second) })
}

// profilePrometheus writes a profile of prometheus while it answers queries. One of 41 asks for the greatest sum of
// all its metrics in each of 20,000 milliseconds.
func profilePrometheus(t *testing.T, dir string) {
	t.Helper()
	bin := buildPrometheus(t)
	l := testenv.Must(net.Listen("tcp", "localhost:0"))
	addr := l.Addr().String()
	l.Close()
	config := "global:\n  scrape_interval: 1s\nscrape_configs:\n  - job_name: self\n    static_configs:\n      - targets: ['" + addr + "']\n"
	files := t.TempDir()
	args := []string{"--config.file=" + write(t, filepath.Join(files, "prometheus.yml"), config),
		"--storage.tsdb.path=" + filepath.Join(files, "data"), "--web.listen-address=" + addr}
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
		testenv.FailIf(t, err != nil, "%v", err)
	})
	http.DefaultClient.CloseIdleConnections()
}

// buildPrometheus builds prometheus with package auto, and without the file that imports clients of clouds.
func buildPrometheus(t *testing.T) string {
	t.Helper()
	work := t.TempDir()
	goroot := toolchain(t, work)
	module := moduleIn(t, goroot, work, "github.com/prometheus/prometheus@v0.307.3")
	write(t, filepath.Join(module, "cmd/prometheus/zz_gotach.go"), "package main\n\nimport _ \"github.com/gotach/profiler/auto\"\n")
	plugins := filepath.Join(module, "plugins/plugins.go")
	testenv.OK(t, os.Remove(plugins))
	write(t, plugins, "package plugins\n")
	bin := filepath.Join(work, "prometheus")
	gocmd(t, goroot, module, "build", "-mod=mod", "-o", bin, "./cmd/prometheus")
	return bin
}

// profileCase starts a program with package auto, calls load and ends it by SIGTERM.
func profileCase(t *testing.T, cmd *exec.Cmd, out string, load func()) {
	t.Helper()
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Env = append(os.Environ(), "PROFILE_OUT="+out)
	testenv.OK(t, cmd.Start())
	defer cmd.Process.Kill()
	load()
	testenv.Fails(t, "to end the program", cmd.Process.Signal(syscall.SIGTERM), "")
	_ = cmd.Wait() // most of the programs end by the signal
	_, err := os.Stat(out)
	testenv.StopIf(t, err != nil || t.Failed(), "%v\n%s", err, said.String())
}
