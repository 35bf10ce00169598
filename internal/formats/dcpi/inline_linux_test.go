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
)

// whereabouts prints addresses in itself, and where the runtime says they are.
const whereabouts = `package main

import (
	"fmt"
	"runtime"
)

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
		fmt.Println(pcs[0]-1, f.Line, f.Function, f.File, runtime.FuncForPC(f.Entry).Name())
	}
}
`

func TestInlinedProcedures(t *testing.T) {
	dir := t.TempDir()
	src, exe := filepath.Join(dir, "main.go"), filepath.Join(dir, "whereabouts")
	if err := os.WriteFile(src, []byte(whereabouts), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		flags []string
		dwarf bool
	}{
		{"default", nil, true},
		{"stripped", []string{"-ldflags=-s -w"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			build := exec.Command("go", append(append([]string{"build", "-o", exe}, tt.flags...), src)...)
			build.Env = append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=0")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			m, err := OpenImage(exe)
			if err != nil {
				t.Fatal(err)
			}
			if m.BuildID == "" || m.TextSize == 0 {
				t.Errorf("image is %+v", m)
			}
			out, err := exec.Command(exe).Output()
			if err != nil {
				t.Fatal(err)
			}
			lines, inlined := 0, 0
			for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); lines++ {
				f := strings.Fields(s.Text())
				addr, err := strconv.ParseUint(f[0], 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				line, _ := strconv.Atoi(f[1])
				want := profile.Frame{Func: f[2], File: f[3], Line: int32(line)}
				if !tt.dwarf {
					want.Func = f[4] // the outer one is all that is known
				} else if f[2] != f[4] {
					inlined++
				}
				if got, ok := m.Frame(addr); !ok || got != want {
					t.Errorf("%#x is in %+v, want %+v", addr, got, want)
				}
			}
			if lines != 5 {
				t.Errorf("%d lines: %s", lines, out)
			}
			if tt.dwarf && inlined < 3 {
				t.Errorf("only %d calls were inlined: %s", inlined, out)
			}
		})
	}
}
