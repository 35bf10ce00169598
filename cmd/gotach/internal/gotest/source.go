package gotest

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

// The profiler is linked into the test binaries as a module of its own, with copies of the packages
// that it needs of other modules. The paths of all these packages are changed. So the module under
// test gets no other version of anything, and may use the same modules itself.
const (
	profilerPath = "github.com/gotach/profiler"
	copyPath     = "gotach.test" // the module; no module with this name can be published
	startPath    = copyPath + "/profiler/start"
)

// copied are the modules that have packages in the copy, with the paths in it.
var copied = []struct{ path, as string }{
	{profilerPath, copyPath + "/profiler"},
	{"github.com/klauspost/compress", copyPath + "/compress"},
	{"golang.org/x/sys", copyPath + "/sys"},
}

// language is the version of Go that the copied files are written for. The copy's go.mod has no
// version, because a module may not require one with a higher version.
const language = "go1.25"

// hiddenStart takes the place of own/start.go in the copy, so that tests do not see the profiler's
// goroutines.
//
//go:embed start.go.txt
var hiddenStart []byte

const hiddenPath = profilerPath + "/internal/own/start.go"

// startFile is what the generated files import: package hook is internal to the copy.
const startFile = `//go:build ` + language + `

package start

import "` + copyPath + `/profiler/internal/gotest/hook"

var Start, Stop = hook.Start, hook.Stop
`

// copySource makes the copy for a system, below the directory cache, and returns its directory. If
// there is one already, it is used again: its name depends on the content.
func copySource(ctx context.Context, cache, goos, goarch string) (string, error) {
	c := &copying{ctx: ctx, goos: goos, goarch: goarch, roots: map[string]string{}, files: map[string][]byte{}, done: map[string]bool{}}
	if err := c.add(profilerPath + "/internal/gotest/hook"); err != nil {
		return "", err
	}
	c.files["go.mod"] = []byte("module " + copyPath + "\n")
	c.files["profiler/start/start.go"] = []byte(startFile)
	return c.write(cache)
}

// A copying collects the files of the copy.
type copying struct {
	ctx          context.Context
	goos, goarch string
	roots        map[string]string // directories of modules
	files        map[string][]byte // by path in the copy
	done         map[string]bool   // packages
}

// add adds a package and the packages that it imports.
func (c *copying) add(importPath string) error {
	if c.done[importPath] {
		return nil
	}
	c.done[importPath] = true
	module, as := moduleOf(importPath)
	dir := c.roots[module]
	if dir == "" {
		var err error
		if dir, err = c.moduleDir(module); err != nil {
			return err
		}
		c.roots[module] = dir
	}
	below := strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/")
	dir = filepath.Join(dir, filepath.FromSlash(below))
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		name := e.Name()
		if !e.Type().IsRegular() || !c.builds(name) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if importPath+"/"+name == hiddenPath {
			text = hiddenStart
		}
		if strings.HasSuffix(name, ".go") {
			f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
			if err != nil {
				return fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
			}
			if f.Name.Name == "main" { // a generator
				continue
			}
			for _, i := range f.Imports {
				p, err := strconv.Unquote(i.Path.Value)
				if err != nil {
					return err
				}
				if m, _ := moduleOf(p); m != "" {
					if err := c.add(p); err != nil {
						return err
					}
				}
			}
			if text, err = upgrade(text); err != nil {
				return fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
			}
		}
		for _, m := range copied {
			text = bytes.ReplaceAll(text, []byte(m.path), []byte(m.as))
		}
		c.files[path.Join(strings.TrimPrefix(as, copyPath+"/"), below, name)] = text
	}
	return nil
}

// moduleOf returns the module of a package, and its path in the copy. It returns "" for packages of
// other modules.
func moduleOf(importPath string) (module, as string) {
	for _, m := range copied {
		if importPath == m.path || strings.HasPrefix(importPath, m.path+"/") {
			return m.path, m.as
		}
	}
	return "", ""
}

