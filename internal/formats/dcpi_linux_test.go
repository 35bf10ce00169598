package formats

import (
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/formats/dcpi"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// self is the running test, which is an ELF file here.
func self(t *testing.T) *dcpi.Image {
	t.Helper()
	exe := testenv.Must(os.Executable())
	return testenv.Must(dcpi.OpenImage(exe))
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
	return testenv.Must(filepath.Glob(filepath.Join(db, "*", "*", "*")))
}

func TestDCPIOfASession(t *testing.T) {
	in, symbols := leafSession(t)
	for i, s := range symbols {
		symbols[i] = profile.FuncName(s)
	}
	db := filepath.Join(t.TempDir(), "db")
	for n := uint64(1); n <= 2; n++ { // the second time adds
		testenv.OK(t, convert(in, db, "dcpi", Options{}))
		files := dcpiFiles(t, db)
		if len(files) != 2 || !strings.HasSuffix(files[0], ".cpu_ns") || !strings.HasSuffix(files[1], ".wall_ns") {
			t.Fatalf("files are %q", files)
		}
		for i, want := range []uint64{700, 2000} {
			p := testenv.Must(dcpi.ReadFile(files[i], dcpi.Options{}))
			if _, samples := p.Total(); samples != n*want {
				t.Errorf("%s has %d samples, want %d", files[i], samples, n*want)
			}
		}
	}

	files := dcpiFiles(t, db)
	const cpu, wall = 1400 * time.Millisecond, 2 * time.Second // of each symbol, the first of which ran
	for _, c := range []struct {
		path    string
		samples int64
		want    map[string][2]time.Duration // wall and CPU
	}{
		{files[0], 1400, map[string][2]time.Duration{symbols[0]: {cpu, cpu}}},
		{files[1], 4000, map[string][2]time.Duration{symbols[0]: {wall, 0}, symbols[1]: {wall, 0}}},
		{db, 4000, map[string][2]time.Duration{symbols[0]: {wall, cpu}, symbols[1]: {wall, 0}}}, // time on CPU is part of the time
	} {
		o := Options{Warn: func(err error) { t.Errorf("%s: %v", c.path, err) }}
		r := testenv.Must(openInput(t, c.path, o).Report(profile.ReportOptions{}))
		got := map[string][2]time.Duration{}
		for _, row := range r.Rows {
			got[row.Name] = [2]time.Duration{row.Self, row.SelfCPU}
		}
		if !maps.Equal(got, c.want) || r.Samples != c.samples {
			t.Errorf("%s: %d samples, %v, want %d, %v", c.path, r.Samples, got, c.samples, c.want)
		}
	}
}

// A session whose source knew no addresses gets those of its lines.
func TestDCPIOfASessionWithoutAddresses(t *testing.T) {
	image := self(t)
	path := filepath.Join(t.TempDir(), "app.tach")
	w := testenv.Must(writer.Create(path, writer.Options{Interval: 1000}))
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
		testenv.OK(t, w.WriteFrames(&s, stack))
	}
	testenv.OK(t, w.AddMetadata(tachyon.KindSession, tachyon.Session{Executable: image.Path, BuildID: image.BuildID, Source: "portable"}))
	testenv.OK(t, w.Close())
	var warnings []error
	db := t.TempDir()
	testenv.OK(t, convert(path, db, "dcpi", Options{Warn: func(err error) { warnings = append(warnings, err) }}))
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
