package e2e

import (
	"flag"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/gotach/profiler/internal/testenv"
)

var update = flag.Bool("update", false, "write the goldens in testdata")

const architecture = "docs/architecture.md"

// docs returns the names of all documents.
func docs(t *testing.T) []string {
	t.Helper()
	pages := []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
	list := testenv.Must(os.ReadDir(filepath.Join(root(t), "docs")))
	for _, e := range list {
		if strings.HasSuffix(e.Name(), ".md") {
			pages = append(pages, "docs/"+e.Name())
		}
	}
	return pages
}

// prose returns a page without its blocks of code.
func prose(page string) string {
	return regexp.MustCompile("(?ms)^```.*?^```\n").ReplaceAllString(page, "")
}

// read returns a file of this repository.
func read(t *testing.T, name string) string {
	t.Helper()
	b := testenv.Must(os.ReadFile(filepath.Join(root(t), name)))
	return string(b)
}

// docs/recording.md, package documentation and code have the same environment variables.
func TestDocEnvironment(t *testing.T) {
	names := func(text string) []string {
		found := regexp.MustCompile(`PROFILE_[A-Z]+`).FindAllString(text, -1)
		slices.Sort(found)
		return slices.Compact(found)
	}
	_, table, _ := strings.Cut(read(t, "docs/recording.md"), "\n## Environment\n")
	_, doc, _ := strings.Cut(read(t, "doc.go"), "# Environment")
	code := names(read(t, "env.go"))
	testenv.SameList(t, "docs/recording.md has", names(table), code)
	testenv.SameList(t, "doc.go has", names(doc), code)
}

// Every link and anchor of the documents leads somewhere, and README leads to every page.
func TestDocLinks(t *testing.T) {
	var links, anchors int
	linked := map[string]bool{"README.md": true}
	for _, page := range docs(t) {
		// Code in backticks may look like a link.
		text := regexp.MustCompile("`[^`\n]*`").ReplaceAllString(prose(read(t, page)), "code")
		for _, m := range regexp.MustCompile(`\]\(([^)\s]*)\)`).FindAllStringSubmatch(text, -1) {
			links++
			u, err := url.Parse(m[1])
			switch {
			case err != nil || u.Scheme != "" && (u.Scheme != "https" || u.Host == ""):
				t.Errorf("%s links to %s", page, m[1])
				continue
			case u.Scheme != "":
				continue
			}
			target := page
			if u.Path != "" {
				target = path.Join(path.Dir(page), u.Path)
			}
			if page == "README.md" {
				linked[target] = true
			}
			if _, err := os.Stat(filepath.Join(root(t), target)); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			} else if u.Fragment != "" {
				anchors++
				testenv.FailIf(t, !headings(read(t, target))[u.Fragment], "%s links to %s, and there is no such heading", page, m[1])
			}
		}
	}
	testenv.FailIf(t, links < 50 || anchors < 5, "found only %d links, %d of them to headings", links, anchors)
	for _, page := range docs(t) {
		testenv.FailIf(t, !linked[page], "README.md does not lead to %s", page)
	}
}

// headings returns the anchors that GitHub gives to a page's headings.
func headings(page string) map[string]bool {
	anchors := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(prose(page), -1) {
		anchors[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, m[1])] = true
	}
	return anchors
}

// The bounds in docs/measurements.md are those of the tests that its commands run: each number with its unit stands on a line of the
// test's file that says how much there may be at most.
func TestDocBounds(t *testing.T) {
	_, table, _ := strings.Cut(read(t, "docs/measurements.md"), "\n## Bounds\n")
	table, _, _ = strings.Cut(table, "\n## ")
	var checked int
	command := ""
	for _, row := range regexp.MustCompile(`(?m)^\| (.*) \| (.*) \| (.*) \|$`).FindAllStringSubmatch(table, -1) {
		if strings.Contains(row[3], "go test") { // otherwise it is the command of the row before
			command = row[3]
		}
		for _, bound := range regexp.MustCompile(`([\d.]+) (%|ms|points|MB)`).FindAllStringSubmatch(row[2], -1) {
			checked++
			number := regexp.QuoteMeta(bound[1])
			if bound[2] == "MB" { // also in bytes
				whole, part, _ := strings.Cut(bound[1], ".")
				number += "|" + whole + "_" + (part + "000")[:3] + "_000"
			}
			limit := regexp.MustCompile(`(?m)^[^/]*(AtMost\(|figure\(|bound|most).*\b(` + number + `)\b`)
			testenv.FailIf(t, !limit.MatchString(testFiles(t, command)), "docs/measurements.md says %s of %q, and no such bound is in the file of %s", bound[0], row[1], command)
		}
	}
	testenv.FailIf(t, checked < 12, "checked only %d bounds", checked)
}

