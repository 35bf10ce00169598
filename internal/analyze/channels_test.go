package analyze

import (
	"strings"
	"testing"
)

// Lines with "held" in a comment are those in which a place in the channel is taken.
const channelSource = `package main

type limit struct{ slots, other chan struct{} }

func (l *limit) plain() {
	before()
	l.slots <- struct{}{}
	work() // held
	<-l.slots
	after()
}

func (l *limit) deferred() {
	l.slots <- struct{}{}
	defer func() { <-l.slots }()
	work() // held
} // held

func (l *limit) choose(done chan int) {
	select {
	case l.slots <- struct{}{}:
		work() // held
	case <-done:
		return
	}
	more() // held
	<-l.slots
}

func (l *limit) starts() {
	l.slots <- struct{}{}
	go func() {
		defer func() { <-l.slots }()
		work() // held
	}() // held
	after()
}

func (l *limit) acquire() { l.slots <- struct{}{} }

func (l *limit) release() { <-l.slots }

func (l *limit) wrapped() {
	l.acquire()
	defer l.release()
	work() // held
} // held

func (l *limit) sends() {
	l.slots <- struct{}{}
	after()
}

func (l *limit) others() {
	l.other <- struct{}{}
	after()
	<-l.other
}

type tokens struct{ free chan *int }

func (t *tokens) use() {
	token := <-t.free
	work(token) // held
	t.free <- token
	after()
}

func consume(jobs chan int, results chan []string) {
	for j := range jobs {
		results <- find(j)
	}
}
`

func TestChannelRegions(t *testing.T) {
	checkHeld(t, channelSource, map[lockKey]bool{
		{dir: "/app", root: "limit", path: "slots", op: doesSend}:    true,
		{dir: "/app", root: "tokens", path: "free", op: doesReceive}: true,
	}, "acquire", "release")
	file := parsed(t, channelSource)
	for _, want := range []struct {
		text string
		keys []lockKey
	}{
		{"for j := range jobs", []lockKey{{dir: "/app", root: "func consume", path: "jobs"}, {dir: "/app", root: rootElement, path: "int jobs"}}},
		{"results <- find(j)", []lockKey{{dir: "/app", root: "func consume", path: "results"}, {dir: "/app", root: rootElement, path: "[]string results"}}},
		{"case <-done", []lockKey{{dir: "/app", root: "func choose", path: "done"}, {dir: "/app", root: rootElement, path: "int done"}}},
		{"l.other <- struct{}{}", []lockKey{{dir: "/app", root: "limit", path: "other"}}},
	} {
		line := 1 + strings.Count(channelSource[:strings.Index(channelSource, want.text)], "\n")
		x := file.at(line)
		found := false
		for _, op := range x.ops {
			if op.line == line {
				found = true
				if got := x.channelKeys(op); len(got) != len(want.keys) || got[0] != want.keys[0] || got[len(got)-1] != want.keys[len(want.keys)-1] {
					t.Errorf("%s: %+v, want %+v", want.text, got, want.keys)
				}
			}
		}
		if !found {
			t.Errorf("%s: no operation", want.text)
		}
	}
}
