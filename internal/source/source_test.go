//go:build unix

package source

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

const text = `package app

type T[K any] struct{}

func (t *T[K]) get() {
	go func() {
		secret()
	}()
}

var hook = func() {
	secret()
}

const key = "secret"

func init() {
	secret()
}
`

// What a profile names is read only below the module, and shown only where the function is.
func TestUsual(t *testing.T) {
	dir := t.TempDir()
	module := filepath.Join(dir, "module")
	write := func(path, text string) string {
		path = filepath.Join(dir, path)
		testenv.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
		testenv.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	write("module/go.mod", "module app\n")
	app := write("module/app.go", text)
	pipe, link := filepath.Join(module, "pipe.go"), filepath.Join(module, "link.go")
	testenv.OK(t, syscall.Mkfifo(pipe, 0o600))
	testenv.OK(t, os.Symlink(write("other/other.go", text), link))
	testenv.OK(t, os.Symlink(write("module/key.pem", text), filepath.Join(module, "key.go")))
	write("cache/example.com/!app@v1.0.0/app.go", text)
	t.Setenv("GOMODCACHE", filepath.Join(dir, "cache"))
	t.Chdir(write("module/inner/x.go", text)[:len(module)+len("/inner")])
	r := Usual()
	for _, name := range []string{
		"", "x.go", "apps/app.go", "app/../../other/other.go", pipe, link, filepath.Join(module, "key.go"), filepath.Join(module, "key.pem"), filepath.Join(module, "../other/other.go"), filepath.Join(dir, "other/other.go"),
		module, "/dev/zero", filepath.Join(module, "none.go"), write("module/large.go", string(make([]byte, maxFile+1))), write("module/app.c", text),
	} {
		testenv.Same(t, name, r.Read(name), nil)
	}
	for _, name := range []string{"sort/slice.go", "example.com/App@v1.0.0/app.go", "app/app.go"} {
		testenv.Same(t, name+" is read", r.Read(name) != nil, true)
	}
	f := r.Read(app)
	n, _ := r.Shown()
	testenv.Same(t, "files shown", n, 0)
	for _, c := range []struct {
		function string
		line     int
		want     bool
	}{
		{"app.(*T[...]).get", 5, true},
		{"example.com/app.(*T[go.shape.int]).get.func1", 7, true},
		{"app.main.(*T[...]).get.func1", 7, true}, // inlined into main
		{"app.(*T[...]).get-fm", 9, true},
		{"app.(*T[...]).get", 10, false},
		{"app.get", 7, false},
		{"app.(*T[...]).getter", 7, false},
		{"get", 7, false},
		{"app.glob..func1", 12, true},
		{"app.init.func1", 12, true},
		{"app.init", 12, false},
		{"app.init", 15, false}, // the constant
		{"app.init.0", 18, true},
	} {
		testenv.Same(t, fmt.Sprintf("%s at line %d", c.function, c.line), f.Shows(c.function, c.line), c.want)
	}
	n, dirs := r.Shown()
	testenv.FailIf(t, n != 1 || len(dirs) != 1 || filepath.Base(dirs[0]) != "module", "%d files of %v shown", n, dirs)
}

// A folder that the user names is the only one, and all source in it may be shown.
func TestBelow(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.php", "id_rsa"} {
		testenv.OK(t, os.WriteFile(filepath.Join(dir, name), []byte("<?php\n"), 0o600))
	}
	r := testenv.Must(Below([]string{dir}))
	for _, name := range []string{"a.php", filepath.Join(dir, "a.php")} {
		testenv.FailIf(t, r.Read(name) == nil || !r.Read(name).Shows("anything", 1), "%s is not read", name)
	}
	for _, name := range []string{"id_rsa", "sort/slice.go", filepath.Join(dir, "../a.php"), "/etc/passwd"} {
		testenv.Same(t, name, r.Read(name), nil)
	}
	testenv.Same(t, "a file is no folder", testenv.Err(Below([]string{filepath.Join(dir, "a.php")})) != nil, true)
}