// testFiles returns the text of the files with the tests that a go test command runs.
func testFiles(t *testing.T, command string) string {
	pattern := regexp.MustCompile(` -run (\w+)`).FindStringSubmatch(command)
	testenv.StopIf(t, pattern == nil, "no test in %s", command)
	var text strings.Builder
	for _, folder := range regexp.MustCompile(` (\./[\w/]+)`).FindAllStringSubmatch(command, -1) {
		files := testenv.Must(filepath.Glob(filepath.Join(root(t), folder[1], "*_test.go")))
		for _, name := range files {
			b := testenv.Must(os.ReadFile(name))
			if regexp.MustCompile(`(?m)^func Test\w*` + pattern[1]).Match(b) {
				text.Write(b)
			}
		}
	}
	return text.String()
}

// The pages that speak of the code. All that they name must be declared; other pages also name what others have.
var inside = []string{architecture, "CONTRIBUTING.md"}

var (
	testName = regexp.MustCompile(`^(Test|Fuzz|Benchmark)[A-Z]\w*(/[\w ]+)?$`)
	codeName = regexp.MustCompile(`^\w+(\.\w+){1,2}$`)
	// face matches the functions and types of packages that a program imports.
	face = regexp.MustCompile(`\b(profiler|auto|httpprof|ui|proftest|reader)\.([A-Z]\w*(?:\.[A-Z]\w*)?)`)
)

// All that the documents name exists: files, functions, tests, variables, steps of .ci/run, and the packages
// and tests of go test commands. The pages about the code name all packages that import unsafe.
func TestDocNames(t *testing.T) {
	ci, code := read(t, ".ci/run"), readCode(t)
	goroot := strings.TrimSpace(run(t, ".", nil, "go", "env", "GOROOT"))
	var files, names, tests, variables int
	for _, page := range docs(t) {
		text := read(t, page)
		code.page = page
		for line := range strings.Lines(prose(text)) {
			if strings.Count(line, "`")%2 != 0 { // names after it would not be found
				t.Errorf("%s: an odd number of backticks: %s", page, line)
			}
		}
		for _, m := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(prose(text), -1) {
			name := m[1]
			top, sub, _ := strings.Cut(name, "/")
			switch {
			case testName.MatchString(name):
				tests++ // names of subtests are strings in the code
				testenv.FailIf(t, name != "TestMain" && !code.tests[top] || sub != "" && !strings.Contains(code.text, strconv.Quote(sub)), "%s names %s, and there is no such test", page, name)
			case strings.HasPrefix(name, ".ci/run "):
				for step := range strings.FieldsSeq(strings.TrimPrefix(name, ".ci/run ")) {
					testenv.FailIf(t, !strings.Contains(ci, "\n"+step+"() {"), "%s names step %s, which .ci/run does not have", page, step)
				}
			case slices.Contains(inside, page) && codeName.MatchString(name) && !slices.Contains([]string{".go", ".md"}, path.Ext(name)):
				names++
				pkg, _, _ := strings.Cut(name, ".")
				testenv.FailIf(t, pkg != "runtime" && !code.declared[name], "%s names %s, which is not declared", page, name)
			case !strings.ContainsAny(name, " *<%") && code.folders[top] && strings.Contains(name, "/"):
				files++
				if _, err := os.Stat(filepath.Join(goroot, "src", name)); err == nil {
					break // of the standard library
				}
				testenv.Fails(t, page+" names a file", testenv.Err(os.Stat(filepath.Join(root(t), strings.TrimSuffix(name, "/...")))), "")
			}
		}
		for _, m := range face.FindAllStringSubmatch(text, -1) {
			names++
			testenv.FailIf(t, !code.declared[m[1]+"."+m[2]], "%s names %s, which is not declared", page, m[0])
		}
		for _, name := range regexp.MustCompile(`\b(PROFILE|GOTACH)_[A-Z_]+`).FindAllString(text, -1) {
			variables++
			testenv.FailIf(t, !strings.Contains(code.text, name), "%s names %s, which no code has", page, name)
		}
		for _, m := range regexp.MustCompile("\\bgo test [^`\n]*").FindAllString(text, -1) {
			code.checkCommand(t, m)
		}
	}
	testenv.FailIf(t, files < 60 || names < 60 || tests < 40 || variables < 40, "found only %d files, %d names, %d tests and %d variables", files, names, tests, variables)
	for _, dir := range code.unsafe {
		testenv.FailIf(t, !strings.Contains(read(t, architecture), "`"+dir+"`"), "%s imports unsafe, and %s does not say why", dir, architecture)
	}
	for _, page := range regexp.MustCompile(`docs/\w+\.md\b`).FindAllString(code.text, -1) {
		testenv.Fails(t, "the code names a page", testenv.Err(os.Stat(filepath.Join(root(t), page))), "")
	}
}

// code has the names in the module's Go files, including those for other systems.
type code struct {
	declared map[string]bool     // pkg.Func, pkg.Type, pkg.Type.Method
	tests    map[string]bool     // all tests
	in       map[string][]string // tests by directory
	unsafe   []string            // directories whose code imports unsafe
	folders  map[string]bool     // folders at the root that have code
	text     string              // text of all files but this, including .ci/run
	page     string              // the page that is read
}

