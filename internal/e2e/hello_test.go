package e2e

import (
	"bytes"
	"context"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/reader"
)

// hello creates a module with the program in testdata/hello*.go.txt.
func hello(t *testing.T) (dir string) {
	t.Helper()
	dir = module(t, "hello.go.txt", "main.go")
	for _, name := range []string{"profiled", "auto", "export", "code"} {
		src, err := os.ReadFile(filepath.Join("testdata", "hello_"+name+".go.txt"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".go"), src, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// mostAdded bounds the bytes that Start adds to a stripped program. fgprof's Start adds 2.3 MB.
const mostAdded = 2_200_000

// Start makes a program only a little larger.
func TestSize(t *testing.T) {
	dir := hello(t)
	size := func(tags string) int64 {
		run(t, dir, append(moduleEnv, "GOOS=linux", "GOARCH=amd64"), "go", "build", "-tags", tags, "-ldflags=-s -w", "-o", "program", ".")
		fi, err := os.Stat(filepath.Join(dir, "program"))
		if err != nil {
			t.Fatal(err)
		}
		return fi.Size()
	}
	plain, profiled := size(""), size("profiled")
	t.Logf("size of a stripped hello-world for linux/amd64 with %s: %.2f MB, with the profiler %.2f MB: %.2f MB more",
		runtime.Version(), float64(plain)/1e6, float64(profiled)/1e6, float64(profiled-plain)/1e6)
	if added := profiled - plain; added > mostAdded && strings.HasPrefix(runtime.Version(), "go1.26") {
		t.Errorf("the profiler adds %d bytes, at most %d are allowed", added, mostAdded)
	} else if added < 500_000 {
		t.Errorf("the profiler adds only %d bytes: is it linked?", added)
	}
}

// A program that imports the profiler stays static, even if cgo is enabled and there is a C compiler. The
// runtime still finds its deadlocks.
func TestStatic(t *testing.T) {
	testenv.Command(t, "gcc", "apt-get install gcc")
	if runtime.GOOS != "linux" {
		testenv.Missing(t, "linux", "ELF files are looked at")
	}
	dir := hello(t)
	for _, tags := range []string{"profiled", "auto"} {
		run(t, dir, append(moduleEnv, "CGO_ENABLED=1"), "go", "build", "-tags", tags, "-o", "program", ".")
		f, err := elf.Open(filepath.Join(dir, "program"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
				t.Errorf("%s: the program is linked dynamically: it has a %v", tags, p.Type)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		out, err := exec.CommandContext(ctx, filepath.Join(dir, "program"), "deadlock").CombinedOutput()
		if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 || !strings.Contains(string(out), "all goroutines are asleep - deadlock!") {
			t.Errorf("%s: a deadlock ends with %v:\n%s", tags, err, out)
		}
	}
}

// A program that says it was built with a later Go, or with its development version, is profiled by the
// portable source, with the version as the reason. A patch release needs no new version of this module.
func TestLaterGo(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		return // only the portable source
	}
	dir := hello(t)
	parts := strings.SplitN(runtime.Version(), ".", 3)
	for version, source := range map[string]string{
		"devel go1.28-abcdef0 Thu Jan 1 00:00:00 1970 +0000": "auto",
		"go1.28-devel_abcdef0 Thu Jan 1 00:00:00 1970 +0000": "auto",
		"go1.28rc1":                               "auto",
		"go1.28.1-bigcorp X:jsonv2":               "auto",
		parts[0] + "." + parts[1] + ".99":         "native",
		parts[0] + "." + parts[1] + ".99-bigcorp": "native",
	} {
		t.Run(version, func(t *testing.T) {
			run(t, dir, moduleEnv, "go", "build", "-tags", "profiled", "-ldflags", `-X "runtime.buildVersion=`+version+`"`, "-o", "program", ".")
			cmd := exec.Command(filepath.Join(dir, "program"))
			cmd.Dir = t.TempDir()
			cmd.Env = append(os.Environ(), "PROFILE_OUT=x.tach", "PROFILE_SOURCE="+source)
			text, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			r, err := reader.Open(filepath.Join(cmd.Dir, "x.tach"))
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			defer r.Close()
			m, err := r.Metadata()
			if err != nil || m.Session == nil {
				t.Fatal("no session in the metadata: ", err)
			}
			if m.Session.GoVersion != version {
				t.Errorf("the program says that its version is %q", m.Session.GoVersion)
			}
			known := source == "native"
			if native := m.Session.Source == "native"; native != known {
				t.Errorf("the source is %s", m.Session.Source)
			}
			if strings.Contains(string(text), "is not known here") == known || strings.Contains(m.Session.SourceReason, version) == known {
				t.Errorf("reason %q; the program prints\n%s", m.Session.SourceReason, text)
			}
		})
	}
}

// Package linked is initialized before the packages that the root needs, so long before package auto. Package
// export, in this program, is initialized before auto only by chance.
func TestExportLinkedEarly(t *testing.T) {
	dir := hello(t)
	run(t, dir, moduleEnv, "go", "build", "-tags", "auto,export", "-o", "program", ".")
	cmd := exec.Command(filepath.Join(dir, "program"))
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	trace, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, trace)
	}
	const module = "init github.com/gotach/profiler"
	linked, writer, auto := bytes.Index(trace, []byte(module+"/internal/hook/linked @")), bytes.Index(trace, []byte(module+"/writer @")), bytes.Index(trace, []byte(module+"/auto @"))
	if linked < 0 || writer < linked || auto < writer {
		t.Errorf("package linked is initialized at byte %d of the trace, writer at %d, auto at %d:\n%s", linked, writer, auto, trace)
	}
}

// Exports work if package export is imported. Otherwise they cause one warning that names the package,
// and the rest of the profile is the same. PROFILE_EXPORT replaces the exports in the code. Package auto
// starts its session before package export is initialized.
func TestExportLinked(t *testing.T) {
	dir := hello(t)
	const missing, exported = "github.com/gotach/profiler/export", "nytprof=env.out"
	for _, tc := range []struct {
		tags     string
		variable string // PROFILE_EXPORT
		// Which files there are, and whether a warning names the import.
		tach, env, code, warns bool
	}{
		{tags: "profiled", variable: exported, tach: true, warns: true},
		{tags: "auto", variable: exported, tach: true, warns: true},
		{tags: "code", variable: exported, warns: true},
		{tags: "profiled,export", variable: exported, tach: true, env: true},
		{tags: "auto,export", variable: exported, tach: true, env: true},
		{tags: "code,export", variable: exported, tach: true, env: true},
		{tags: "code,export", variable: "", tach: true, code: true},
	} {
		t.Run(tc.tags+" "+tc.variable, func(t *testing.T) {
			run(t, dir, moduleEnv, "go", "build", "-tags", tc.tags, "-o", "program", ".")
			out := t.TempDir()
			cmd := exec.Command(filepath.Join(dir, "program"))
			cmd.Dir = out
			cmd.Env = append(os.Environ(), "PROFILE_OUT=x.tach", "PROFILE_SOURCE=portable", "PROFILE_EXPORT="+tc.variable)
			text, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(text), "hello") {
				t.Fatalf("%v\n%s", err, text)
			}
			for name, want := range map[string]bool{"x.tach": tc.tach, "env.out": tc.env, "code.pb.gz": tc.code} {
				if fi, err := os.Stat(filepath.Join(out, name)); (err == nil && fi.Size() > 0) != want {
					t.Errorf("%s is there: %v, want %v", name, err == nil, want)
				}
			}
			if n := strings.Count(string(text), "WARN"); strings.Contains(string(text), missing) != tc.warns || n > 1 {
				t.Errorf("%d warnings, want one that names the import: %v\n%s", n, tc.warns, text)
			}
		})
	}
}
