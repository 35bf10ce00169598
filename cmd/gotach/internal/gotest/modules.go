package gotest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// requirement makes the copy of the profiler known to the build, without a change of the module's
// own files: go test gets a copy of go.mod, or of go.work, that names it. It sets r.modFlags or
// variables in r.env.
func (r *run) requirement(source string) error {
	if work := r.goenv.GOWORK; work != "" && work != "off" {
		return r.workspace(work, source)
	}
	mod := r.goenv.GOMOD
	if mod == "" || mod == os.DevNull {
		return errors.New("there is no go.mod here or above; gotach test needs a module")
	}
	sums := filepath.Join(filepath.Dir(mod), "go.sum")
	if r.line.modfile != "" {
		mod = inDir(r.dir, r.line.modfile)
		sums = strings.TrimSuffix(mod, ".mod") + ".sum"
	}
	file := filepath.Join(r.work, "go.mod")
	if err := copyFile(mod, file); err != nil {
		return err
	}
	if err := copyFile(sums, filepath.Join(r.work, "go.sum")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	edit := []string{"mod", "edit", "-require=" + copyPath + "@v0.0.0", "-replace=" + copyPath + "=" + source}
	// Directories in it are relative to the go.mod that it is a copy of.
	var parsed struct{ Replace []replacement }
	if err := r.goJSON(&parsed, "mod", "edit", "-json", mod); err != nil {
		return err
	}
	edit = append(edit, absolute(parsed.Replace, filepath.Dir(mod))...)
	if _, err := r.gocmd(append(edit, file)...); err != nil {
		return err
	}
	r.modFlags = []string{"-modfile=" + file}
	vendored := r.line.mod == "vendor"
	if r.line.mod == "" {
		_, err := os.Stat(filepath.Join(filepath.Dir(r.goenv.GOMOD), "vendor", "modules.txt"))
		vendored = err == nil
		for f := range strings.FieldsSeq(r.goenv.GOFLAGS) {
			if value, ok := strings.CutPrefix(strings.TrimLeft(f, "-"), "mod="); ok {
				vendored = value == "vendor"
			}
		}
	}
	switch {
	case vendored:
		// The vendor directory has no copy of the profiler, and cannot get one. The module cache
		// has the same versions, if it has them.
		r.modFlags = append(r.modFlags, "-mod=mod")
		list := append(append([]string{"list", "-deps", "-test"}, r.modFlags...), r.line.build...)
		if _, err := r.gocmdEnv([]string{"GOPROXY=off"}, append(list, r.line.packages...)...); err != nil {
			return fmt.Errorf("the module has a vendor directory, where the profiler is not. With -mod=mod its modules are read from the module cache; go mod download -modcacherw gets them: %w", err)
		}
	case r.line.mod != "":
		r.modFlags = append(r.modFlags, "-mod="+r.line.mod)
	}
	return nil
}

// A replacement is a replace directive, as go mod edit -json prints it.
type replacement struct {
	Old, New struct{ Path, Version string }
}

// absolute returns flags of go mod edit that make directories absolute.
func absolute(list []replacement, dir string) (flags []string) {
	for _, p := range list {
		if p.New.Version != "" || filepath.IsAbs(p.New.Path) {
			continue
		}
		old := p.Old.Path
		if p.Old.Version != "" {
			old += "@" + p.Old.Version
		}
		flags = append(flags, "-replace="+old+"="+filepath.Join(dir, p.New.Path))
	}
	return flags
}

// workspace makes a copy of the user's go.work that also uses the copy of the profiler.
func (r *run) workspace(work, source string) error {
	var parsed struct {
		Use     []struct{ DiskPath string }
		Replace []replacement
	}
	if err := r.goJSON(&parsed, "work", "edit", "-json", work); err != nil {
		return err
	}
	file := filepath.Join(r.work, "go.work")
	if err := copyFile(work, file); err != nil {
		return err
	}
	if err := copyFile(work+".sum", file+".sum"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir := filepath.Dir(work)
	edit := []string{"work", "edit", "-use=" + source}
	for _, u := range parsed.Use {
		if !filepath.IsAbs(u.DiskPath) {
			edit = append(edit, "-dropuse="+u.DiskPath, "-use="+filepath.Join(dir, u.DiskPath))
		}
	}
	edit = append(edit, absolute(parsed.Replace, dir)...)
	if _, err := r.gocmd(append(edit, file)...); err != nil {
		return err
	}
	if r.line.mod != "" {
		r.modFlags = append(r.modFlags, "-mod="+r.line.mod)
	}
	r.setenv("GOWORK", file)
	return nil
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}

// goJSON runs the go command and decodes its output.
func (r *run) goJSON(into any, args ...string) error {
	out, err := r.gocmd(args...)
	if err != nil {
		return err
	}
	return json.Unmarshal(out, into)
}
