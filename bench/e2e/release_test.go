package e2e

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// A goMod is what go mod edit -json and go work edit -json print.
type goMod struct {
	Require []struct{ Path, Version string }
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
}

func edited(t *testing.T, command, file string) (m goMod) {
	t.Helper()
	testenv.OK(t, json.Unmarshal([]byte(run(t, root(t), nil, "go", command, "edit", "-json", file)), &m))
	return m
}

// released is the version of the library that the other modules require.
func released(t *testing.T) string {
	t.Helper()
	for _, r := range edited(t, "mod", "cmd/gotach/go.mod").Require {
		if r.Path == modulePath {
			return r.Version
		}
	}
	t.Fatal("the command does not require the library")
	return ""
}

// The other modules require one version of the library, which the workspace replaces, and replace nothing themselves:
// the go command refuses to install a command whose module does.
func TestReleaseVersions(t *testing.T) {
	version := released(t)
	for _, m := range modules {
		mod := edited(t, "mod", m+"/go.mod")
		if len(mod.Replace) > 0 {
			t.Errorf("%s/go.mod replaces %v", m, mod.Replace)
		}
		for _, r := range mod.Require {
			if r.Path == modulePath && r.Version != version {
				t.Errorf("%s requires the library's version %s, the command %s", m, r.Version, version)
			}
		}
	}
	replaced := edited(t, "work", "go.work").Replace
	if len(replaced) != 1 || replaced[0].Old.Path != modulePath || replaced[0].Old.Version != version || replaced[0].New.Path != "./" {
		t.Errorf("go.work replaces %+v, want the library's version %s", replaced, version)
	}
	if !strings.Contains(read(t, "docs/releasing.md"), "`"+version+"`") {
		t.Errorf("docs/releasing.md does not name the version %s", version)
	}
}

// proxy makes a module proxy of files that has the library and the command. It returns the environment of a go command with a module
// cache of its own, which has only this proxy, the modules that this machine has, and the proxies others.
func proxy(t *testing.T, cache string, others ...string) []string {
	t.Helper()
	dir, version := t.TempDir(), released(t)
	for _, folder := range []string{".", "cmd/gotach"} {
		path := modulePath
		if folder != "." {
			path += "/" + folder
		}
		files := filepath.Join(dir, path, "@v")
		mod := read(t, folder+"/go.mod")
		testenv.OK(t, os.MkdirAll(files, 0o755))
		testenv.OK(t, os.WriteFile(filepath.Join(files, "list"), []byte(version+"\n"), 0o644))
		testenv.OK(t, os.WriteFile(filepath.Join(files, version+".mod"), []byte(mod), 0o644))
		testenv.OK(t, os.WriteFile(filepath.Join(files, version+".info"), fmt.Appendf(nil, `{"Version":%q,"Time":"2026-01-01T00:00:00Z"}`, version), 0o644))
		pack(t, filepath.Join(root(t), folder), filepath.Join(files, version+".zip"), path+"@"+version)
	}
	here := strings.TrimSpace(run(t, root(t), nil, "go", "env", "GOMODCACHE"))
	list := append([]string{"file://" + dir, "file://" + filepath.Join(here, "cache", "download")}, others...)
	return []string{"GOWORK=off", "GOFLAGS=-mod=mod -modcacherw -buildvcs=false", "GOSUMDB=off", "GOPROXY=" + strings.Join(list, ","), "GOMODCACHE=" + cache}
}

// pack makes the zip file of a module: all files of a folder that are in no module below it.
func pack(t *testing.T, folder, file, prefix string) {
	t.Helper()
	out := testenv.Must(os.Create(file))
	defer out.Close()
	w := zip.NewWriter(out)
	testenv.OK(t, filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != folder {
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil || d.Name() == ".git" {
				return fs.SkipDir
			}
		}
		if !d.Type().IsRegular() {
			return nil
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f, err := w.Create(prefix + "/" + filepath.ToSlash(testenv.Must(filepath.Rel(folder, name))))
		if err == nil {
			_, err = f.Write(b)
		}
		return err
	}))
	testenv.OK(t, w.Close())
}
