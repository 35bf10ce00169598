package syntax

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/tachyon"
)

// Lines with "held" in a comment are those in which a lock is held.
const regionSource = `package main

import "sync"

type cache struct {
	mu    sync.Mutex
	table sync.RWMutex
}

func (c *cache) plain() {
	before()
	c.mu.Lock()
	work() // held
	for i := range 3 { // held
		more(i) // held
	}
	c.mu.Unlock()
	after()
}

func (c *cache) deferred(ok bool) int {
	before()
	c.mu.Lock()
	defer c.mu.Unlock()
	if ok { // held
		return 1 // held
	}
	return 2 // held
} // held

func (c *cache) literal() {
	c.mu.Lock()
	defer func() {
		c.mu.Unlock()
	}()
	work() // held
} // held

func (c *cache) early(ok bool) {
	c.mu.Lock()
	if ok { // held
		c.mu.Unlock()
		after()
		return
	}
	work() // held
	c.mu.Unlock()
	after()
}

func (c *cache) branches(n int) {
	c.table.RLock()
	switch n { // held
	case 1: // held
		c.table.RUnlock()
		after()
		return
	case 2: // held
		work() // held
	default: // held
		panic("no") // held
	}
	c.table.RUnlock()
	after()
}

func (c *cache) loop() {
	for {
		c.mu.Lock()
		work() // held
		c.mu.Unlock()
		after()
	}
}

func (c *cache) again() {
	c.mu.Lock()
	for more(0) { // held
		work() // held
		c.mu.Unlock()
		after()
		c.mu.Lock()
	}
	work() // held
	c.mu.Unlock()
}

func (c *cache) try() {
	if !c.mu.TryLock() {
		after()
		return
	}
	work() // held
	c.mu.Unlock()
}

func (c *cache) tried() {
	if c.mu.TryLock() {
		work() // held
		c.mu.Unlock()
	}
	after()
}

func (c *cache) lock() { c.mu.Lock() }

func (c *cache) unlock() { c.mu.Unlock() }

func (c *cache) wrapped() {
	before()
	c.lock()
	work() // held
	c.unlock()
	after()
}

func (c *cache) wrappedToo() {
	c.lock()
	defer c.unlock()
	work() // held
} // held

func run(c *cache) {
	do(func() {
		c.mu.Lock()
		work() // held
		c.mu.Unlock()
	})
	after()
}
`

// parsed returns the text of a file as the analyses have it.
func parsed(text string) *File {
	file := NewSources(func(string) *source.File { return &source.File{Text: []byte(text)} }).File(&tachyon.Frame{File: "/app/cache.go"})
	return file
}

// checkHeld checks in which lines a lock is held, or a place of a channel. Functions of the two names take and give back what
// their callers hold.
func checkHeld(t *testing.T, text string, places map[Key]bool, take, give string) (held []*Region) {
	t.Helper()
	file, wrappers := parsed(text), map[string]*Region{}
	for _, x := range file.Funcs {
		for _, r := range x.Regions(nil, places) {
			name := x.Decl.Name.Name
			if wraps := x.Outer == nil && (name == take || name == give); wraps {
				wrappers[name] = r
			}
			if x.Outer == nil && (places == nil || r.Paired()) && (r.Escapes != (name == take) || r.Releases != (name == give)) {
				t.Errorf("%s: escapes %v, releases %v", name, r.Escapes, r.Releases)
			}
		}
	}
	testenv.Same(t, "wrappers", len(wrappers), 2)
	for i, line := range strings.Split(text, "\n") {
		x, holds := file.At(i+1), false
		if x == nil {
			continue
		}
		for _, r := range x.Regions(wrappers, places) {
			if (places == nil || r.Paired()) && r.Holds(i+1) {
				holds, held = true, append(held, r)
			}
		}
		testenv.Same(t, fmt.Sprintf("line %d: %s", i+1, line), holds, strings.HasSuffix(line, "// held"))
	}
	return held
}

func TestRegions(t *testing.T) {
	for _, r := range checkHeld(t, regionSource, nil, "lock", "unlock") {
		testenv.Same(t, "the key", r.Key, Key{Dir: "/app", Root: "cache", Path: map[bool]string{false: "mu", true: "table"}[r.Read]})
	}
}

func TestLockKeys(t *testing.T) {
	const text = `package main
var mu sync.Mutex
var cache struct{ mu sync.Mutex }
func f(p *pool, list []*pool, any other) {
	var own sync.Mutex
	made := &pool{}
	got := find()
	p.mu.Lock() // pool mu
	list[3].mu.Lock() // func f list.mu
	own.Lock() // func f own
	made.mu.Lock() // pool mu
	got.mu.Lock() // func f got.mu
	mu.Lock() // var mu
	cache.mu.Lock() // var cache.mu
	p.Lock() // pool
	p.sub.mu.Lock() // pool sub.mu
	go func() { own.Lock() }() // func f own
	find()().mu.Lock() // var find.mu
	f.g(1)[2].mu.Lock() // var f.g.mu
}
`
	lines, found := strings.Split(text, "\n"), 0
	for _, x := range parsed(text).Funcs {
		for _, op := range x.Ops {
			found++
			k := x.Key(op.On)
			_, want, _ := strings.Cut(lines[op.Line-1], "// ")
			testenv.Same(t, fmt.Sprint("line ", op.Line), strings.TrimSpace(k.Root+" "+k.Path), want)
		}
	}
	testenv.Same(t, "locks", found, strings.Count(text, "// "))
}

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

func TestRegionsOfChannels(t *testing.T) {
	checkHeld(t, channelSource, map[Key]bool{
		{Dir: "/app", Root: "limit", Path: "slots", Op: DoesSend}:    true,
		{Dir: "/app", Root: "tokens", Path: "free", Op: DoesReceive}: true,
	}, "acquire", "release")
}

func TestChannelKeys(t *testing.T) {
	file := parsed(channelSource)
	for _, want := range []struct {
		text string
		keys []Key
	}{
		{"for j := range jobs", []Key{{Dir: "/app", Root: "func consume", Path: "jobs"}, {Dir: "/app", Root: RootElement, Path: "int jobs"}}},
		{"results <- find(j)", []Key{{Dir: "/app", Root: "func consume", Path: "results"}, {Dir: "/app", Root: RootElement, Path: "[]string results"}}},
		{"case <-done", []Key{{Dir: "/app", Root: "func choose", Path: "done"}, {Dir: "/app", Root: RootElement, Path: "int done"}}},
		{"l.other <- struct{}{}", []Key{{Dir: "/app", Root: "limit", Path: "other"}}},
	} {
		line := 1 + strings.Count(channelSource[:strings.Index(channelSource, want.text)], "\n")
		x := file.At(line)
		i := slices.IndexFunc(x.Ops, func(op Op) bool { return op.Line == line })
		testenv.NoDiff(t, want.text, cmp.Diff(want.keys, x.ChannelKeys(x.Ops[i])))
	}
}
