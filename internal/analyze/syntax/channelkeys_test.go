package syntax

import (
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// channelUses has the lines of TestChannelKeys.
const channelUses = `package main

type limit struct{ slots, other chan struct{} }

func (l *limit) choose(done chan int) {
	select {
	case l.slots <- struct{}{}:
	case <-done:
	}
	l.other <- struct{}{}
}

func consume(jobs chan int, results chan []string) {
	for j := range jobs {
		results <- find(j)
	}
}
`

func TestChannelKeys(t *testing.T) {
	file := NewSources(func(string) *source.File { return &source.File{Text: []byte(channelUses)} }).File(&tachyon.Frame{File: "/app/limit.go"})
	for _, want := range []struct {
		text string
		keys []Key
	}{
		{"for j := range jobs", []Key{{Dir: "/app", Root: "func consume", Path: "jobs"}, {Dir: "/app", Root: RootElement, Path: "int jobs"}}},
		{"results <- find(j)", []Key{{Dir: "/app", Root: "func consume", Path: "results"}, {Dir: "/app", Root: RootElement, Path: "[]string results"}}},
		{"case <-done", []Key{{Dir: "/app", Root: "func choose", Path: "done"}, {Dir: "/app", Root: RootElement, Path: "int done"}}},
		{"l.other <- struct{}{}", []Key{{Dir: "/app", Root: "limit", Path: "other"}}},
	} {
		line := 1 + strings.Count(channelUses[:strings.Index(channelUses, want.text)], "\n")
		x := file.At(line)
		found := false
		for _, op := range x.Ops {
			if op.Line == line {
				found = true
				if got := x.ChannelKeys(op); len(got) != len(want.keys) || got[0] != want.keys[0] || got[len(got)-1] != want.keys[len(want.keys)-1] {
					t.Errorf("%s: %+v, want %+v", want.text, got, want.keys)
				}
			}
		}
		if !found {
			t.Errorf("%s: no operation", want.text)
		}
	}
}
