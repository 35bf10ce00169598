// Package e2e tests gotach as its users use it: with programs in other modules that one line profiles.
// The command gotach and tools of other projects read the profiles.
package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/reader"
)

// root returns the root directory of this module.
func root(t *testing.T) string {
	t.Helper()
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		t.Fatal("no source path")
	}
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// run runs a command in dir and returns what it printed to stdout.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

// gotach builds the command once, in a directory that TestMain removes, and returns
// its path.
var gotach = sync.OnceValues(func() (string, error) { return testenv.BuildGotach(built) })

var built string

// programs are functions that the test binary runs instead of the tests. The key is the environment
// variable that selects the program.
var programs = map[string]func(){}

func TestMain(m *testing.M) {
	for variable, run := range programs {
		if os.Getenv(variable) != "" {
			run()
			return
		}
	}
	var err error
	if built, err = os.MkdirTemp("", "gotach-e2e-"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(built)
	os.Exit(code)
}

func command(t *testing.T) string {
	t.Helper()
	path, err := gotach()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// moduleEnv makes the go command complete go.mod without the network.
var moduleEnv = []string{"GOWORK=off", "GOFLAGS=-mod=mod", "GOPROXY=off"}

// module creates a module with a program of testdata. It requires this module in its present state.
// module returns its directory.
func module(t *testing.T, name, file string) string {
	t.Helper()
	dir := t.TempDir()
	src, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root(t), "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	// Use the requirements of this module, so that the go command needs no others.
	_, require, _ := strings.Cut(string(mod), "\nrequire")
	text := fmt.Sprintf("module example.com/program\n\ngo 1.25.0\n\nrequire github.com/gotach/profiler v0.0.0\n\nreplace github.com/gotach/profiler => %s\n\nrequire%s", root(t), require)
	sum, err := os.ReadFile(filepath.Join(root(t), "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	for path, data := range map[string][]byte{file: src, "go.mod": []byte(text), "go.sum": sum} {
		if err := os.WriteFile(filepath.Join(dir, path), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// near fails the test if the error of a duration is larger than 3 % of the whole plus doubt.
func (d doubt) near(t *testing.T, what string, got, want, whole time.Duration) {
	t.Helper()
	points := 100 * float64(got-want) / float64(whole)
	t.Logf("%-34s %6.2f %% of the time, want %6.2f %%", what, 100*float64(got)/float64(whole), 100*float64(want)/float64(whole))
	if allowed := 3 + 100*float64(d)/float64(whole); math.Abs(points) > allowed {
		t.Errorf("%s: %v, want %v: an error of %.1f points, allowed are %.1f", what, got, want, points, allowed)
	}
}

// doubt is the sum of two times. In the first the program's threads were ready to run, but other programs
// had the cores. A tick in that time is late, and its sample cannot show that time. In the second there are
// no samples, and the program found a stall, perhaps because the whole machine was suspended; the kernel
// does not count that as waiting. On an idle machine doubt is nearly 0.
type doubt time.Duration

// unseen adds up by how much gaps between samples are longer than the median gap, for gaps that overlap a
// stall which the program found. Stalls and end are in µs. Other long gaps do not count: they are the
// profiler's own fault.
func unseen(t *testing.T, path string, stalls [][2]uint64, end uint64) (sum time.Duration) {
	t.Helper()
	r, err := reader.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	looks := []uint64{r.Header().Start, end}
	for s, err := range r.Samples() {
		if err != nil {
			t.Fatal(err)
		}
		looks = append(looks, s.Time)
	}
	slices.Sort(looks)
	looks = slices.Compact(looks)
	var gaps []uint64
	for i := range looks[1:] {
		gaps = append(gaps, looks[i+1]-looks[i])
	}
	ordinary := slices.Sorted(slices.Values(gaps))[len(gaps)/2]
	for i, gap := range gaps {
		stalled := slices.ContainsFunc(stalls, func(s [2]uint64) bool { return looks[i] < s[1] && s[0] < looks[i+1] })
		if stalled && gap > ordinary {
			sum += time.Duration(gap-ordinary) * time.Microsecond
		}
	}
	return sum
}

// A program spends 40 % of the time in a CPU loop, 40 % asleep and 20 % in a channel receive. gotach, go tool
// pprof and CPython's profiler must report these shares, gotach also by goroutine.
func TestShares(t *testing.T) {
	python := testenv.Python315(t)
	for _, source := range []string{"portable", "auto"} {
		t.Run(source, func(t *testing.T) { testShares(t, source, python) })
	}
}

func testShares(t *testing.T, source, python string) {
	dir := module(t, "shares.go.txt", "main.go")
	run(t, dir, moduleEnv, "go", "build", "-o", "program", ".")
	truth := map[string]time.Duration{}
	out := run(t, dir, []string{"PROFILE_OUT=x.tach", "PROFILE_SOURCE=" + source}, "./program")
	var stalls [][2]uint64
	for line := range strings.Lines(out) {
		var name string
		var ns int64
		if _, err := fmt.Sscan(line, &name, &ns); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if name == "stall" {
			var s [2]uint64
			if _, err := fmt.Sscan(line, &name, &s[0], &s[1]); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			stalls = append(stalls, s)
			continue
		}
		truth[name] = time.Duration(ns)
	}
	stalled := unseen(t, filepath.Join(dir, "x.tach"), stalls, uint64(truth["end"]))
	d := doubt(truth["delay"] + stalled)
	t.Logf("threads waited %v for a core; in %d stalls nothing was seen for %v", truth["delay"], len(stalls), stalled)
	functions := map[string]time.Duration{
		"main.spin": truth["spin"] + truth["spinner"],
		"main.nap":  truth["nap"] + truth["napper"],
		"main.wait": truth["wait"] + truth["waiter"],
	}
	var whole time.Duration
	for _, d := range functions {
		whole += d
	}
	goroutines := truth["spinner"] + truth["napper"] + truth["waiter"]

	t.Run("report", func(t *testing.T) {
		rows := func(by string) map[string]time.Duration {
			var r struct {
				Rows []struct {
					Name    string
					TotalNS int64 `json:"total_ns"`
				}
			}
			text := run(t, dir, nil, command(t), "report", "x.tach", "--json", "--top", "0", "--by", by)
			if err := json.Unmarshal([]byte(text), &r); err != nil {
				t.Fatal(err)
			}
			m := map[string]time.Duration{}
			for _, row := range r.Rows {
				m[row.Name] += time.Duration(row.TotalNS)
			}
			return m
		}
		got := rows("function")
		for name, want := range functions {
			d.near(t, name, got[name], want, whole)
		}
		// Each of the three goroutines lives as long as its function runs.
		for name, want := range map[string]time.Duration{"main.spinner": truth["spinner"], "main.napper": truth["napper"], "main.waiter": truth["waiter"]} {
			d.near(t, name, got[name], want, goroutines)
		}
		lives := rows("goroutine")
		var matched int
		for name, life := range lives {
			for fn, want := range map[string]time.Duration{"spinner": truth["spinner"], "napper": truth["napper"], "waiter": truth["waiter"]} {
				if strings.Contains(name, fn) {
					d.near(t, "goroutine: "+name, life, want, goroutines)
					matched++
				}
			}
		}
		if matched != 3 {
			t.Errorf("by goroutine: found %d of three in %v", matched, lives)
		}
	})

	t.Run("pprof", func(t *testing.T) {
		run(t, dir, nil, command(t), "convert", "x.tach", "-o", "x.pb.gz")
		text := run(t, dir, nil, "go", "tool", "pprof", "-top", "-cum", "-nodecount=0", "-unit=ns", "x.pb.gz")
		got := map[string]time.Duration{}
		for line := range strings.Lines(text) {
			f := strings.Fields(line) // flat flat% sum% cum cum% name
			if len(f) == 6 {
				if ns, err := strconv.ParseInt(strings.TrimSuffix(f[3], "ns"), 10, 64); err == nil {
					got[f[5]] += time.Duration(ns)
				}
			}
		}
		for name, want := range functions {
			d.near(t, name, got[name], want, whole)
		}
		for name, want := range map[string]time.Duration{"main.spinner": truth["spinner"], "main.napper": truth["napper"], "main.waiter": truth["waiter"]} {
			d.near(t, name, got[name], want, goroutines)
		}
	})

	// CPython's reader counts samples and does not weight them, so these are shares of counts.
	t.Run("cpython", func(t *testing.T) {
		run(t, dir, nil, command(t), "convert", "x.tach", "-o", "x.bin", "--to", "cpython315")
		run(t, dir, nil, python, "-m", "profiling.sampling", "replay", "x.bin", "--collapsed", "-o", "x.collapsed")
		f, err := os.Open(filepath.Join(dir, "x.collapsed"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		got, sum := map[string]int{}, 0
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			i := strings.LastIndexByte(lines.Text(), ' ')
			n, err := strconv.Atoi(lines.Text()[i+1:])
			if err != nil {
				t.Fatalf("%q: %v", lines.Text(), err)
			}
			for name := range functions {
				if strings.Contains(lines.Text(), ":"+name+":") {
					got[name] += n
					sum += n
				}
			}
		}
		for name, want := range functions {
			d.near(t, name, whole*time.Duration(got[name])/time.Duration(max(sum, 1)), want, whole)
		}
	})
}
