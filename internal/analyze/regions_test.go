package analyze

import (
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/source"
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
func parsed(t *testing.T, text string) *sourceFile {
	t.Helper()
	file := newSources(func(string) *source.File { return &source.File{Text: []byte(text)} }).file(&tachyon.Frame{File: "/app/cache.go"})
	if file == nil {
		t.Fatal("the source was not parsed")
	}
	return file
}

// checkHeld checks in which lines a lock is held, or a place of a channel. Functions of the two names take and give back what
// their callers hold.
func checkHeld(t *testing.T, text string, places map[lockKey]bool, take, give string) (held []*region) {
	t.Helper()
	file, wrappers := parsed(t, text), map[string]*region{}
	for _, x := range file.funcs {
		for _, r := range x.regions(nil, places) {
			name := x.decl.Name.Name
			if wraps := x.outer == nil && (name == take || name == give); wraps {
				wrappers[name] = r
			}
			if x.outer == nil && (places == nil || r.paired()) && (r.escapes != (name == take) || r.releases != (name == give)) {
				t.Errorf("%s: escapes %v, releases %v", name, r.escapes, r.releases)
			}
		}
	}
	if len(wrappers) != 2 {
		t.Fatalf("%s and %s: %v", take, give, wrappers)
	}
	for i, line := range strings.Split(text, "\n") {
		x, holds := file.at(i+1), false
		if x == nil {
			continue
		}
		for _, r := range x.regions(wrappers, places) {
			if (places == nil || r.paired()) && r.holds(i+1) {
				holds, held = true, append(held, r)
			}
		}
		if holds != strings.HasSuffix(line, "// held") {
			t.Errorf("line %d, held %v: %s", i+1, holds, line)
		}
	}
	return held
}

func TestRegions(t *testing.T) {
	for _, r := range checkHeld(t, regionSource, nil, "lock", "unlock") {
		if want := (lockKey{dir: "/app", root: "cache", path: map[bool]string{false: "mu", true: "table"}[r.read]}); r.key != want {
			t.Errorf("the key is %+v", r.key)
		}
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
	for _, x := range parsed(t, text).funcs {
		for _, op := range x.ops {
			found++
			k := x.key(op.on)
			if _, want, _ := strings.Cut(lines[op.line-1], "// "); strings.TrimSpace(k.root+" "+k.path) != want {
				t.Errorf("line %d: %+v, want %s", op.line, k, want)
			}
		}
	}
	if found != strings.Count(text, "// ") {
		t.Errorf("%d locks", found)
	}
}
