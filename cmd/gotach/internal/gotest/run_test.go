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
	"github.com/gotach/profiler/tachyon"

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
	err := cmd.Run()
	testenv.StopIf(t, err != nil && cmd.ProcessState == nil, "%v", err)
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// profiled runs go test with a profile.
func profiled(t *testing.T, file string, args ...string) (out, errs string, res *Result) {
	var stdout, stderr bytes.Buffer
	res = testenv.Must(Run(context.Background(), Options{Args: args, Output: file, Stdout: &stdout, Stderr: &stderr}))
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
	in := testenv.Closes(t, testenv.Must(formats.OpenAll([]string{file}, formats.Options{})))
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
	testenv.FailIf(t, len(res.Without) > 0, "not in the profile: %q", res.Without)
	in := testenv.Must(reader.Open(file))
	m, err := in.Metadata()
	testenv.FailIf(t, err != nil || m.Session.Budget != 10, "the budget of tests: %+v, %v", m.Session, err)
	testenv.OK(t, in.Close())
	found, _ := labels(t, file, "")
	all, counted := ran(out), 0
	for name := range found {
		if name.name == "" {
			continue
		}
		counted++
		testenv.FailIf(t, !all[name] && !strings.HasPrefix(name.name, "Benchmark"), "%v is in the profile, and did not run", name)
	}
	testenv.Same(t, "tests in the profile", counted, res.Tests)
	return file
}

func whole(text string) string { return text }

// A module with packages of all kinds, some of which fail: go test does the same, and tests that take some time are in the profile.
func TestMixed(t *testing.T) {
	testenv.Again(t)
	testenv.Long(t)
	t.Parallel()
	dir := unpack(t, "mixed")
	found, slept := labels(t, compare(t, dir, whole, "-vet=off", "-bench=.", "-benchtime=1x", "./..."), "example.com/mixed/plain.sleep")
	const plain = "example.com/mixed/plain"
	for _, want := range []test{{plain, "ExampleDouble"}, {"example.com/mixed/cmd", "BenchmarkRests"}, {plain, "FuzzDouble"}} {
		_, ok := found[want]
		testenv.FailIf(t, !ok, "%v is not in the profile", want)
	}
	// Its subtests wait for goroutines that sleep.
	one := test{plain, "TestSleep"}
	testenv.FailIf(t, len(slept) != 1 || slept[one] == 0 || found[one] <= slept[one], "%v of %v are sleeps: %v", slept[one], found[one], slept)
	testenv.SameList(t, "left", testenv.Must(filepath.Glob(filepath.Join(dir, "*", "*gotach*"))), nil)
}

// A goroutine belongs to the test of the goroutine that started it. If that is not known, its own stack or its creator tells.
func TestInherited(t *testing.T) {
	main := []mainSpan{{0, ""}, {300, "ExampleA"}, {500, ""}}
	known := map[uint64]*tachyon.Goroutine{
		1: {ID: 1},
		5: {ID: 5, Parent: 1, First: 100}, 6: {ID: 6, Parent: 5, First: 150}, 7: {ID: 7, Parent: 1, First: 400},
		8: {ID: 8, Parent: 9}, 9: {ID: 9, Parent: 8},
	}
	names := map[uint64]string{5: "TestA", 6: "TestOther", 7: "BenchmarkA"}
	for i, c := range []struct {
		what   string
		parent uint64
		first  uint64
		name   string // by its own stack
		by     string // creator
		want   string
	}{
		{"started by nobody", 0, 450, "", "", ""},
		{"a test whose parent is not known", 99, 450, "TestB", "testing.(*T).Run", "TestB"},
		{"started by a test's goroutine", 5, 450, "", "net/http.(*Server).Serve", "TestA"},
		{"a subtest", 5, 450, "TestHelper", "testing.(*T).Run", "TestA"},
		{"started by a subtest's goroutine", 6, 450, "", "", "TestA"},
		{"started by a known goroutine of a subtest", 22, 450, "", "", "TestA"},
		{"started by the main goroutine before all examples", 1, 250, "", "", ""},
		{"in an example", 1, 350, "", "example.com/m.helper", "ExampleA"},
		{"afterwards", 1, 550, "", "", ""},
		{"a benchmark soon after an example", 1, 450, "BenchmarkB", "", "BenchmarkB"},
		{"started by a benchmark's goroutine", 7, 450, "", "", "BenchmarkA"},
		{"started by an unknown goroutine of a test", 99, 450, "", "example.com/m.v2.TestC.func1.2", ""},
		{"the same, in a path with a dot, as the runtime writes it", 99, 450, "", "example.com/m%2ev2.TestC.func1.2", "TestC"},
		{"started by an unknown goroutine of TestMain", 99, 450, "", "example.com/m.TestMain", ""},
		{"of no test", 99, 450, "", "example.com/m.Testify", ""},
		{"of a method", 99, 450, "", "example.com/m.(*S).TestX", ""},
		{"in a circle", 8, 450, "", "", ""},
	} {
		id := uint64(20 + i)
		known[id] = &tachyon.Goroutine{ID: id, Parent: c.parent, First: c.first, CreatedBy: c.by}
		names[id] = c.name
		tests := &tests{known: known, names: names, main: main, of: map[uint64]string{}}
		testenv.Same(t, c.what, tests.test(id, c.first), c.want)
	}
}

func TestParse(t *testing.T) {
	for _, tc := range []struct{ args, packages, build, rest string }{
		{"", "", "", ""},
		{"./...", "./...", "", "./..."},
		{"-run X ./a ./b -v", "./a ./b", "", "-run X ./a ./b -v"},
		{"-run=X -race -tags t,u ./a", "./a", "-race -tags t,u", "-run=X -race -tags t,u ./a"},
		{"--v -count 3 . -short x", ".", "", "--v -count 3 . -short x"},
		{"-mod=vendor -modfile m.mod ./a", "./a", "", "./a"},
		{"./a -args ./b -run", "./a", "", "./a -args ./b -run"},
		{"./a -update ./b -run", "./a", "", "./a -update ./b -run"}, // the test binary's flag
		{"-test.v -test.run X ./a", "./a", "", "-test.v -test.run X ./a"},
		{"-C dir ./a", "./a", "", "-C dir ./a"},
	} {
		c := testenv.Must(parse(strings.Fields(tc.args)))
		for _, v := range []struct {
			what, want string
			got        []string
		}{{"packages", tc.packages, c.packages}, {"build flags", tc.build, c.build}, {"arguments", tc.rest, c.args}} {
			testenv.SameList(t, tc.args+": "+v.what, v.got, strings.Fields(v.want))
		}
	}
	c, err := parse([]string{"-C=d", "-count=2", "-overlay", "o.json", "-mod=mod", "-modfile=m.mod"})
	testenv.FailIf(t, err != nil || c.dir != "d" || !c.counted || c.overlay != "o.json" || c.mod != "mod" || c.modfile != "m.mod", "%+v, %v", c, err)
}