func readCode(t *testing.T) *code {
	t.Helper()
	c := &code{declared: map[string]bool{}, tests: map[string]bool{}, in: map[string][]string{}, folders: map[string]bool{"docs": true, ".ci": true, "testdata": true}}
	var text strings.Builder
	dir := os.DirFS(root(t))
	err := fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git") {
			return fs.SkipDir
		}
		if d.IsDir() || path.Ext(name) != ".go" && name != ".ci/run" {
			return nil
		}
		b, err := fs.ReadFile(dir, name)
		if err != nil {
			return err
		}
		if path.Base(name) != "docs_test.go" {
			text.Write(b)
		}
		if path.Ext(name) == ".go" {
			c.add(name, string(b))
		}
		return nil
	})
	testenv.OK(t, err)
	c.text = text.String()
	return c
}

// These are of text with a newline before each line. With one, regexp looks for it; with ^ it tries each byte.
var (
	packageClause = regexp.MustCompile(`\npackage (\w+)`)
	functions     = regexp.MustCompile(`\nfunc (?:\((?:\w+ )?\*?(\w+)(?:\[.*?\])?\) )?(\w+)`)
	single        = regexp.MustCompile(`\n(?:var|const|type) (\w+)`)
	blocks        = regexp.MustCompile(`(?s)\n(?:var|const|type) \((\n.*?)\n\)`)
	interfaces    = regexp.MustCompile(`(?s)\ntype (\w+) interface \{(\n.*?)\n\}`)
	inBlock       = regexp.MustCompile(`\n\t([A-Za-z]\w*)`)
)

// add adds one file, which gofmt has formatted.
func (c *code) add(name, text string) {
	folder, test := path.Dir(name), strings.HasSuffix(name, "_test.go")
	if top, _, ok := strings.Cut(name, "/"); ok {
		c.folders[top] = true
	}
	text = "\n" + text
	all := functions.FindAllStringSubmatch(text, -1)
	for _, f := range all {
		if test && f[1] == "" {
			c.tests[f[2]] = true
			c.in[folder] = append(c.in[folder], f[2])
		}
	}
	if test {
		return
	}
	if (strings.Contains(text, "\nimport \"unsafe\"\n") || strings.Contains(text, "\n\t\"unsafe\"\n")) && !slices.Contains(c.unsafe, folder) {
		c.unsafe = append(c.unsafe, folder)
	}
	pkg := packageClause.FindStringSubmatch(text)[1]
	declare := func(names ...string) { c.declared[pkg+"."+strings.Trim(strings.Join(names, "."), ".")] = true }
	for _, f := range all {
		declare(f[1], f[2])
	}
	for _, d := range single.FindAllStringSubmatch(text, -1) {
		declare(d[1])
	}
	for _, block := range blocks.FindAllStringSubmatch(text, -1) {
		for _, d := range inBlock.FindAllStringSubmatch(block[1], -1) {
			declare(d[1])
		}
	}
	for _, i := range interfaces.FindAllStringSubmatch(text, -1) {
		for _, m := range inBlock.FindAllStringSubmatch(i[2], -1) {
			declare(i[1], m[1])
		}
	}
}

// checkCommand checks that the packages of a go test command exist, and that its -run, -bench and -fuzz
// match tests.
func (c *code) checkCommand(t *testing.T, command string) {
	t.Helper()
	_, args, _ := strings.Cut(command, "go test ")
	args, _, _ = strings.Cut(args, "#")
	args, _, _ = strings.Cut(args, "`")
	var dirs, patterns []string
	words := strings.Fields(args)
	for i, w := range words {
		w = strings.TrimSuffix(w, ")")
		switch {
		case w == ".": // of the reader's own module
			return
		case strings.HasPrefix(w, "./") && !strings.HasSuffix(w, "..."):
			dirs = append(dirs, path.Clean(w))
		case (w == "-run" || w == "-bench" || w == "-fuzz") && i+1 < len(words) && words[i+1] != "-":
			patterns = append(patterns, strings.Trim(strings.Split(words[i+1], "/")[0], "'"))
		}
	}
	for _, d := range dirs {
		testenv.FailIf(t, len(c.in[d]) == 0, "%s: %q: no tests in %s", c.page, command, d)
	}
	for _, p := range patterns {
		for one := range strings.SplitSeq(p, "|") {
			re, err := regexp.Compile(one)
			if err != nil {
				t.Errorf("%s: %q: %v", c.page, command, err)
				continue
			}
			testenv.FailIf(t, !slices.ContainsFunc(dirs, func(d string) bool { return slices.ContainsFunc(c.in[d], re.MatchString) }), "%s: %q: no test matches %s", c.page, command, one)
		}
	}
}
