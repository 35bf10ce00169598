package formats

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/formats/dcpi"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// self is the running test, which is an ELF file here.
func self(t *testing.T) *dcpi.Image {
	return testenv.Must(dcpi.OpenImage(testenv.Must(os.Executable())))
}

// leafSession is a session of the running test, with leaf addresses of two of
// its functions, and the file's samples: 1000 on CPU or not of each.
func leafSession(t *testing.T) (path string, symbols [2]string) {
	t.Helper()
	image := self(t)
	function := func(addr uint64) tachyon.Frame {
		f, ok := image.Frame(addr)
		testenv.StopIf(t, !ok, "%#x is in no procedure", addr)
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

func TestDCPIOfASession(t *testing.T) {
	in, symbols := leafSession(t)
	for i, s := range symbols {
		symbols[i] = profile.FuncName(s)
	}
	db, files := filepath.Join(t.TempDir(), "db"), []string(nil)
	for n := uint64(1); n <= 2; n++ { // the second time adds
		testenv.OK(t, convert(in, db, "dcpi", Options{}))
		files = testenv.Must(filepath.Glob(filepath.Join(db, "*", "*", "*")))
		testenv.StopIf(t, len(files) != 2 || !strings.HasSuffix(files[0], ".cpu_ns") || !strings.HasSuffix(files[1], ".wall_ns"), "files are %q", files)
		for i, want := range []uint64{700, 2000} {
			_, samples := testenv.Must(dcpi.ReadFile(files[i], dcpi.Options{})).Total()
			testenv.Same(t, files[i], samples, n*want)
		}
	}

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
		testenv.NoDiff(t, c.path, cmp.Diff(c.want, got))
		testenv.Same(t, c.path, r.Samples, c.samples)
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
	testenv.Same(t, "warnings", len(warnings), 1)
	testenv.Fails(t, "warning", warnings[0], "1 samples are left out")
	r := report(t, db)
	row := r.Rows[0]
	got := fmt.Sprint(len(r.Rows), r.Samples, row.Name, row.File, row.Line, row.Self.Round(time.Microsecond), row.SelfCPU) // 29 periods
	testenv.Same(t, "the row", got, fmt.Sprint(1, 29, leaf.Func, leaf.File, leaf.Line, 56*time.Millisecond, 20*time.Millisecond))
}

// hot is a function with a call 2 lines below its first.
//
//go:noinline
func hot() []tachyon.Frame {
	// This is the line after the first one.
	return here()
}

// here returns the stack of its caller, without the tests' own.
//
//go:noinline
func here() (list []tachyon.Frame) {
	var pcs [4]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	for f, more := frames.Next(); more && len(list) < 2; f, more = frames.Next() {
		list = append(list, tachyon.Frame{File: f.File, Func: f.Function, Line: int32(f.Line)})
	}
	return list
}

// cpuSession writes a file of a program that is this test: 1 s on a CPU in here, called by hot, 500 ms in a
// system call, 9 s asleep and 1 s of no goroutine.
func cpuSession(t *testing.T, executable, id string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.tach")
	const start = 1_795_234_224_000_000
	w := testenv.Must(writer.Create(path, writer.Options{Start: start, Interval: 1000}))
	stack := hot()
	wait := func(name string) []tachyon.Frame { return append([]tachyon.Frame{{Func: name}}, stack...) }
	add := func(at uint64, interpreter uint32, s tachyon.Status, frames ...tachyon.Frame) {
		testenv.OK(t, w.WriteFrames(&tachyon.Sample{Thread: 1, Interpreter: interpreter, Time: start + at, Status: s}, frames))
	}
	add(0, 0, 0, wait("[sleep]")...)
	add(9_000_000, 0, 0, wait("[sleep]")...)
	add(10_000_000, 0, tachyon.HasGIL|tachyon.OnCPU, stack...)
	add(10_500_000, 0, tachyon.Unknown|tachyon.OnCPU, wait("[syscall]")...)
	add(0, tachyon.Process, 0, tachyon.Frame{Func: tachyon.FuncScheduler})
	add(1_000_000, tachyon.Process, tachyon.OnCPU, tachyon.Frame{Func: tachyon.FuncScheduler})
	testenv.OK(t, w.AddMetadata(tachyon.KindSession, tachyon.Session{Markers: true, Executable: executable, BuildID: id, Duration: 11 * time.Second}))
	testenv.OK(t, w.Close())
	return path
}

// go build -pgo takes a profile of CPU time: the tool that reads it for the compiler finds the call, its weight
// and its line within the function.
func TestPGO(t *testing.T) {
	image := self(t)
	path := cpuSession(t, image.Path, image.BuildID)
	out := filepath.Join(t.TempDir(), "default.pgo")
	warn := func(err error) { t.Error(err) }
	testenv.OK(t, convert(path, out, "pprof", Options{CPU: true, Warn: warn}))
	got := testenv.Run(t, exec.Command("go", "tool", "preprofile", "-i", out))
	want := "formats.hot\ngithub.com/gotach/profiler/internal/formats.here\n2 1500000000\n"
	testenv.Has(t, "what the compiler would read", got, want)
	r := testenv.Must(openInput(t, out, Options{}).Report(profile.ReportOptions{}))
	testenv.Same(t, "total, CPU time and rows", fmt.Sprint(r.Total, r.TotalCPU, len(r.Rows)), "2.5s 2.5s 3")

	// Without the executable there is a profile, and a warning.
	path = cpuSession(t, image.Path, "other")
	var warned bytes.Buffer
	o := Options{CPU: true, Warn: func(err error) { fmt.Fprintln(&warned, err) }}
	testenv.OK(t, convert(path, out, "pprof", o))
	testenv.Has(t, "warnings", warned.String(), "its build ID is another one")
	// A file that go build reads is not written then.
	refused := filepath.Join(t.TempDir(), "default.pgo")
	testenv.Fails(t, "without the executable", convert(path, refused, "pprof", Options{CPU: true, PGO: true, Warn: warn}), "its build ID is another one")
	testenv.Is(t, "the file that go build would refuse", testenv.Err(os.Stat(refused)), os.ErrNotExist)
	copied := filepath.Join(t.TempDir(), "copy")
	testenv.OK(t, os.WriteFile(copied, testenv.Must(os.ReadFile(image.Path)), 0o600))
	testenv.OK(t, convert(path, out, "pprof", Options{CPU: true, Warn: warn, Executable: copied}))
}

// While a file is written there is nothing that a kill could leave.
func TestReplaceLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	w, _ := nameless(dir)
	if w == nil {
		testenv.Skip(t, "the file system has no files without a name")
	}
	w.Close()
	out, bad := filepath.Join(dir, "k.tach"), errors.New("bad")
	for i, text := range []string{"first", "second", ""} {
		err := Replace(out, func(w io.Writer) error {
			testenv.Same(t, fmt.Sprintf("files while %q is written", text), len(testenv.Must(os.ReadDir(dir))), min(i, 1))
			if text == "" {
				return bad
			}
			_, err := io.WriteString(w, text)
			return err
		})
		testenv.FailIf(t, text == "" && !errors.Is(err, bad) || text != "" && err != nil, "%q: %v", text, err)
		if i == 0 {
			testenv.OK(t, os.Chmod(out, 0o640))
		}
	}
	testenv.Same(t, "the file", fmt.Sprint(string(testenv.Must(os.ReadFile(out))), testenv.Must(os.Stat(out)).Mode()), "second-rw-r-----")
	testenv.Same(t, "files left", len(testenv.Must(os.ReadDir(dir))), 1)
}
