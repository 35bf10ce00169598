package reader_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

var update = flag.Bool("update", false, "write the file of Example_goroutines anew")

// The file that Example_goroutines reads is up to date: the writer makes it from two
// goroutines. Goroutine 1 computes; goroutine 7 serves two requests and waits most of the
// time.
func TestGoroutinesFile(t *testing.T) {
	const start, want = 1_700_000_000_000_000, "testdata/goroutines/app.tach"
	path := filepath.Join(t.TempDir(), "app.tach")
	w, err := writer.Create(path, writer.Options{Start: start, Interval: 1000, Uncompressed: true})
	if err != nil {
		t.Fatal(err)
	}
	work := w.Intern(tachyon.Frame{File: "main.go", Func: "main.work", Line: 30})
	serve := w.Intern(tachyon.Frame{File: "main.go", Func: "main.serve", Line: 40})
	wait := w.Intern(tachyon.Frame{Func: "[chan receive]"})
	const running, queued = tachyon.HasGIL | tachyon.OnCPU, tachyon.GILRequested
	for _, s := range []tachyon.Sample{
		{Thread: 1, Time: start + 1000, Status: running, Stack: []uint32{work}},
		{Thread: 7, Time: start + 1000, Status: running, Stack: []uint32{serve}},
		{Thread: 1, Time: start + 2000, Status: running, Stack: []uint32{work}},
		{Thread: 1, Time: start + 3000, Status: running, Stack: []uint32{work}},
		{Thread: 1, Time: start + 4000, Status: queued, Stack: []uint32{work}},
		{Thread: 7, Time: start + 6000, Stack: []uint32{wait, serve}},
	} {
		if err := w.Write(&s); err != nil {
			t.Fatal(err)
		}
	}
	cart, pay := map[string]string{"endpoint": "/cart"}, map[string]string{"endpoint": "/pay"}
	err = w.AddMetadata(tachyon.KindGoroutines, map[string]any{"goroutines": []tachyon.Goroutine{
		{ID: 1, First: 1000, Last: 4000},
		{ID: 7, Parent: 1, First: 1000, Last: 6000, Labels: []tachyon.LabelSpan{{From: 1000, Labels: cart}, {From: 4000, Labels: pay}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(want, got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if there, err := os.ReadFile(want); err != nil || !bytes.Equal(there, got) {
		t.Errorf("%s differs from the writer's output (%v); run go test ./reader -run TestGoroutinesFile -update", want, err)
	}
}

// Example_goroutines and the program in testdata have the same text of fewer than 40 lines.
func TestGoroutinesProgram(t *testing.T) {
	program, err := os.ReadFile("testdata/goroutines/main.go")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("example_goroutines_test.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(program, []byte("\n")); n >= 40 {
		t.Errorf("the program has %d lines", n)
	}
	_, main, ok := strings.Cut(string(program), "func main() {\n")
	main = strings.TrimSuffix(main, "}\n")
	_, body, ok2 := strings.Cut(string(example), "func Example_goroutines() {\n")
	body, _, ok3 := strings.Cut(body, "\t// Output:\n")
	main = strings.Replace(main, "os.Args[1]", `"testdata/goroutines/app.tach"`, 1)
	if !ok || !ok2 || !ok3 || main != body {
		t.Errorf("the program's text:\n%s\nthe example's:\n%s", main, body)
	}
}
