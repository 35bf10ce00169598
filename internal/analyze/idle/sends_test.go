package idle

import (
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// A loop that waits in a select to send is not idle: whoever receives is slow. Without the source text it is as any other select.
func TestSelectSends(t *testing.T) {
	const text = `package main

func produce() {
	for {
		select {
		case events <- next():
		case <-done:
		}
	}
}

func watch() {
	for {
		select {
		case e := <-events:
		case <-done:
		}
	}
}
`
	read := func(string) *source.File { return &source.File{Text: []byte(text)} }
	for _, c := range []struct {
		function string
		read     func(string) *source.File
		idle     bool
	}{{"main.produce", read, false}, {"main.watch", read, true}, {"main.produce", nil, true}} {
		line := 3 + strings.Count(text[:strings.Index(text, strings.TrimPrefix(c.function, "main."))], "\n")
		at := tachyon.Frame{File: "/home/u/app/main.go", Func: c.function, Line: int32(line)}
		r := analyzetest.Record(t)
		for g := uint64(1); g <= 2; g++ {
			r.Goroutine(tachyon.Goroutine{ID: g, CreatedBy: "main.main", First: analyzetest.Start, Last: analyzetest.Start + analyzetest.OneSecond})
			for n := uint64(1); n < 1000; n++ {
				r.Add(g, n*1000, tachyon.Moved, analyzetest.Wait("select"), at)
			}
		}
		f := testenv.Must(Read(r.Labelled().Source, c.read))
		if len(f.waits) == 0 && c.idle || len(f.waits) > 0 && f.Is(firstWait) != c.idle {
			t.Errorf("%s, line %d, with text %v: idle %v", c.function, line, c.read != nil, !c.idle)
		}
	}
}

// A loop that waits until somebody reads what it writes is not idle, and one that waits for what it reads is.
func TestWrites(t *testing.T) {
	for wait, idle := range map[string]bool{"waitWrite": false, "waitRead": true} {
		r := analyzetest.Record(t)
		r.Goroutine(tachyon.Goroutine{ID: 1, CreatedBy: "main.main", First: analyzetest.Start, Last: analyzetest.Start + analyzetest.OneSecond})
		for n := uint64(1); n < 1000; n++ {
			r.Add(1, n*1000, tachyon.Moved, analyzetest.Wait("IO wait"), tachyon.Frame{File: "/usr/lib/go/src/internal/poll/fd_poll_runtime.go", Func: "internal/poll.(*pollDesc)." + wait, Line: 2}, analyzetest.Place("main.pass", 3))
		}
		f := testenv.Must(Read(r.Labelled().Source, nil))
		if got := len(f.waits) > 0 && f.Is(firstWait); got != idle {
			t.Errorf("%s: idle %v", wait, got)
		}
	}
}
