package dcpi

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/tachyon"
)

// self is the running test as an image, for it is an ELF file here, and a session
// that recorded it.
func self(t *testing.T) (*Image, *tachyon.Metadata) {
	exe := testenv.Must(os.Executable())
	m := testenv.Must(OpenImage(exe))
	host := testenv.Must(os.Hostname())
	return m, &tachyon.Metadata{
		Session: &tachyon.Session{
			Executable: exe, BuildID: m.BuildID, Host: host, Source: "native",
			Start: time.Date(2026, 11, 21, 3, 34, 16, 0, time.FixedZone("", 3600)),
		},
		PCs: &tachyon.LeafPCs{TextStart: m.TextStart, TextSize: m.TextSize},
	}
}

// entry returns the address of a function of this package as the table of the
// image has it.
func entry(t *testing.T, m *Image, name string) uint64 {
	t.Helper()
	fn := m.table.LookupFunc(name)
	testenv.StopIf(t, fn == nil, "%s is not in the table", name)
	return fn.Entry
}

func TestProcedures(t *testing.T) {
	m, _ := self(t)
	here := runtime.FuncForPC(reflect.ValueOf(TestProcedures).Pointer())
	there := runtime.FuncForPC(reflect.ValueOf(OpenImage).Pointer())
	bias := uint64(here.Entry()) - entry(t, m, here.Name()) // 0 but in position-independent executables
	for _, f := range []*runtime.Func{here, there} {
		file, line := f.FileLine(f.Entry())
		want := profile.Frame{Func: f.Name(), File: file, Line: int32(line)}
		got, ok := m.Frame(uint64(f.Entry()) - bias)
		testenv.Same(t, f.Name(), fmt.Sprintf("%+v %v", got, ok), fmt.Sprintf("%+v true", want))
	}
	for _, outside := range []uint64{m.TextStart - 1, m.TextStart + m.TextSize + 1<<20} {
		_, ok := m.Frame(outside)
		testenv.Same(t, fmt.Sprintf("%#x, outside of the text section", outside), ok, false)
	}
}

func TestFromSession(t *testing.T) {
	m, meta := self(t)
	a, b := entry(t, m, "github.com/gotach/profiler/internal/formats/dcpi.OpenImage"), entry(t, m, "runtime.main")
	meta.PCs.PCs = []tachyon.LeafPC{{Addr: min(a, b), CPU: 5, Wall: 9}, {Addr: max(a, b), Wall: 100}}
	ps := testenv.Must(FromSession(meta, time.Millisecond))
	testenv.Same(t, "profiles", len(ps), 2)
	wants := []struct {
		event string
		n     uint64
	}{{"cpu_ns", 5}, {"wall_ns", 109}}
	for i, p := range ps {
		got := map[string]string{}
		for _, l := range p.Lines {
			got[l.Word()] = l.Value()
		}
		want := map[string]string{
			"version": "pdb-0.07", "epoch": "2611210234", "event": wants[i].event, "period": "1000000",
			"platform": meta.Session.Host, "path": m.Path, "x-buildid": m.BuildID,
		}
		testenv.FailIf(t, !strings.HasPrefix(got["image"], m.ModTime.UTC().Format("20060102150405")) || len(got["image"]) != 20, "image is %s", got["image"])
		maps.DeleteFunc(got, func(word, _ string) bool { return want[word] == "" })
		testenv.NoDiff(t, "lines", cmp.Diff(want, got))
		_, n := p.Total()
		testenv.Same(t, wants[i].event, n, wants[i].n)
		write(t, p)
		testenv.Must(p.Image())
	}

	meta.PCs.PCs[0].CPU = 0 // nothing ran
	testenv.Same(t, "profiles of waits alone", len(testenv.Must(FromSession(meta, time.Millisecond))), 1)
}

