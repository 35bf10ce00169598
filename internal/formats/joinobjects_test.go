package formats

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// objectFile writes a file in which one goroutine waits for each of the objects.
func objectFile(t *testing.T, path string, s tachyon.Session, start uint64, objects ...tachyon.Object) {
	t.Helper()
	w := testenv.Must(writer.Create(path, writer.Options{Start: start, Interval: 1000, NoJournal: true}))
	for i, o := range objects {
		stack := []tachyon.Frame{{Func: "[select]", Line: o.Number}, {File: "a.go", Func: "main." + o.Symbol, Line: 7}}
		testenv.OK(t, w.WriteFrames(&tachyon.Sample{Thread: 5, Time: start + uint64(i+1)*1000}, stack))
	}
	testenv.OK(t, w.WriteRecords(&tachyon.Records{Objects: objects}))
	s.Start = time.UnixMicro(int64(start))
	testenv.OK(t, w.AddMetadata(tachyon.KindSession, s))
	testenv.OK(t, w.Close())
}

// waitedFor returns what the samples of a stream say that goroutines wait for: the function of the
// second frame, and the object's symbol, with those of its members.
func waitedFor(t *testing.T, s *reader.Reader) (list []string) {
	t.Helper()
	m := testenv.Must(s.Metadata())
	objects := map[int32]tachyon.Object{}
	for _, o := range m.Objects {
		if _, ok := objects[o.Number]; ok {
			t.Errorf("two objects have the number %d", o.Number)
		}
		objects[o.Number] = o
	}
	frames := s.Frames()
	for sample, err := range s.Samples() {
		testenv.OK(t, err)
		o := objects[frames[sample.Stack[0]].Line]
		text := fmt.Sprintf("%s %s", frames[sample.Stack[1]].Func, o.Symbol)
		for _, member := range o.Members {
			text += "+" + objects[member].Symbol
		}
		list = append(list, text)
	}
	slices.Sort(list)
	return list
}

// Files of one process have the same numbers, files of different processes have not.
func TestJoinObjects(t *testing.T) {
	dir := t.TempDir()
	name := func(n string) string { return filepath.Join(dir, n+".tach") }
	session := func(pid, part int) tachyon.Session {
		return tachyon.Session{Program: "p", PID: pid, Part: part, SessionStart: time.UnixMicro(joinStart), Duration: 50 * time.Millisecond}
	}
	a := tachyon.Object{Number: 1, Kind: tachyon.ObjectMutex, Symbol: "a"}
	b := tachyon.Object{Number: 3, Kind: tachyon.ObjectChannel, Symbol: "b", Capacity: 4}
	set := tachyon.Object{Number: 4, Kind: tachyon.ObjectSelect, Symbol: "set", Members: []int32{1, 3}}
	c := tachyon.Object{Number: 1, Kind: tachyon.ObjectCond, Symbol: "c"}
	d := tachyon.Object{Number: 3, Kind: tachyon.ObjectChannel, Symbol: "d"}
	objectFile(t, name("1"), session(7, 1), joinStart, a, b)
	objectFile(t, name("2"), session(7, 2), joinStart+100_000, a, b, set)
	objectFile(t, name("other"), session(8, 1), joinStart+50_000, d, c)
	in := testenv.Must(OpenAll([]string{name("1"), name("2"), name("other")}, Options{}))
	defer in.Close()
	s := written(t, dir, in)
	defer s.Close()
	want := []string{"main.a a", "main.a a", "main.b b", "main.b b", "main.c c", "main.d d", "main.set set+a+b"}
	if got := waitedFor(t, s); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	m := testenv.Must(s.Metadata())
	if len(m.Objects) != 5 {
		t.Errorf("%d objects: %+v", len(m.Objects), m.Objects)
	}
}
