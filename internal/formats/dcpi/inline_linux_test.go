package dcpi

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
)

// whereabouts prints addresses in itself, and where the runtime says they are.
const whereabouts = `package main

import "runtime"

type list[T any] struct{ v []T }

func (l *list[T]) first() []uintptr { return here() } // inlined

//go:noinline
func (l *list[T]) second() []uintptr { return here() }

//go:noinline
func here() []uintptr {
	pc := make([]uintptr, 1)
	runtime.Callers(2, pc)
	return pc
}

//go:noinline
func outer() []uintptr { return once() }

func once() []uintptr { return twice() } // inlined

func twice() []uintptr { return here() } // inlined into what is inlined

func main() {
	l := &list[int]{}
	for _, pcs := range [][]uintptr{here(), once(), outer(), l.first(), l.second()} {
		f, _ := runtime.CallersFrames(pcs).Next()
		println(pcs[0]-1, f.Line, f.Function, f.File, runtime.FuncForPC(f.Entry).Name())
	}
}
`

// The addresses of a program with debugging information are where the runtime says. Under go test the other tests have a
// program without: themselves.
func TestInlinedProcedures(t *testing.T) {
	dir := t.TempDir()
	src, exe := filepath.Join(dir, "main.go"), filepath.Join(dir, "whereabouts")
	testenv.OK(t, os.WriteFile(src, []byte(whereabouts), 0o600))
	build := exec.Command("go", "build", "-o", exe, src)
	build.Env = append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m := testenv.Must(OpenImage(exe))
	if m.BuildID == "" || m.TextSize == 0 {
		t.Errorf("image is %+v", m)
	}
	out := testenv.Must(exec.Command(exe).CombinedOutput())
	lines, inlined := 0, 0
	for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); lines++ {
		f := strings.Fields(s.Text())
		addr, line := testenv.Must(strconv.ParseUint(f[0], 10, 64)), testenv.Must(strconv.Atoi(f[1]))
		if f[2] != f[4] {
			inlined++
		}
		want := profile.Frame{Func: f[2], File: f[3], Line: int32(line)}
		if got, ok := m.Frame(addr); !ok || got != want {
			t.Errorf("%#x is in %+v, want %+v", addr, got, want)
		}
	}
	if lines != 5 || inlined < 3 {
		t.Errorf("%d lines, %d calls were inlined: %s", lines, inlined, out)
	}
}
