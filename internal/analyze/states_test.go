package analyze_test

import (
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// A goroutine keeps its state over the files in which it has samples, in whatever order it comes there, and for
// maxFiles files in which it has none. Others begin with a zero state.
func TestStates(t *testing.T) {
	const files, goroutines = 6, 150
	has := func(file, id int) bool {
		switch {
		case id%5 == 0: // in the first and the last file only
			return file == 0 || file == files-1
		case id%5 == 1: // in every second file
			return file%2 == 0
		}
		return id >= 20*file
	}
	var list []*reader.Reader
	for file := range files {
		r := analyzetest.Record(t)
		for i := range goroutines {
			if id := (i*37 + file) % goroutines; has(file, id) {
				for at := range uint64(2) {
					r.Add(uint64(id+1), uint64(file)*analyzetest.OneSecond+uint64(i)+at*1000+1, 0, tachyon.Frame{Func: "[select]"}, analyzetest.Place("main.f", 5))
				}
			}
		}
		list = append(list, r.Finish(tachyon.Session{
			Source: "native", PID: 1, Part: file + 1, Start: time.UnixMicro(analyzetest.Start + int64(file)*analyzetest.OneSecond), SessionStart: time.UnixMicro(analyzetest.Start),
		}))
	}
	s := analyzetest.SamplesOf(t, stream.Options{}, list...)
	type count struct{ id, samples uint64 }
	st := analyze.NewStates(s.Source, func(c *count) bool { return c.samples > 0 && c.id%7 != 0 })
	want := map[uint64]count{}
	seen := 0
	for x := range testenv.All(t, s.All()) {
		w := want[x.Goroutine]
		if x.First && (x.Goroutine%7 == 0 || (x.Goroutine-1)%5 == 0) { // not kept, or no longer
			w = count{}
		}
		c := st.Of(x)
		testenv.FailIf(t, *c != w, "goroutine %d in file %d has the state %+v, want %+v", x.Goroutine, x.File, *c, w)
		c.id = x.Goroutine
		c.samples++
		want[x.Goroutine] = *c
		seen++
	}
	testenv.FailIf(t, seen < 3*goroutines, "%d samples", seen)
}
