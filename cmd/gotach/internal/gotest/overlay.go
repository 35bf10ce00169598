package gotest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// generatedName is the name of the file that each package under test gets. It exists only in the overlay.
const generatedName = "zz_gotach_test.go"

// hooks are added to package testing, at the end of a line, so that line numbers stay. Without
// profile they do nothing.
var hooks = []struct {
	file, after, add string
	must             bool // without it there is no profile
}{
	{"testing.go", "\nfunc MainStart(deps testDeps, tests []InternalTest, benchmarks []InternalBenchmark, fuzzTargets []InternalFuzzTarget, examples []InternalExample) *M {",
		" gotachStart(deps.ImportPath());", true},
	{"testing.go", "\nfunc (m *M) after() {", " gotachStop();", true},
	{"testing.go", "\n	m.timer = time.AfterFunc(*timeout, func() {", " gotachLate.Store(true);", false},
	{"testing.go", "\nfunc (m *M) stopAlarm() {", " gotachWait();", false},
	{"testing.go", "\nfunc tRunner(t *T, fn func(t *T)) {", " defer gotachEnd(gotachBegin(t.name));", true},
	{"fuzz.go", "\nfunc fRunner(f *F, fn func(*F)) {", " defer gotachEnd(gotachBegin(f.name));", false},
	{"benchmark.go", "\nfunc (b *B) runN(n int) {", " defer gotachEnd(gotachBegin(b.name));", false},
	{"run_example.go", "\nfunc runExample(eg InternalExample) (ok bool) {", " defer gotachEnd(gotachBegin(eg.Name));", false},
}

// hookCode is added to the end of testing.go.
const hookCode = `
// Gotach has what gotach test has linked in.
var Gotach struct {
	Start func(importPath string)
	Stop  func()
	Begin func(name string) uint64
	End   func(uint64)
}

func gotachStart(importPath string) {
	if Gotach.Start != nil {
		Gotach.Start(importPath)
	}
}

func gotachStop() {
	if Gotach.Stop != nil {
		Gotach.Stop()
	}
}

// gotachLate says that the time of -timeout is over. The process then ends the profile, which takes some ms, and panics. Tests
// that end meanwhile must not make it a success.
var gotachLate atomic.Bool

func gotachWait() {
	if gotachLate.Load() {
		select {}
	}
}

func gotachBegin(name string) uint64 {
	if Gotach.Begin == nil || name == "Main" { // Main runs all benchmarks
		return 0
	}
	return Gotach.Begin(name)
}

func gotachEnd(goroutine uint64) {
	if goroutine != 0 {
		Gotach.End(goroutine)
	}
}
`

// An overlay collects files that replace others in a build.
type overlay struct {
	dir     string // for the contents
	replace map[string]string
	files   int
}

// add adds a file with a content.
func (o *overlay) add(path string, content []byte) error {
	file := filepath.Join(o.dir, fmt.Sprintf("%d_%s", o.files, filepath.Base(path)))
	o.files++
	o.replace[path] = file
	return os.WriteFile(file, content, 0o644)
}

// merge adds the user's own overlay. Relative paths in it are relative to dir.
func (o *overlay) merge(path, dir string) error {
	text, err := os.ReadFile(inDir(dir, path))
	if err != nil {
		return err
	}
	var theirs struct{ Replace map[string]string }
	if err := json.Unmarshal(text, &theirs); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for from, to := range theirs.Replace {
		if to != "" {
			to = inDir(dir, to)
		}
		o.replace[inDir(dir, from)] = to
	}
	return nil
}

// hookTesting adds package testing of the Go installation goroot with the hooks.
func (o *overlay) hookTesting(goroot string) error {
	texts := map[string][]byte{}
	for _, h := range hooks {
		path := filepath.Join(goroot, "src", "testing", h.file)
		text := texts[path]
		if text == nil {
			from := path
			if o.replace[path] != "" { // by the user's overlay
				from = o.replace[path]
			}
			var err error
			if text, err = os.ReadFile(from); err != nil {
				return err
			}
		}
		if bytes.Count(text, []byte(h.after)) == 1 {
			text = bytes.Replace(text, []byte(h.after), []byte(h.after+h.add), 1)
		} else if h.must {
			return errors.New(path + " is not as this gotach knows it: it has no line " + strconv.Quote(strings.TrimSpace(h.after)))
		}
		texts[path] = text
	}
	for path, text := range texts {
		if filepath.Base(path) == "testing.go" {
			text = append(text, hookCode...)
		}
		if err := o.add(path, text); err != nil {
			return err
		}
	}
	return nil
}

// addTo adds the generated file to a package.
func (o *overlay) addTo(p *listedPackage) error {
	name := p.Name
	if len(p.TestGoFiles) == 0 {
		name += "_test"
	}
	return o.add(filepath.Join(p.Dir, generatedName), []byte("package "+name+"\n\nimport _ \""+startPath+"\"\n"))
}

// write writes the overlay's own file and returns its path.
func (o *overlay) write() (string, error) {
	text, err := json.Marshal(map[string]any{"Replace": o.replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(o.dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o644)
}

// inDir returns a path that is relative to a directory.
func inDir(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
