package gotest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// unpack writes the files of an archive in testdata to a new directory and returns it.
func unpack(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	a := testenv.Must(txtar.ParseFile(filepath.Join("testdata", name+".txtar")))
	for _, f := range a.Files {
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		testenv.OK(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, f.Data, 0o644)))
	}
	return dir
}

// goTest runs go test without a profile.
func goTest(t *testing.T, args ...string) (out, errs string, code int) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"test"}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// profiled runs go test with a profile.
func profiled(t *testing.T, file string, args ...string) (out, errs string, res *Result) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	res, err := Run(context.Background(), Options{Args: args, Output: file, Stdout: &stdout, Stderr: &stderr})
	if err != nil {
		t.Fatalf("%v\n%s%s", err, stdout.String(), stderr.String())
	}
	return stdout.String(), stderr.String(), res
}

var (
	times      = regexp.MustCompile(`\d+\.\d+s\b|\(cached\)`)
	benchmarks = regexp.MustCompile(`(?m)^(Benchmark\S+)\s.* ns/op.*$`)
	addresses  = regexp.MustCompile(`0x[0-9a-f]+|\+0x[0-9a-f]+|goroutine \d+|testing\.go:\d+|0xc[0-9a-f]+`)
	spaces     = regexp.MustCompile(`[ \t]+`)
)

// lines returns the lines of go test's output without times and addresses, sorted: packages and parallel
// tests end in any order.
func lines(text string) []string {
	text = times.ReplaceAllString(text, "T")
	text = benchmarks.ReplaceAllString(text, "$1")
	text = addresses.ReplaceAllString(text, "X")
	text = spaces.ReplaceAllString(text, " ")
	list := strings.Split(text, "\n")
	slices.Sort(list)
	return list
}

// A test is a package and the name of a test in it.
type test struct{ pkg, name string }

var (
	runs    = regexp.MustCompile(`(?m)^=== RUN +(.*)$`)
	results = regexp.MustCompile(`^(?:FAIL|ok  )\t(\S+)\t`)
)

// ran returns the tests that ran, without subtests, by the output of go test -v -p=1.
func ran(out string) map[test]bool {
	found := map[test]bool{}
	var names []string
	for l := range strings.Lines(out) {
		if m := runs.FindStringSubmatch(l); m != nil {
			name, _, _ := strings.Cut(m[1], "/")
			names = append(names, name)
		}
		if m := results.FindStringSubmatch(l); m != nil {
			for _, n := range names {
				found[test{m[1], n}] = true
			}
			names = nil
		}
	}
	return found
}

// labels returns the time of each test in a profile. It also returns the tests that have a function's time.
func labels(t *testing.T, file, function string) (found, of map[test]time.Duration) {
	t.Helper()
	in := testenv.Must(formats.OpenAll([]string{file}, formats.Options{}))
	defer in.Close()
	src := testenv.Must(in.Source(stream.Options{Labels: true}))
	found, of = map[test]time.Duration{}, map[test]time.Duration{}
	for s := range testenv.All(t, src.Samples()) {
		if s.Labels == nil {
			continue
		}
		pkg, _ := s.Labels.Get("package")
		name, _ := s.Labels.Get("test")
		found[test{pkg, name}] += s.Wall
		for _, n := range src.AppendStack(nil, s.Stack) {
			if src.Frames()[n].Func == function {
				of[test{pkg, name}] += s.Wall
			}
		}
	}
	return found, of
}

// compare runs the tests of a module with and without a profile, and compares what keep leaves of standard output. The tests of
// the profile, whose file it returns, are some that ran or that "=== RUN" does not name.
func compare(t *testing.T, dir string, keep func(string) string, args ...string) (file string) {
	t.Helper()
	args = append([]string{"-C=" + dir, "-count=1", "-v", "-p=1"}, args...)
	file = filepath.Join(t.TempDir(), "test.tach")
	out, errs, res := profiled(t, file, args...)
	plainOut, plainErrs, code := goTest(t, args...)
	testenv.NoDiff(t, "stdout", cmp.Diff(lines(keep(plainOut)), lines(keep(out))))
	testenv.NoDiff(t, "stderr", cmp.Diff(lines(plainErrs), lines(errs)))
	testenv.Same(t, "exit code", res.Code, code)
	if len(res.Without) > 0 {
		t.Errorf("not in the profile: %q", res.Without)
	}
	in := testenv.Must(reader.Open(file))
	if m, err := in.Metadata(); err != nil || m.Session.Budget != 10 {
		t.Errorf("the budget of tests: %+v, %v", m.Session, err)
	}
	testenv.OK(t, in.Close())
	found, _ := labels(t, file, "")
	all, counted := ran(out), 0
	for name := range found {
		if name.name == "" {
			continue
		}
		counted++
		if !all[name] && !strings.HasPrefix(name.name, "Benchmark") {
			t.Errorf("%v is in the profile, and did not run", name)
		}
	}
	testenv.Same(t, "tests in the profile", counted, res.Tests)
	return file
}

func whole(text string) string { return text }

// A module with packages of all kinds, some of which fail: go test does the same, and tests that take some time are in the profile.
func TestMixed(t *testing.T) {
	testenv.Again(t)
	testenv.Long(t)
	dir := unpack(t, "mixed")
	found, slept := labels(t, compare(t, dir, whole, "-vet=off", "-bench=.", "-benchtime=1x", "./..."), "example.com/mixed/plain.sleep")
	for _, want := range []test{
		{"example.com/mixed/plain", "ExampleDouble"},
		{"example.com/mixed/cmd", "BenchmarkRests"},
		{"example.com/mixed/plain", "FuzzDouble"},
	} {
		if _, ok := found[want]; !ok {
			t.Errorf("%v is not in the profile", want)
		}
	}
	// Its subtests wait for goroutines that sleep.
	one := test{"example.com/mixed/plain", "TestSleep"}
	if len(slept) != 1 || slept[one] == 0 || found[one] <= slept[one] {
		t.Errorf("%v of %v are sleeps: %v", slept[one], found[one], slept)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*", "*gotach*")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}