// builds reports whether a file can be part of a build for the system, going by its name.
func (c *copying) builds(name string) bool {
	ext := path.Ext(name)
	if ext != ".go" && ext != ".s" && ext != ".h" {
		return false
	}
	parts := strings.Split(strings.TrimSuffix(name, ext), "_")
	if parts[len(parts)-1] == "test" {
		return false
	}
	for _, p := range parts[1:] {
		if slices.Contains(systems, p) && p != c.goos || slices.Contains(architectures, p) && p != c.goarch {
			return false
		}
	}
	return true
}

// The go command takes these words at the end of a file's name for systems and architectures. The
// copy would work without this list, but it would be five times as large.
var (
	systems       = strings.Fields("aix android darwin dragonfly freebsd illumos ios js linux netbsd openbsd plan9 solaris wasip1 windows zos")
	architectures = strings.Fields("386 amd64 arm arm64 loong64 mips mips64 mips64le mipsle ppc64 ppc64le riscv64 s390x sparc64 wasm")
)

// upgrade adds the language version to the build constraint of a file.
func upgrade(text []byte) ([]byte, error) {
	begin := 0
	for line := range bytes.Lines(text) {
		if s := string(bytes.TrimSpace(line)); constraint.IsGoBuild(s) {
			expr := strings.TrimSpace(strings.TrimPrefix(s, "//go:build"))
			return slices.Concat(text[:begin], []byte("//go:build ("+expr+") && "+language+"\n"), text[begin+len(line):]), nil
		} else if strings.HasPrefix(s, "package ") {
			break
		}
		begin += len(line)
	}
	return append([]byte("//go:build "+language+"\n\n"), text...), nil
}

// write writes the files to a directory below cache.
func (c *copying) write(cache string) (string, error) {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		fmt.Fprintf(sum, "%s %d\n%s", name, len(c.files[name]), c.files[name])
	}
	dir := filepath.Join(cache, fmt.Sprintf("profiler-%s-%s-%x", c.goos, c.goarch, sum.Sum(nil)[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(cache, "new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	for name, text := range c.files {
		file := filepath.Join(work, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return "", err
		}
	}
	if err := os.Chmod(work, 0o755); err != nil {
		return "", err
	}
	if err := os.Rename(work, dir); err != nil {
		if _, other := os.Stat(dir); other == nil { // another gotach test was faster
			return dir, nil
		}
		return "", err
	}
	return dir, nil
}

// moduleDir returns the directory with the source of a module: the profiler itself where it was
// built or in the version of this program, others in the version that the profiler requires.
func (c *copying) moduleDir(module string) (string, error) {
	version := ""
	if module == profilerPath {
		if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
			dir := filepath.Join(filepath.Dir(file), "..", "..", "..", "..")
			if text, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && bytes.HasPrefix(text, []byte("module "+profilerPath+"\n")) {
				return dir, nil
			}
		}
		if version = linked(); version == "" || version == "(devel)" {
			return "", errors.New("gotach test needs the source of " + module + ", but this gotach was not built from a version of it, and its source is not where it was")
		}
	} else {
		text, err := os.ReadFile(filepath.Join(c.roots[profilerPath], "go.mod"))
		if err != nil {
			return "", err
		}
		_, after, _ := strings.Cut(string(text), module+" ")
		version = strings.Fields(after + " ?")[0]
	}
	// The working directory must not matter: its module may replace this one.
	cmd := exec.CommandContext(c.ctx, "go", "mod", "download", "-json", module+"@"+version)
	cmd.Dir = os.TempDir()
	cmd.Env = append(os.Environ(), "PWD="+cmd.Dir, "GOWORK=off", "GOFLAGS=", "GO111MODULE=on")
	out, err := cmd.Output()
	var found struct{ Dir, Error string }
	if e := json.Unmarshal(out, &found); e != nil && err == nil {
		err = e
	}
	if found.Error != "" {
		err = errors.New(found.Error)
	}
	if err != nil {
		return "", fmt.Errorf("gotach test needs the source of %s %s, which is not in the module cache: %w", module, version, err)
	}
	return found.Dir, nil
}

// linked returns the version of the profiler that is linked into this program, "" if unknown.
func linked() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path == profilerPath && m.Replace == nil {
			return m.Version
		}
	}
	return ""
}
