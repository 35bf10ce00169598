package dcpi

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
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
	if fn == nil {
		t.Fatalf("%s is not in the table", name)
	}
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
		if !strings.HasPrefix(got["image"], m.ModTime.UTC().Format("20060102150405")) || len(got["image"]) != 20 {
			t.Errorf("image is %s", got["image"])
		}
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
