package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/gotach/profiler/internal/testenv"
)

var (
	codeBlocks = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```\n")
	inTicks    = regexp.MustCompile("`([^`\n]+)`")
	anyCommand = regexp.MustCompile(`^([A-Z_]+=\S+ )*(gotach|go)( [a-z]|$)`)
)

// docPages returns the documents, by name.
func docPages() map[string]string {
	pages := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		for _, path := range testenv.Must(filepath.Glob(filepath.Join("../..", pattern))) {
			pages[filepath.ToSlash(path[len("../../"):])] = string(testenv.Must(os.ReadFile(path)))
		}
	}
	return pages
}

// docCommands returns the gotach and go commands of a page: lines of its blocks, and what stands in backticks.
func docCommands(page string) (list []string) {
	add := func(line string) {
		line, _, _ = strings.Cut(strings.TrimPrefix(line, "$ "), " #")
		line = strings.TrimPrefix(strings.TrimSpace(line), "go run ./cmd/")
		if anyCommand.MatchString(line) && !strings.Contains(line, "toy") { // of a recipe
			list = append(list, line)
		}
	}
	for _, block := range codeBlocks.FindAllStringSubmatch(page, -1) {
		for line := range strings.Lines(block[2]) {
			if block[1] == "sh" || strings.HasPrefix(line, "$ ") {
				add(line)
			}
		}
	}
	for _, m := range inTicks.FindAllStringSubmatch(codeBlocks.ReplaceAllString(page, ""), -1) {
		add(m[1])
	}
	return list
}

// Every command gotach and go in the documents works as it stands, on a small profile, and there is every flag that they name.
// TestDocNames looks at go test, and TestPeerReadmeProfile runs what the README says about programs.
func TestDocCommands(t *testing.T) {
	testenv.Long(t)
	pages, flags, options := docPages(), map[string]bool{"--version": true, "--help": true}, 0
	for _, c := range newRoot(&env{}).Commands() {
		for _, set := range []*pflag.FlagSet{c.LocalFlags(), c.InheritedFlags()} {
			set.VisitAll(func(f *pflag.Flag) { flags["--"+f.Name] = true })
		}
	}
	var all []string
	for name, page := range pages {
		all = append(all, docCommands(page)...)
		for _, m := range inTicks.FindAllStringSubmatch(codeBlocks.ReplaceAllString(page, ""), -1) {
			if flag := regexp.MustCompile(`^--[a-z-]+`).FindString(m[1]); flag != "" {
				options++
				testenv.FailIf(t, !flags[flag], "%s names %s, which no command of gotach has", name, flag)
			}
		}
	}
	slices.Sort(all)
	all = slices.DeleteFunc(slices.Compact(all), func(c string) bool {
		if !strings.HasPrefix(c, "gotach") {
			goCommand(t, c)
			return true
		}
		return false
	})
	received := 0
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		received++
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer receiver.Close()
	picture(t, pages["README.md"])
	t.Chdir(t.TempDir())
	docFolder(t)
	here := strings.NewReplacer("PID", "1073741824", "view app.tach", "view core", "go list std", "no-such-command", "-- sh -c 'no-such-command'", "-- no-such-command",
		"DIR", "profiles", "http://collector:4318", receiver.URL, ":9464", "127.0.0.1:0", "-d 1m", "-d 50ms", "libc.sleepSyscall", "demoMutex")
	times := regexp.MustCompile(`--since [\d.]+s --until [\d.]+s`) // of a recording that is longer
	names, done := regexp.MustCompile(`\b(demo|app|nats|sqlite|prometheus|old|before|after)\b`), map[string]bool{}
	for _, c := range all {
		same := names.ReplaceAllString(c, "x")
		if done[same] {
			continue // only the file is another one
		}
		done[same] = true
		docCommand(t, times.ReplaceAllString(here.Replace(c), "--since 0s --until 1s"))
	}
	testenv.FailIf(t, len(all) < 60 || options < 20 || received == 0, "%d commands ran, %d flags were found, and push sent %d messages", len(all), options, received)
}

// ran runs a command here and returns what it prints, and its exit code.
func ran(args ...string) (out, errs string, code int) {
	var stdout, stderr strings.Builder
	code = run(args, strings.NewReader(""), &stdout, &stderr)
	return stdout.String(), stderr.String(), code
}

// rightArguments matches what commands say if only what the arguments name is not there.
var rightArguments = regexp.MustCompile(`it needs a terminal|(?i: core: no such file)|there is no process 1073741824|on Linux only|there is no go.mod|no-such-command`)

// docCommand runs a command of gotach. What has no arguments is a name, whose help must be there.
func docCommand(t *testing.T, c string) {
	var words []string
	for _, w := range regexp.MustCompile(`'[^']*'|\S+`).FindAllString(c, -1)[1:] {
		if found, _ := filepath.Glob(w); strings.Contains(w, "*") && len(found) > 0 {
			words = append(words, found...)
		} else {
			words = append(words, strings.Trim(w, "'"))
		}
	}
	switch {
	case len(words) == 1:
		words = append(words, "--help")
	case words[0] == "push":
		words = append(words, "--once")
	case words[0] == "demo" && !slices.Contains(words, "-d"):
		words = append(words, "-d", "50ms")
	}
	out, errs, code := ran(words...)
	testenv.FailIf(t, !rightArguments.MatchString(errs) && (code != exitOK || out+errs == "" && !slices.Contains(words, "-o")), "%s: exit code %d\n%s%s", c, code, out, errs)
}

// picture checks that the report in README.md has the sections that a report has.
func picture(t *testing.T, readme string) {
	_, shown, _ := strings.Cut(readme, "<!-- picture: gotach report demo.tach -->")
	shown, _, _ = strings.Cut(shown, "<!-- /picture -->")
	sections := func(text string) (list []string) {
		for _, line := range regexp.MustCompile(`(?m)^ *[A-Z]+( +[A-Z]+)+$`).FindAllString(text, -1) {
			list = append(list, strings.Join(strings.Fields(line), " "))
		}
		return list
	}
	got, known := sections(shown), false
	for _, path := range testenv.Must(filepath.Glob("../../internal/analyze/testdata/sessions/*.screen")) {
		known = known || slices.Equal(got, sections(string(testenv.Must(os.ReadFile(path)))))
	}
	testenv.FailIf(t, !known, "the report in README.md has the sections %q; no screen of TestFirstScreens has these", got)
}

// docFolder makes all profiles that the documents name, in the present folder.
func docFolder(t *testing.T) {
	t.Run("demo", demonstrates)
	must(os.Mkdir("profiles", 0o755))
	writeFixture("old.tach", crowded, "200") // which is read in less time
	for from, names := range map[string][]string{"demo": {"app", "app.1", "nats", "sqlite"}, "old": {"test", "before", "after", "prometheus", "profiles/app.1"}} {
		b := testenv.Must(os.ReadFile(from + ".tach"))
		for _, name := range names {
			must(os.WriteFile(name+".tach", b, 0o600)) // no link: some commands write to these files
		}
	}
}

// goCommand looks for what a go command names.
func goCommand(t *testing.T, c string) {
	_, arguments, _ := strings.Cut(c, "go ")
	words := append(strings.Fields(arguments), "")
	has := func(folder, pattern string) {
		var text strings.Builder
		for _, path := range testenv.Must(filepath.Glob(filepath.Join("../..", folder, "*.go"))) {
			text.Write(testenv.Must(os.ReadFile(path)))
		}
		testenv.FailIf(t, !regexp.MustCompile(pattern).MatchString(text.String()), "%s: no %s in %s", c, pattern, folder)
	}
	switch {
	case words[0] == "test": // TestDocNames looks for the tests
	case words[0] == "install" || words[0] == "mod" || arguments == "run .": // by TestPeerReadmeProfile
	case strings.Contains(arguments, "@"): // the network
	case words[0] == "tool" && slices.Contains([]string{"pprof", "trace"}, words[1]):
	case words[0] == "generate":
		has(words[1], "(?m)^//go:generate ")
	case words[0] == "run":
		has(words[1], "(?m)^package main")
		for _, m := range regexp.MustCompile(` -([a-z]+)`).FindAllStringSubmatch(arguments, -1) {
			has(words[1], `\w\(.*"`+m[1]+`", .*\)`)
		}
	default:
		t.Errorf("nothing tries %s", c)
	}
}
