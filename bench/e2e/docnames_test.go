package e2e

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

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
		if path.Base(name) != "docnames_test.go" {
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
