package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gotach/profiler/internal/analyze/diff"
	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/analyze/requests"
	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
)

// Texts in tables: durations, names in little room, sparks, and words of commands that the user may type, of which none becomes a command itself.
func TestTexts(t *testing.T) {
	const encoder, text = "github.com/klauspost/compress/zstd.(*Encoder).Write", "handler=/suche kunde=Zoë Müller-日本"
	for _, c := range [][2]string{
		{duration(0), "0"}, {duration(999), "999ns"}, {duration(1234), "1.23µs"}, {duration(45678), "45.7µs"}, {duration(999999), "1000µs"},
		{duration(1500 * time.Microsecond), "1.50ms"}, {duration(62 * time.Second), "62.0s"}, {duration(999 * time.Second), "999s"},
		{duration(3000 * time.Second), "50m00s"}, {duration(2 * time.Hour), "2h00m"}, {duration(99*time.Hour + 59*time.Minute), "99h59m"}, {duration(100 * time.Hour), "100h"}, {duration(1<<63 - 1), "106752d"},
		{shorten("main.main", 20), "main.main"}, {shorten(encoder, 60), encoder}, {shorten(encoder, 40), "…/compress/zstd.(*Encoder).Write"}, {shorten(encoder, 26), "…/zstd.(*Encoder).Write"}, {shorten(encoder, 12), "zst…r).Write"},
		{shorten("example.com/a.F[github.com/x/y.T]", 25), "…/a.F[github.com/x/y.T]"}, {shorten("goroutine 12 github.com/a/b/c.worker", 28), "goroutine 12 …/a/b/c.worker"}, {shorten("goroutine 12 worker", 3), "goroutine 12 …"},
		{cut(text, 40), text}, {cut(text, 36), text}, {cut(text, 35), "handler=/suche kunde=Zoë Müller-日…"}, {cut(text, 20), "handler=/suche kund…"},
		{quoted("app.tach"), "app.tach"}, {quoted("/tmp/日本-1.tach"), "/tmp/日本-1.tach"}, {quoted("a b"), "'a b'"}, {quoted("$(id)"), "'$(id)'"},
		{quoted("a';id;'"), `'a'\'';id;'\'''`}, {quoted("-x"), "'-x'"}, {quoted(""), "''"}, {quoted("~"), "'~'"},
		{sparks([]float32{-8, 0, 8, -0.1}, 4), "▁▁█▁"}, // a difference can be below zero
		{paragraphs("a bc\ndef\n\n  as  it is\ng hi jk", 6), "a bc\ndef\n\n  as  it is\ng hi\njk"},
	} {
		testenv.Same(t, "a text", c[0], c[1])
	}
	slow := &requests.Requests{Number: requests.Number{Count: 100, Low: 20, High: 300}, Unfinished: 12, Oldest: time.Minute, Histogram: []requests.Bucket{{To: 1000, Count: 90}, {From: 1000, To: 2000, Count: 10}}}
	testenv.Has(t, "requests", string((&requestTable{r: slow}).render("x")), "12 not finished, after up to 60.0s\n", "up to 1.00µs  10..290  ████████████████████\n", " 10  ████████████████████\n")
}

// In 80 columns the table of locks fits, and the lines that goroutines waited at are in it.
func TestLocksFit(t *testing.T) {
	lock := locks.Lock{
		Name: "c.mu", Kind: "sync.RWMutex", Object: 121, Goroutines: 48, Waits: 49, Waited: time.Second,
		Sites:  []locks.Site{{Reason: "sync.RWMutex.RLock", Func: "main.(*catalogue).lookup", File: "/src/main.go", Line: 27, Waits: 49, Waited: time.Second}},
		Holder: &locks.Holder{TooShort: true, Inferred: time.Second, Lines: []locks.HolderLine{{State: "sleep", Time: time.Second, HolderFrame: locks.HolderFrame{Func: "main.(*catalogue).reload", File: "/src/main.go", Line: 38}}}},
	}
	table := &lockTable{width: 80, top: 10}
	table.render("x.tach", &locks.Locks{Locks: []locks.Lock{lock}, Tick: 1120 * time.Microsecond})
	text := table.b.String()
	for line := range strings.Lines(text) {
		n := utf8.RuneCountInString(line) - 1
		testenv.FailIf(t, n > 80, "%d columns: %s", n, line)
	}
	testenv.Has(t, "the table", text, "main.go:27", "main.go:38")
}

