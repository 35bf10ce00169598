package nytprof

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
)

// seen is what Devel::NYTProf::Data sees in a file.
type seen struct {
	Attributes, Options map[string]string
	Files               []seenFile
	Subs                []seenSub
}

type seenFile struct {
	FID                              uint32
	Name                             string
	Flags                            Flags
	Size, Mtime, Eval_fid, Eval_line uint32
	Stmts                            int64
	Time                             float64
	Srclines                         int
	Lines                            map[uint32][2]float64
}

type seenSub struct {
	Name             string
	FID, First, Last uint32
	Calls            int64
	Incl, Excl, Reci float64
	Rec_depth        uint32
	Callers          []seenCaller
}

type seenCaller struct {
	FID, Line        uint32
	Count            int64
	Incl, Excl, Reci float64
	Depth            uint32
	By               []string
}

func load(t testing.TB, file string) *Data {
	return testenv.Must(Load(testenv.Closes(t, testenv.Must(os.Open(file)))))
}

// Files and subs must be as Devel::NYTProf::Data has them.
func TestLoadAgainstRealReader(t *testing.T) {
	checked := 0
	for _, file := range goldens(t) {
		if file == cutOff {
			continue
		}
		b := testenv.Must(os.ReadFile(file + ".check.json"))
		// Perl printed c20's largest double with 15 digits, which is more than it.
		b = bytes.ReplaceAll(b, []byte("1.79769313486232e+308"), []byte("1.797693134862315e+308"))
		var want seen
		testenv.OK(t, json.Unmarshal(b, &want))
		t.Run(filepath.Base(file), func(t *testing.T) {
			d := load(t, file)
			for _, a := range d.Attributes {
				testenv.Same(t, fmt.Sprint("attribute ", a.Key), want.Attributes[a.Key], a.Value)
			}
			got := make(map[string]string)
			for _, o := range d.Options {
				got[o.Key] = o.Value
			}
			testenv.NoDiff(t, "", cmp.Diff(want.Options, got))
			compareFiles(t, d, want.Files)
			compareSubs(t, d, want.Subs)
		})
		checked++
	}
	testenv.Within(t, "files checked", checked, 10, 100)
}

var near = cmp.Near(1e-12)

func compareFiles(t *testing.T, d *Data, want []seenFile) {
	var got []seenFile
	for _, f := range d.Files {
		s := seenFile{
			FID: f.FID, Name: f.Name, Flags: f.Flags, Size: f.Size, Mtime: f.Mtime,
			Eval_fid: f.EvalFID, Eval_line: f.EvalLine, Srclines: len(f.Source), Lines: make(map[uint32][2]float64),
		}
		for line, lt := range f.Lines {
			seconds := float64(lt.Ticks) / d.TicksPerSecond()
			s.Lines[line] = [2]float64{seconds, float64(lt.Count)}
			s.Time += seconds
			s.Stmts += lt.Count
		}
		got = append(got, s)
	}
	testenv.NoDiff(t, "", cmp.Diff(want, got, near, cmp.EquateEmpty()))
}

func compareSubs(t *testing.T, d *Data, want []seenSub) {
	subs := make(map[string]*Sub)
	for _, s := range d.Subs {
		subs[s.Name] = s
	}
	testenv.Same(t, "subs", len(subs), len(want))
	for _, w := range want {
		s := subs[w.Name]
		if s == nil {
			t.Errorf("no sub %s", w.Name)
			continue
		}
		testenv.Same(t, w.Name, [4]int64{int64(s.FID), int64(s.First), int64(s.Last), s.Count()}, [4]int64{int64(w.FID), int64(w.First), int64(w.Last), w.Calls})
		testenv.NoDiff(t, w.Name, cmp.Diff([]float64{w.Incl, w.Excl}, []float64{s.Incl(), s.Excl()}, near))
		type place struct{ fid, line uint32 }
		got := make(map[place]seenCaller)
		for _, c := range s.Callers {
			g := got[place{c.FID, c.Line}]
			g.FID, g.Line, g.Depth = c.FID, c.Line, max(g.Depth, c.Depth)
			g.Count += c.Count
			g.Incl += c.Incl
			g.Excl += c.Excl
			g.Reci += c.Reci
			g.By = append(g.By, c.Sub)
			got[place{c.FID, c.Line}] = g
		}
		for _, c := range w.Callers {
			g := got[place{c.FID, c.Line}]
			slices.Sort(c.By)
			slices.Sort(g.By)
			testenv.NoDiff(t, w.Name, cmp.Diff(c, g, near))
		}
	}
}

