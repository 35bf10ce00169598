package analyze

import (
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/tachyon"
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
	s := newSources(func(string) ([]byte, error) { return []byte(channelSource), nil })
	file := s.file("/app/limit.go")
	if file == nil {
		t.Fatal("the source was not parsed")
	}
	places := map[lockKey]bool{
		{dir: "/app", root: "limit", path: "slots", op: doesSend}:    true,
		{dir: "/app", root: "tokens", path: "free", op: doesReceive}: true,
	}
	wrappers := map[string]*region{}
	for _, x := range file.funcs {
		if name := x.decl.Name.Name; x.outer == nil && (name == "acquire" || name == "release") {
			list := x.regions(nil, places)
			if len(list) != 1 || list[0].escapes != (name == "acquire") || list[0].releases != (name == "release") {
				t.Fatalf("%s: %+v", name, list)
			}
			wrappers[name] = list[0]
		}
	}
	for i, text := range strings.Split(channelSource, "\n") {
		line := i + 1
		x := file.at(line)
		if x == nil {
			continue
		}
		held := false
		for _, r := range x.regions(wrappers, places) {
			held = held || r.paired() && r.holds(line)
		}
		if want := strings.Contains(text, "// held"); held != want {
			t.Errorf("line %d: held %v, want %v: %s", line, held, want, text)
		}
	}
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

// Goroutines wait for each other at a channel, now on one side of it, now on the other. What libraries wait for is left
// out.
func TestChannelSides(t *testing.T) {
	r := record(t)
	idle := []tachyon.Frame{{Func: "[select]", Line: 2}, place("net/http.(*persistConn).writeLoop", 9)}
	for ms := uint64(1); ms <= 1000; ms++ {
		if ms%100 < 60 {
			r.add(7, 1000*ms, 0, append(waitFor("chan send", 1), place("main.produce", 5))...)
			r.add(8, 1000*ms, 0, tachyon.Frame{Func: "[sleep]"}, place("main.handle", 21), place("main.consume", 12))
		} else {
			r.add(7, 1000*ms, running, place("main.find", 31), place("main.produce", 4))
			r.add(8, 1000*ms, 0, append(waitFor("chan receive", 1), place("main.consume", 11))...)
		}
		r.add(9, 1000*ms, running, place("main.other", 50))
		r.add(10, 1000*ms, 0, idle...)
	}
	l := r.locks(LockOptions{Channels: true}, tachyon.Object{Number: 1, Kind: tachyon.ObjectChannel, Addr: 0xc000010000})
	if len(l.Locks) != 1 || l.Idle != time.Second {
		t.Fatalf("idle %v, %+v", l.Idle, l.Locks)
	}
	h := l.Locks[0].Holder
	if h == nil || h.Role != RoleOtherSide || h.Seen != l.Locks[0].Waited || h.States["sleep"] < 580*time.Millisecond || h.States["running"] < 380*time.Millisecond || len(h.States) != 2 {
		t.Errorf("waited %v: %+v", l.Locks[0].Waited, h)
	}
}