// A table with any names fits into its width and has no control characters.
func TestTableFits(t *testing.T) {
	long := strings.Repeat("github.com/very/long/import/path", 9) + ".(*Type[...]).Method"
	p := &profile.Profile{
		Frames: []profile.Frame{
			{Func: long, File: "/a/" + strings.Repeat("file", 30) + ".go", Line: 1 << 30},
			{Func: "\x1b[31mred\x07", File: "x\n.go", Line: 1},
			{Func: "日本語日本語日本語日本語", File: "日本.go", Line: 3},
		},
		Goroutines: 1 << 20, Samples: 1 << 40,
		Records: []profile.Record{
			{Goroutine: 1 << 63, Stack: []uint32{0, 1, 2}, Wall: 1 << 62, CPU: 1 << 62},
			{Stack: []uint32{1}, Wall: 1},
		},
	}
	for _, by := range profile.Bys {
		for _, columns := range []int{minWidth, 100, 120, 200} {
			for _, sort := range []profile.Sort{profile.SortSelf, profile.SortTotal} {
				o := profile.ReportOptions{By: by, Sort: sort}
				r := testenv.Must(profile.New(p, o))
				table := &reportTable{width: columns, o: o, r: r, p: p, name: "x.tach", format: "tach", spark: columns == 120}
				for line := range strings.Lines(string(table.render())) {
					line = strings.TrimSuffix(line, "\n")
					n := utf8.RuneCountInString(line)
					testenv.FailIf(t, n > columns, "by %s: %d columns, not %d: %s", by, n, columns, line)
					testenv.FailIf(t, strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }), "by %s: %q", by, line)
				}
			}
		}
	}
}

// What a terminal without Unicode gets has the same columns, and only ASCII.
func TestASCII(t *testing.T) {
	text := strings.Repeat("█▒░", 2) + sparks([]float64{0, 1, 2, 3, 4, 5, 6, 7}, 8) + "a → b … 1–2 µs ├ └ │"
	got := ascii.Replace(text)
	testenv.Same(t, text+" in ASCII: "+got, len(got), utf8.RuneCountInString(text))
	for _, c := range []struct {
		env  map[string]string
		want bool
	}{
		{nil, true},
		{map[string]string{"LANG": "C.UTF-8"}, true},
		{map[string]string{"LANG": "en_US.utf8", "LC_ALL": "C"}, false},
		{map[string]string{"LC_CTYPE": "de_DE.ISO-8859-1"}, false},
	} {
		testenv.Same(t, c.env, unicodeLocale(func(name string) string { return c.env[name] }), c.want)
	}
}

// demonstrates runs the demo in an empty folder. It prints what it runs, and then what report prints. Variables for the output and rotation have no effect on it. It
// exports like a program that imports package export.
func demonstrates(t *testing.T) {
	const out, folded = "demo.tach", "x.folded"
	t.Setenv("PROFILE_OUT", "elsewhere")
	t.Setenv("PROFILE_ROTATE", "60s")
	t.Setenv("PROFILE_EXPORT", "collapsed="+folded)
	text := ok(t, "demo", "-d", "300ms", "-o", out)
	testenv.Has(t, "the demo", text, "hot CPU", "mutex", "pipeline", "sleep", "file", "network", "garbage", "gotach view "+out+" opens it", "defer profiler.Start().Stop()")
	testenv.Has(t, "the demo", text, ok(t, "report", out))
	testenv.Has(t, "verify", ok(t, "verify", out), "OK", "checksum right")
	testenv.Has(t, "verify", ok(t, "verify", folded), "OK")
	testenv.Has(t, "info", ok(t, "info", "--json", out), `"budget_percent": 10,`)
	testenv.Same(t, "files", len(testenv.Must(os.ReadDir("."))), 2)
}

// ok runs a command that must succeed and say nothing on standard error.
func ok(t *testing.T, args ...string) string {
	t.Helper()
	out, errs, code := ran(args...)
	testenv.FailIf(t, code != exitOK || errs != "", "%v: exit %d: %s", args, code, errs)
	return out
}