func TestLoadCutOff(t *testing.T) {
	d, err := Load(testenv.Closes(t, testenv.Must(os.Open(cutOff))))
	testenv.Same(t, "a FormatError", errors.As(err, new(*FormatError)), true)
	var n int64
	for _, lt := range d.Files[0].Lines {
		n += lt.Count
	}
	testenv.FailIf(t, n != 13211-11249, "%d statements counted", n) // the last of 11250 DISCOUNTs is for what was cut off
	testenv.FailIf(t, d.Calls == nil || d.Processes[0].End != 0, "calls %v, processes %v", d.Calls, d.Processes)
}

// The call tree has the same times as the subs have, where all calls returned.
func TestCallTree(t *testing.T) {
	for _, file := range []string{"testdata/c01-fib.nytprof", "testdata/c03-multi-calls2.nytprof", "testdata/c09-slowops2.nytprof"} {
		d := load(t, file)
		excl := make(map[string]float64)
		for todo := []*Call{d.Calls}; len(todo) > 0; {
			c := todo[0]
			todo = append(todo[1:], c.Sorted()...)
			excl[c.Sub] += c.Excl
		}
		for _, s := range d.Subs {
			// Returned ticks are whole ones, at most one off a call.
			off := excl[s.Name] - s.Excl()*d.TicksPerSecond()
			testenv.Within(t, file+" "+s.Name, off, -float64(s.Count()), float64(s.Count()))
		}
	}
}

// A small file that inflates to a lot is refused before it fills the memory.
func TestLoadBomb(t *testing.T) {
	for name, chunk := range map[string]func(i uint32) Chunk{
		"attributes": func(uint32) Chunk { return &Attribute{} },
		"files":      func(i uint32) Chunk { return &NewFID{FID: i} },
		"processes":  func(i uint32) Chunk { return &PIDStart{PID: i} },
	} {
		l := newLoader()
		for i := range uint32(1000) {
			l.chunk(chunk(i))
		}
		testenv.Within(t, "bytes of 1000 "+name, l.size, 64_000, 1<<20)
	}
	file := "NYTProf 5 0\n:a=b\n:c=d\n:e=f\n"
	defer func(was int) { maxSize = was }(maxSize)
	maxSize = 100
	d, err := Load(strings.NewReader(file))
	var fe *FormatError
	testenv.FailIf(t, !errors.As(err, &fe) || fe.Offset != 22 || len(d.Attributes) != 2, "%d attributes, error %v", len(d.Attributes), err)
}

// Counts of any size make a file of bounded size, with all the time.
func TestManyStatements(t *testing.T) {
	defer func(was int64) { maxStatements = was }(maxStatements)
	maxStatements = 1000
	want := map[uint32]LineTime{1: {Ticks: 10 << 30, Count: 1 << 30}, 2: {Ticks: 10 << 20, Count: 1 << 20}, 3: {Ticks: 10, Count: 1}}
	d := &Data{Attributes: []Attribute{{"ticks_per_sec", "10000000"}}, Files: []*File{{FID: 1, Name: "a", Lines: want}}}
	var b bytes.Buffer
	testenv.OK(t, d.Write(&b, false))
	c := testenv.Must(Verify(bytes.NewReader(b.Bytes())))
	testenv.Within(t, "statements", c.Statements, 990, 1000+3)
	lines := testenv.Must(Load(&b)).Files[0].Lines
	testenv.Same(t, "lines", len(lines), len(want))
	for line, got := range lines {
		testenv.Same(t, fmt.Sprint("line ", line), got.Ticks, want[line].Ticks)
	}
}

