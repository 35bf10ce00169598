package dcpi

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
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
		got, _ := m.Frame(addr)
		testenv.Same(t, fmt.Sprintf("%#x", addr), got, want)
	}
	if lines != 5 || inlined < 3 {
		t.Errorf("%d lines, %d calls were inlined: %s", lines, inlined, out)
	}
}

// From any place in the code to its line, and from there back to an address of
// the same line of the same function.
func TestAddressesOfLines(t *testing.T) {
	m, _ := self(t)
	l := newLineFinder(m.table)
	n := 0
	for i := 0; i < len(m.table.Funcs); i += len(m.table.Funcs)/50 + 1 {
		fn := &m.table.Funcs[i]
		middle := fn.Entry + (fn.End-fn.Entry)/2
		file, line, at := m.table.PCToLine(middle)
		if at != fn || file == "" || line <= 0 || fn.End-fn.Entry > maxFunction {
			continue
		}
		n++
		frame := tachyon.Frame{Func: printed(fn.Name), File: file, Line: int32(line)}
		addr, ok := l.addr(frame)
		if !ok {
			t.Errorf("%+v has no address", frame)
			continue
		}
		got, _ := m.outer(addr)
		testenv.Same(t, fmt.Sprintf("%#x", addr), got, frame)
	}
	testenv.Within(t, "functions that were tried", n, 20, 1000)
	_, ok := l.addr(tachyon.Frame{Func: "main.nowhere", File: "nowhere.go", Line: 1})
	testenv.Same(t, "what is nowhere has an address", ok, false)
	// A line that is not in the code, of a function that is.
	fn := m.table.LookupFunc("runtime.main")
	addr, _ := l.addr(tachyon.Frame{Func: "runtime.main", File: "nowhere.go", Line: 1})
	testenv.Same(t, "runtime.main", addr, fn.Entry)
}

// An executable whose sections would take much more memory than it has bytes is not read: one that is compressed, or many of the same bytes.
func TestInflated(t *testing.T) {
	exe := testenv.Must(os.ReadFile("/proc/self/exe"))
	e := testenv.Must(elf.NewFile(bytes.NewReader(exe)))
	order := binary.LittleEndian
	for what, change := range map[string]func(b []byte, header func(i int) []byte){
		"a compressed section": func(b []byte, header func(i int) []byte) {
			for i, s := range e.Sections {
				if s.Name == ".note.go.buildid" { // Elf64_Chdr: kind, 0, size, alignment
					order.PutUint64(header(i)[8:], uint64(elf.SHF_COMPRESSED))
					order.PutUint64(b[s.Offset:], uint64(elf.COMPRESS_ZLIB))
					order.PutUint64(b[s.Offset+8:], 1<<40)
				}
			}
		},
		"many of the same bytes": func(b []byte, header func(i int) []byte) {
			for i := 1; i < len(e.Sections); i++ {
				if e.Sections[i].Type != elf.SHT_NOBITS && i != int(order.Uint16(b[62:])) {
					order.PutUint64(header(i)[24:], 0)
					order.PutUint64(header(i)[32:], uint64(len(b))*2)
				}
			}
		},
	} {
		b := bytes.Clone(exe)
		change(b, func(i int) []byte { return b[order.Uint64(b[40:])+64*uint64(i):][:64] })
		path := filepath.Join(t.TempDir(), "exe")
		testenv.OK(t, os.WriteFile(path, b, 0o600))
		testenv.Fails(t, what, testenv.Err(OpenImage(path)), "much larger")
		testenv.Fails(t, what+": start lines", testenv.Err(StartLines(path, "")), "much larger")
	}
}
