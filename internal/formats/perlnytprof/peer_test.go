//go:build peers

package perlnytprof

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
)

// perlData is what testdata/load.pl prints.
type perlData struct {
	Attributes map[string]string
	Files      []struct {
		FID    uint32
		Name   string
		Source int
		Lines  map[uint32]struct {
			Seconds float64
			Count   int64
		}
	}
	Subs []perlSub
}

type perlSub struct {
	Name, Package    string
	FID, First, Last uint32
	Calls            int64
	Incl, Excl       float64
}

// loadInPerl loads a file with the real Devel::NYTProf, which must not warn.
func loadInPerl(t testing.TB, tools map[string]string, file string) (d perlData) {
	t.Helper()
	cmd := exec.Command(tools["perl"], goldenDir+"load.pl", file)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	testenv.StopIf(t, err != nil || stderr.Len() > 0, "Devel::NYTProf: %v\n%s", err, stderr.String())
	testenv.OK(t, json.Unmarshal(out, &d))
	return d
}

// progress is what nytprofhtml says when all is well.
var progress = regexp.MustCompile(`(?m)^((Extracting subroutine|Generating subroutine stack flame).*)?\n`)

// noSource is what they say of a file that is neither in the profile nor on disk.
var noSource = regexp.MustCompile(`(?m)^((Extracting subroutine|Generating subroutine stack flame|Unable to open '(sort/|/nowhere/|/é)).*)?\n`)

// runTools runs the six commands on a file; none may fail or warn of anything
// but what is expected. It returns
// the directory with their output.
func runTools(t testing.TB, tools map[string]string, file string, expected *regexp.Regexp) string {
	t.Helper()
	dir := t.TempDir()
	for _, args := range [][]string{
		{"nytprofhtml", "--file", file, "--out", "html"},
		{"nytprofcsv", "--file", file, "--out", "csv"},
		{"nytprofcg", "--file", file, "--out", "callgrind.out"},
		{"nytprofcalls", file},
		{"nytprofpf", "--file", file, "--out", "pf.csv"},
		{"nytprofmerge", "--out", "merged.out", file},
	} {
		cmd := exec.Command(tools[args[0]], args[1:]...)
		cmd.Dir = dir
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		said := expected.ReplaceAllString(stderr.String(), "")
		testenv.FailIf(t, err != nil || said != "", "%v: %v\n%s", args, err, said)
		testenv.OK(t, os.WriteFile(filepath.Join(dir, args[0]+".stdout"), out, 0o600))
	}
	return dir
}

func writeProfile(t testing.TB, p *profile.Profile, o Options) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nytprof.out")
	f := testenv.Must(os.Create(file))
	testenv.OK(t, Write(f, p, o))
	testenv.OK(t, f.Close())
	return file
}

func TestPeerPerlToolsOnGoProfile(t *testing.T) {
	tools := testenv.NYTProf(t)
	p := workload(t)
	for _, o := range []Options{{Source: workloadSource}, {Source: workloadSource, Uncompressed: true}, {NoSource: true}} {
		file := writeProfile(t, p, o)
		compareWithProfile(t, loadInPerl(t, tools, file), p)
		expected := progress
		if o.NoSource {
			expected = noSource
		}
		dir := runTools(t, tools, file, expected)

		calls := testenv.Must(os.ReadFile(filepath.Join(dir, "nytprofcalls.stdout")))
		testenv.Has(t, "nytprofcalls", string(calls), "runtime::main;main::main;runtime::[chan receive] 9000000\n")
		svg := testenv.Must(os.ReadFile(filepath.Join(dir, "html", "all_stacks_by_time.svg")))
		testenv.FailIf(t, bytes.Count(svg, []byte("<rect")) < 5, "flame graph of %d bytes", len(svg))
		pages := testenv.Files(t, filepath.Join(dir, "html", "*workload-go-*-line.html"), 1)
		testenv.Has(t, "the page of workload.go", string(testenv.Must(os.ReadFile(pages[0]))), "&lt;b&gt;not markup&lt;/b&gt; &amp;")
	}
}

// Names and files of any kind, as in files that gotach did not write, do not make
// Perl's tools fail or warn.
func TestPeerPerlToolsOnStrangeNames(t *testing.T) {
	tools := testenv.NYTProf(t)
	m := newMaker()
	for i, name := range []string{
		"", "f", "<module>", "a::b", "std::vector<int>::push", "::", "x::", ".", "a.", ".b", "main.a\tb", "main.a\nb", "main.\"q\" 'q'",
		"main.%s%d", "main.#$@", "main.`id`", "main.\xff\xfe", "main.日本", "0", "[", "[]", "main.main/1", "a b.c d", "(eval 1)", "main.__ANON__[/x:3]",
		"main.a\\b", "main.a|b", "main.&lt;", "main.CORE:print", "main.BEGIN", "main.\x00",
	} {
		file := []string{"/x/y.pl", "", "<string>", "~", "-e", "(eval 3)[/x/y.pl:2]", "a\nb", "/a;b/c%d.go", "C:\\x\\y.go"}[i%9]
		m.add(1, 3, 3_000_000, "", profile.Frame{Func: name, File: file, Line: int32(i - 2)}, profile.Frame{Func: "main.main", File: "/m.go", Line: 3})
		m.add(1, 1, 1_000_000, "", profile.Frame{Func: "main.leaf", File: "/m.go", Line: 9}, profile.Frame{Func: name, File: file, Line: int32(i)})
	}
	file := writeProfile(t, m.Finish(), Options{})
	loadInPerl(t, tools, file)
	runTools(t, tools, file, progress)
}

// compareWithProfile compares times per sub and per line with those of p.
func compareWithProfile(t testing.TB, d perlData, p *profile.Profile) {
	t.Helper()
	want := figuresOf(p)
	near := func(seconds, ns float64, samples int64) bool {
		return math.Abs(seconds*1e9-ns) <= 100*float64(samples+1) // a tick each
	}
	subs := map[string]perlSub{}
	for _, s := range d.Subs {
		subs[s.Name] = s
	}
	for name, total := range want.total {
		s, n := subs[perlName(name)], want.records[name]
		if !near(s.Incl, total, n) || !near(s.Excl, want.self[name], n) || s.Package == "" || s.Calls == 0 || s.First == 0 {
			t.Errorf("%s: in Perl %+v, want inclusive %g ns, exclusive %g ns", name, s, total, want.self[name])
		}
		delete(subs, s.Name)
	}
	for _, s := range subs {
		testenv.FailIf(t, s.Incl != 0 || s.Excl != 0, "sub %s is not in the profile", s.Name)
	}
	seconds, counts := map[profile.Frame]float64{}, map[profile.Frame]int64{}
	for _, f := range d.Files {
		for line, l := range f.Lines {
			at := profile.Frame{File: f.Name, Line: int32(line)}
			if f.Name == noFile { // one line a function
				at = profile.Frame{}
			}
			seconds[at] += l.Seconds
			counts[at] += l.Count
		}
	}
	testenv.NoDiff(t, "samples by line", cmp.Diff(want.counts, counts))
	for at, ns := range want.line {
		testenv.FailIf(t, !near(seconds[at], ns, counts[at]), "%v: %g s, want %g ns", at, seconds[at], ns)
	}
}