func TestVerifyRefuses(t *testing.T) {
	head := "NYTProf 5 0\n:ticks_per_sec=10000000\n"
	fid := "@\x01\x00\x00\x06\x00\x00'\x01a"
	for _, c := range []struct{ name, file, want string }{
		{"ticks late", "NYTProf 5 0\n" + fid + "+\x01\x01\x01:ticks_per_sec=1\n", "offset 22: TIME_LINE before the attribute ticks_per_sec"},
		{"no ticks", "NYTProf 5 0\n:ticks_per_sec=0\n", "not a number of 32 bits"},
		{"doubles", head + ":nv_size=16\n", "nv_size"},
		{"sub's file", head + "s\x01'\x01a\x01\x01", "SUB_INFO names file 1 before its NEW_FID"},
		{"hole", head + fid + strings.Replace(fid, "\x01", "\x03", 1), "to be consecutive"},
	} {
		testenv.Fails(t, c.name, testenv.Err(Verify(strings.NewReader(c.file))), c.want)
	}
	for _, c := range []struct{ name, file, want string }{
		{"discounts", head + "--", "two DISCOUNTs"},
		{"twice", head + fid + "s\x01'\x01a\x01\x01s\x01'\x01a\x01\x01", `"a" is defined twice`},
		{"long", head + fid + "+\x01\x01\x01", "statements took 1e-07 s in a life of 0 s"},
		{"overhead", head, "no attribute cumulative_overhead_ticks"},
		{"end alone", head + "p\x05\x00\x00\x00\x00\x00\x00\x00\x00", "PID_END of process 5 without"},
	} {
		testenv.Has(t, c.name, strings.Join(testenv.Must(Verify(strings.NewReader(c.file))).Warnings, "; "), c.want)
	}
}

func TestRecode(t *testing.T) {
	raw := testenv.Must(os.ReadFile("testdata/c01-fib.nytprof"))
	var deflated, back bytes.Buffer
	testenv.OK(t, Recode(&deflated, bytes.NewReader(raw), false))
	testenv.OK(t, Recode(&back, bytes.NewReader(deflated.Bytes()), true))
	testenv.FailIf(t, deflated.Len() > len(raw)/2 || !bytes.Equal(back.Bytes(), raw), "%d bytes became %d and %d", len(raw), deflated.Len(), back.Len())
}

// addGoldens seeds a fuzz target with the real files and hostile ones.
func addGoldens(f *testing.F) {
	for _, file := range goldens(f) {
		b := testenv.Must(os.ReadFile(file))
		f.Add(b[:min(len(b), 8<<10)])
	}
	f.Add([]byte("NYTProf 5 0\nS\x01\x01'\xff\x00\xff\xff\xff"))
	f.Add([]byte("NYTProf 5 0\n@\xff\xff\xff\xff\xff\x00\x00\x06\x00\x00'\x01a+\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
}

func FuzzReader(f *testing.F) {
	addGoldens(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var out []byte
		inflated := 0
		grown := testenv.Allocated(func() {
			for c, err := range NewReader(bytes.NewReader(b)).Chunks() {
				if err == nil {
					out = c.encode(out[:0])
					inflated += len(out)
				}
			}
		})
		// Buffers, then every chunk once and once more as out.
		testenv.Within(t, "bytes allocated", grown, 0, uint64(1<<20+8*(len(b)+inflated)))
		again, err := reencode(t, b)
		if err != nil && len(again) == 0 {
			return
		}
		third, _ := reencode(t, again)
		testenv.Same(t, "what was written", string(third), string(again))
	})
}
