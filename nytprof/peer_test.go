package nytprof

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
)

// PerlData is what testdata/load.pl prints; exported for tests outside of the package.
type PerlData struct {
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
	Subs []struct {
		Name, Package    string
		FID, First, Last uint32
		Calls            int64
		Incl, Excl       float64
	}
}

// loadInPerl loads a file with the real Devel::NYTProf, which must not warn.
func loadInPerl(t testing.TB, tools map[string]string, file string) (d PerlData) {
	t.Helper()
	cmd := exec.Command(tools["perl"], "testdata/load.pl", file)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("Devel::NYTProf: %v\n%s", err, stderr.String())
	}
	if err := json.Unmarshal(out, &d); err != nil {
		t.Fatal(err)
	}
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
		if said := expected.ReplaceAllString(stderr.String(), ""); err != nil || said != "" {
			t.Errorf("%v: %v\n%s", args, err, said)
		}
		if err := os.WriteFile(filepath.Join(dir, args[0]+".stdout"), out, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func writeProfile(t testing.TB, p *profile.Profile, o Options) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nytprof.out")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(f, p, o); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestPerlToolsOnGoProfile(t *testing.T) {
	tools := testenv.NYTProf(t)
	p := workload(t)
	for _, o := range []Options{{}, {Uncompressed: true}, {NoSource: true}} {
		file := writeProfile(t, p, o)
		compareWithProfile(t, loadInPerl(t, tools, file), p)
		expected := progress
		if o.NoSource {
			expected = noSource
		}
		dir := runTools(t, tools, file, expected)

		calls, err := os.ReadFile(filepath.Join(dir, "nytprofcalls.stdout"))
		if err != nil {
			t.Fatal(err)
		}
		if want := "runtime::main;main::main;runtime::[chan receive] 9000000\n"; !strings.Contains(string(calls), want) {
			t.Errorf("nytprofcalls has no %q in\n%s", want, calls)
		}
		svg, err := os.ReadFile(filepath.Join(dir, "html", "all_stacks_by_time.svg"))
		if err != nil || bytes.Count(svg, []byte("<rect")) < 5 {
			t.Errorf("flame graph of %d bytes, %v", len(svg), err)
		}
		pages, err := filepath.Glob(filepath.Join(dir, "html", "*workload-go-*-line.html"))
		if err != nil || len(pages) != 1 {
			t.Fatal(pages, err)
		}
		page, err := os.ReadFile(pages[0])
		if err != nil || !bytes.Contains(page, []byte("&lt;b&gt;not markup&lt;/b&gt; &amp;")) {
			t.Errorf("%+v: the page of workload.go has no source, %v", o, err)
		}
	}
}

// Names and files of any kind, as in files that gotach did not write, do not make
// Perl's tools fail or warn.
func TestPerlToolsOnStrangeNames(t *testing.T) {
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
	file := writeProfile(t, &m.Profile, Options{})
	loadInPerl(t, tools, file)
	runTools(t, tools, file, progress)
}

// Without source Perl's tools look for the files themselves.
func TestNoSource(t *testing.T) {
	for _, none := range []bool{false, true} {
		var file bytes.Buffer
		if err := Write(&file, workload(t), Options{NoSource: none}); err != nil {
			t.Fatal(err)
		}
		lines := 0
		for c, err := range NewReader(&file).Chunks() {
			if err != nil {
				t.Fatal(err)
			}
			if l, ok := c.(*SrcLine); ok && strings.Contains(l.Text.Text, "not markup") {
				lines++
			}
		}
		if lines != 1 && !none || lines != 0 && none {
			t.Errorf("NoSource %v: the line is there %d times", none, lines)
		}
	}
}

// compareWithProfile compares times per sub and per line with those of p.
func compareWithProfile(t testing.TB, d PerlData, p *profile.Profile) {
	t.Helper()
	type place struct {
		file string
		line uint32
	}
	type times struct {
		incl, excl float64
		samples    int64
	}
	subs, lines := make(map[string]*times), make(map[place]*times)
	add := func(r *profile.Record) {
		seconds := r.Wall.Seconds()
		seen := make(map[string]bool)
		stack := r.Stack
		if n := len(stack); n > 1 && p.Frames[stack[n-1]].Func == "runtime.goexit" {
			stack = stack[:n-1]
		}
		for i, id := range stack {
			f := p.Frames[id]
			name := perlName(f.Func)
			if subs[name] == nil {
				subs[name] = new(times)
			}
			if !seen[name] {
				subs[name].incl += seconds
				subs[name].samples += r.Count
			}
			seen[name] = true
			if i > 0 {
				continue
			}
			subs[name].excl += seconds
			at := place{f.File, uint32(f.Line)}
			if f.File == "" {
				at.file = noFile + f.Func
			}
			if lines[at] == nil {
				lines[at] = new(times)
			}
			lines[at].excl += seconds
			lines[at].samples += r.Count
		}
	}
	for i := range p.Records {
		add(&p.Records[i])
	}

	const tick = 1.0 / ticksPerSecond
	near := func(a, b float64, samples int64) bool { return math.Abs(a-b) <= tick*float64(samples+1) }
	for _, s := range d.Subs {
		want := subs[s.Name]
		if want == nil {
			if s.Incl != 0 || s.Excl != 0 {
				t.Errorf("sub %s is not in the profile", s.Name)
			}
			continue
		}
		if !near(s.Incl, want.incl, want.samples) || !near(s.Excl, want.excl, want.samples) {
			t.Errorf("%s: inclusive %g, exclusive %g, want %g, %g", s.Name, s.Incl, s.Excl, want.incl, want.excl)
		}
		if s.Package == "" || s.Calls == 0 || s.First == 0 {
			t.Errorf("sub %+v", s)
		}
		delete(subs, s.Name)
	}
	for name := range subs {
		t.Errorf("Perl sees no sub %s", name)
	}
	for _, f := range d.Files {
		for line, got := range f.Lines {
			at := place{f.Name, line}
			if f.Name == noFile { // one line a function
				for where := range lines {
					if strings.HasPrefix(where.file, noFile) && near(lines[where].excl, got.Seconds, got.Count) {
						at = where
					}
				}
			}
			want := lines[at]
			if want == nil {
				t.Errorf("line %v is not in the profile", at)
				continue
			}
			if !near(got.Seconds, want.excl, want.samples) || got.Count != want.samples {
				t.Errorf("%v: %+v, want %+v", at, got, *want)
			}
			delete(lines, at)
		}
	}
	for at := range lines {
		t.Errorf("Perl sees no line %v", at)
	}
}
