package analyze

import (
	"strings"
	"testing"
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

func TestRegions(t *testing.T) {
	s := newSources(func(string) ([]byte, error) { return []byte(regionSource), nil })
	file := s.file("/app/cache.go")
	if file == nil {
		t.Fatal("the source was not parsed")
	}
	wrappers := map[string]*region{}
	for _, x := range file.funcs {
		for _, r := range x.regions(nil, nil) {
			if x.outer == nil && (x.decl.Name.Name == "lock" || x.decl.Name.Name == "unlock") {
				if r.escapes != (x.decl.Name.Name == "lock") || r.releases != (x.decl.Name.Name == "unlock") {
					t.Errorf("%s: escapes %v, releases %v", x.decl.Name.Name, r.escapes, r.releases)
				}
				wrappers[x.decl.Name.Name] = r
			} else if x.outer == nil && (r.escapes || r.releases) {
				t.Errorf("line %d: escapes %v, releases %v", x.from, r.escapes, r.releases)
			}
		}
	}
	for i, text := range strings.Split(regionSource, "\n") {
		line := i + 1
		x := file.at(line)
		if x == nil {
			continue
		}
		held := false
		for _, r := range x.regions(wrappers, nil) {
			held = held || r.holds(line)
			want := lockKey{dir: "/app", root: "cache", path: "mu"}
			if r.read {
				want.path = "table"
			}
			if r.key != want {
				t.Errorf("line %d: the key is %+v", line, r.key)
			}
		}
		if held != strings.HasSuffix(text, "// held") {
			t.Errorf("line %d, held %v: %s", line, held, text)
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
	p.mu.Lock()
	list[3].mu.Lock()
	own.Lock()
	made.mu.Lock()
	got.mu.Lock()
	mu.Lock()
	cache.mu.Lock()
	p.Lock()
	p.sub.mu.Lock()
	go func() { own.Lock() }()
	find()().mu.Lock()
	f.g(1)[2].mu.Lock()
}
`
	s := newSources(func(string) ([]byte, error) { return []byte(text), nil })
	file := s.file("/app/x.go")
	if file == nil {
		t.Fatal("the source was not parsed")
	}
	want := map[int][2]string{
		8: {"pool", "mu"}, 9: {"func f", "list.mu"}, 10: {"func f", "own"}, 11: {"pool", "mu"}, 12: {"func f", "got.mu"},
		13: {"var", "mu"}, 14: {"var", "cache.mu"}, 15: {"pool", ""}, 16: {"pool", "sub.mu"}, 17: {"func f", "own"},
		18: {"var", "find.mu"}, 19: {"var", "f.g.mu"},
	}
	found := 0
	for _, x := range file.funcs {
		for _, op := range x.ops {
			found++
			if k := x.key(op.on); k.root != want[op.line][0] || k.path != want[op.line][1] {
				t.Errorf("line %d: %+v, want %v", op.line, k, want[op.line])
			}
		}
	}
	if found != len(want) {
		t.Errorf("%d locks, want %d", found, len(want))
	}
}
