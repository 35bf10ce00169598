package formats

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/formats/dcpi"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// self is the running test, which is an ELF file here.
func self(t *testing.T) *dcpi.Image {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	image, err := dcpi.OpenImage(exe)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// leafSession is a session of the running test, with leaf addresses of two of
// its functions, and the file's samples: 1000 on CPU or not of each.
func leafSession(t *testing.T) (path string, symbols [2]string) {
	t.Helper()
	image := self(t)
	function := func(addr uint64) tachyon.Frame {
		f, ok := image.Frame(addr)
		if !ok {
			t.Fatalf("%#x is in no procedure", addr)
		}
		return tachyon.Frame{Func: f.Func, File: f.File}
	}
	a, b := image.TextStart+image.TextSize/3, image.TextStart+image.TextSize/2
	for function(b) != function(b+1) || function(b) == function(a) { // an inlined call begins or ends there
		b++
	}
	symbols = [2]string{function(a).Func, function(b).Func}
	pcs := &tachyon.LeafPCs{
		TextStart: image.TextStart, TextSize: image.TextSize,
		PCs: []tachyon.LeafPC{{Addr: a, CPU: 700, Wall: 1000}, {Addr: b, Wall: 900}, {Addr: b + 1, Wall: 100}},
	}
	edit := func(s *tachyon.Session) { s.Executable, s.BuildID = image.Path, image.BuildID }
	return session(t, edit, pcs), symbols
}

func dcpiFiles(t *testing.T, db string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(db, "*", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestDCPIOfASession(t *testing.T) {
	in, symbols := leafSession(t)
	for i, s := range symbols {
		symbols[i] = profile.FuncName(s)
	}
	db := filepath.Join(t.TempDir(), "db")
	for n := uint64(1); n <= 2; n++ { // the second time adds
		if err := convert(in, db, "dcpi", Options{}); err != nil {
			t.Fatal(err)
		}
		files := dcpiFiles(t, db)
		if len(files) != 2 || !strings.HasSuffix(files[0], ".cpu_ns") || !strings.HasSuffix(files[1], ".wall_ns") {
			t.Fatalf("files are %q", files)
		}
		for i, want := range []uint64{700, 2000} {
			p, err := dcpi.ReadFile(files[i], dcpi.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if _, samples := p.Total(); samples != n*want {
				t.Errorf("%s has %d samples, want %d", files[i], samples, n*want)
			}
		}
	}

	check := func(path string, samples int64, rows ...profile.Row) {
		t.Helper()
		o := Options{Warn: func(err error) { t.Errorf("%s: %v", path, err) }}
		r, err := openInput(t, path, o).Report(profile.ReportOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Samples != samples || len(r.Rows) != len(rows) {
			t.Errorf("%s: %d samples, %d rows, want %d, %d", path, r.Samples, len(r.Rows), samples, len(rows))
			return
		}
		for i, row := range rows {
			got := r.Rows[i]
			if got.Name != row.Name || got.Self != row.Self || got.SelfCPU != row.SelfCPU {
				t.Errorf("%s: row %d is %s %v, %v on CPU, want %s %v, %v", path, i, got.Name, got.Self, got.SelfCPU, row.Name, row.Self, row.SelfCPU)
			}
		}
	}
	files := dcpiFiles(t, db)
	const s = time.Second
	check(files[0], 1400, profile.Row{Name: symbols[0], Self: 1400 * s / 1000, SelfCPU: 1400 * s / 1000})
	first, second := profile.Row{Name: symbols[0], Self: 2 * s}, profile.Row{Name: symbols[1], Self: 2 * s}
	if symbols[1] < symbols[0] {
		first, second = second, first
	}
	check(files[1], 4000, first, second)
	// Both events together: time on CPU is part of the time.
	for _, r := range []*profile.Row{&first, &second} {
		if r.Name == symbols[0] {
			r.SelfCPU = 1400 * s / 1000
		}
	}
	check(db, 4000, first, second)
}

// A session whose source knew no addresses gets those of its lines.
func TestDCPIOfASessionWithoutAddresses(t *testing.T) {
	image := self(t)
	path := filepath.Join(t.TempDir(), "app.tach")
	w, err := writer.Create(path, writer.Options{Interval: 1000})
	if err != nil {
		t.Fatal(err)
	}
	pc := make([]uintptr, 1)
	runtime.Callers(1, pc)
	here, _ := runtime.CallersFrames(pc).Next()
	leaf := tachyon.Frame{Func: here.Function, File: here.File, Line: int32(here.Line)}
	for i := range uint64(30) {
		s, stack := tachyon.Sample{Thread: 1, Time: i * 1000, Status: tachyon.OnCPU}, []tachyon.Frame{leaf}
		switch {
		case i >= 29:
			stack = []tachyon.Frame{{Func: "main.nowhere", File: "nowhere.go", Line: 1}}
		case i >= 20:
			s.Status, stack = 0, []tachyon.Frame{{Func: "[select]"}, leaf}
			s.Time += (i - 19) * 3000 // what waits is sampled less often
		}
		if err := w.WriteFrames(&s, stack); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.AddMetadata(tachyon.KindSession, tachyon.Session{Executable: image.Path, BuildID: image.BuildID, Source: "portable"}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var warnings []error
	db := t.TempDir()
	if err := convert(path, db, "dcpi", Options{Warn: func(err error) { warnings = append(warnings, err) }}); err != nil {
		t.Fatal(err)
	}
	if len(warnings) != 1 || !strings.HasPrefix(warnings[0].Error(), "1 samples are left out") {
		t.Errorf("warnings are %v", warnings)
	}
	r := report(t, db)
	if len(r.Rows) != 1 || r.Samples != 29 {
		t.Fatalf("%d samples in %+v", r.Samples, r.Rows)
	}
	row := r.Rows[0]
	self := row.Self.Round(time.Microsecond) // 29 periods
	if row.Name != leaf.Func || row.File != leaf.File || row.Line != int(leaf.Line) || self != 56*time.Millisecond || row.SelfCPU != 20*time.Millisecond {
		t.Errorf("row is %+v, want %+v", row, leaf)
	}
}