// Counts follow the time that samples stand for; their sum stays the number of samples.
func TestFromSessionSharesSamplesByTime(t *testing.T) {
	m, meta := self(t)
	at := func(i int) uint64 { return m.TextStart + uint64(i) }
	tests := []struct {
		name   string
		pcs    []tachyon.LeafPC
		period string
		want   []addrCount
	}{
		{"even", []tachyon.LeafPC{{Addr: at(1), Wall: 3, WallTime: 6000}, {Addr: at(2), Wall: 1, WallTime: 2000}}, "2000000",
			[]addrCount{{at(1), 3}, {at(2), 1}}},
		{"waits are sampled less often", []tachyon.LeafPC{{Addr: at(1), Wall: 50, WallTime: 50_000}, {Addr: at(2), Wall: 50, WallTime: 450_000}}, "5000000",
			[]addrCount{{at(1), 10}, {at(2), 90}}},
		{"small ones beside each other", []tachyon.LeafPC{
			{Addr: at(1), Wall: 1, WallTime: 1}, {Addr: at(2), Wall: 1, WallTime: 1}, {Addr: at(3), Wall: 1, WallTime: 1}, {Addr: at(4), Wall: 1, WallTime: 9},
		}, "3000", []addrCount{{at(2), 1}, {at(4), 3}}},
		{"no times", []tachyon.LeafPC{{Addr: at(1), Wall: 7}, {Addr: at(2), Wall: 2}}, "1000000", []addrCount{{at(1), 7}, {at(2), 2}}},
	}
	for _, tt := range tests {
		meta.PCs.PCs = tt.pcs
		ps := testenv.Must(FromSession(meta, time.Millisecond))
		period, _ := ps[0].Value("period")
		testenv.Same(t, tt.name, fmt.Sprint(len(ps), period, slices.Collect(ps[0].Counts())), fmt.Sprint(1, tt.period, tt.want))
	}
}

func TestImageIsTheVerySame(t *testing.T) {
	m, meta := self(t)
	meta.PCs.PCs = []tachyon.LeafPC{{Addr: m.TextStart, Wall: 1}}
	ps := testenv.Must(FromSession(meta, time.Millisecond))
	lines := map[string]string{}
	for _, l := range ps[0].Lines {
		lines[l.Word()] = string(l)
	}
	notELF := filepath.Join(t.TempDir(), "script")
	testenv.OK(t, os.WriteFile(notELF, []byte("#!/bin/sh\n"), 0o755))
	for want, change := range map[string]map[string]string{
		"":                                   {"cpuspeed": "cpuspeed 1"},
		"is gone":                            {"path": "path /nonexistent/server"},
		"another executable than":            {"x-buildid": "x-buildid abc/def"},
		"its text is":                        {"x-buildid": "", "tsize": "tsize 5"},
		"names no executable":                {"path": ""},
		"not an ELF executable, no proced":   {"path": "path " + notELF},
		"its build ID is \"" + m.BuildID[:9]: {"x-buildid": "x-buildid abc/def"},
	} {
		changed := maps.Clone(lines)
		maps.Copy(changed, change)
		var h Header
		for _, l := range changed {
			if l != "" {
				h.Lines = append(h.Lines, Line(l))
			}
		}
		testenv.Fails(t, "", testenv.Err(h.Image()), want)
	}
	// A profile of a tool that knows no build IDs still finds its executable.
	h := Header{Lines: []Line{Line(lines["path"]), Line(lines["tstart"]), Line(lines["tsize"])}}
	testenv.Must(h.Image())
}

// The addresses of a program with debugging information are where the runtime says. Under go test the other tests have a
// program without: themselves.
func TestInlinedProcedures(t *testing.T) {
	exe := filepath.Join(t.TempDir(), "whereabouts")
	build := exec.Command("go", "build", "-o", exe, "testdata/whereabouts.go")
	build.Env = append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=0")
	testenv.Run(t, build)
	m := testenv.Must(OpenImage(exe))
	testenv.FailIf(t, m.BuildID == "" || m.TextSize == 0, "image is %+v", m)
	out := testenv.Run(t, exec.Command(exe))
	lines, inlined := 0, 0
	for s := bufio.NewScanner(strings.NewReader(out)); s.Scan(); lines++ {
		f := strings.Fields(s.Text())
		addr, line := testenv.Must(strconv.ParseUint(f[0], 10, 64)), testenv.Must(strconv.Atoi(f[1]))
		if f[2] != f[4] {
			inlined++
		}
		want := profile.Frame{Func: f[2], File: f[3], Line: int32(line)}
		got, _ := m.Frame(addr)
		testenv.Same(t, fmt.Sprintf("%#x", addr), got, want)
	}
	testenv.FailIf(t, lines != 5 || inlined < 3, "%d lines, %d calls were inlined: %s", lines, inlined, out)
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