// A line of help is at most 80 columns long, whatever the source's is. Only commands of examples are not broken. Help texts stand in raw
// strings, in which the source's indentation would show.
func TestHelp(t *testing.T) {
	root := newRoot(&env{ctx: t.Context()})
	for _, c := range append(root.Commands(), root) {
		testenv.FailIf(t, strings.Contains(c.Short+c.Long+c.Example, "\t"), "help of %s has a tab", c.Name())
		args := []string{"help", c.Name()}
		if c == root {
			args = args[:1]
		}
		text := ok(t, args...)
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			testenv.FailIf(t, utf8.RuneCountInString(line) > helpWidth && !strings.HasPrefix(line, "  gotach "), "%s: %q", c.Name(), line)
		}
		testenv.FailIf(t, strings.Count(text, "\n") < 4, "help of %s: %s", c.Name(), text)
	}
}

// What depends on the machine has no interval. Rows that are by chance are one line, and goroutines are a number.
func TestDiffTable(t *testing.T) {
	d := &diff.Diff{Per: "wall", Rows: []diff.Row{
		{Name: "[CPU]", Level: diff.LevelWhole, What: diff.WhatCPU, A: 1.2, B: 1.25, Delta: 0.05, Low: -0.1, High: 0.2, P: 1, Tested: true},
		{Name: "[chan receive] main.forgotten", Level: diff.LevelSelf, What: diff.WhatWait, A: 50, B: 168, Delta: 118, Low: 80.9, High: 150.9, Significant: true, Tested: true},
		{Name: "main.check", Level: diff.LevelTotal, What: diff.WhatCPU, B: 0.04, Delta: 0.04, Low: 0.03, High: 0.05, Significant: true, Tested: true},
		{Name: "[runnable]", Level: diff.LevelSelf, What: diff.WhatWait, A: 1, B: 2, Delta: 1, Low: 1, High: 1, P: 1},
		{Name: "main.work", Level: diff.LevelSelf, What: diff.WhatCPU, A: 2, B: 2.5, Delta: 0.5, Low: -0.25, High: 0.75, P: 0.5, Tested: true},
	}}
	for _, c := range []struct {
		diffFlags
		wants, nones []string
	}{
		{diffFlags{}, []string{
			"    1.20     1.25  ~    +0.050      -0.10..+0.20       CPU, cores\n",
			"2 rows are different: CPU in percent of a core, waits as the number of goroutines\n",
			"    50.0      168         +118      +80.9..+151        waits      [chan receive] main.forgotten\n",
			"       0   4.00 %      +4.00 %    +3.00 %..+5.00 %     CPU total  main.check  new\n",
			"1 row did not change more than chance explains; --all shows it\nnot tested, of the machine: [runnable] 1.00 to 2.00\n",
		}, []string{"main.work"}},
		{diffFlags{all: true}, []string{"-25.0 %..+75.0 %     CPU        main.work\n", "+1.00       not tested        waits      [runnable]\n"}, []string{"--all"}},
		{diffFlags{top: 1}, []string{"[chan receive] main.forgotten\n", "\n1 more rows; --top 0 shows all\n"}, []string{"main.check"}},
	} {
		got := string(diffTable([2][]string{{"a"}, {"b"}}, d, c.diffFlags, false, 100))
		testenv.Has(t, "the table", got, c.wants...)
		for _, none := range c.nones {
			testenv.FailIf(t, strings.Contains(got, none), "%q in\n%s", none, got)
		}
	}
}

var update = flag.Bool("update", false, "write the table of formats in docs/formats.md")

// The table of formats in docs/formats.md is that of the code. With -update the test writes it.
func TestDocFormats(t *testing.T) {
	mark := map[bool]string{true: "yes", false: "–"}
	keeps := func(f *formats.Format) string {
		switch {
		case f.Series:
			return "samples"
		case f.Runs:
			return "runs"
		}
		return "sums"
	}
	var b strings.Builder
	b.WriteString("| format | read | write | keeps | files | what it is |\n|---|---|---|---|---|---|\n")
	for _, f := range formats.All() {
		files := "`" + strings.Join(f.Extensions, "` `") + "`"
		if f.Directory {
			files = "a directory, " + files
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", f.Name, mark[f.CanRead()], mark[f.CanWrite()], keeps(f), files, f.Doc)
	}
	testenv.Marked(t, "../../docs/formats.md", "formats", b.String(), *update)
}
