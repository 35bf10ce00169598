package main

var mu sync.Mutex
var cache struct{ mu sync.Mutex }

func f(p *pool, list []*pool, any other) {
	var own sync.Mutex
	made := &pool{}
	got := find()
	p.mu.Lock()                // pool mu
	list[3].mu.Lock()          // func f list.mu
	own.Lock()                 // func f own
	made.mu.Lock()             // pool mu
	got.mu.Lock()              // func f got.mu
	mu.Lock()                  // var mu
	cache.mu.Lock()            // var cache.mu
	p.Lock()                   // pool
	p.sub.mu.Lock()            // pool sub.mu
	got.(*sync.Mutex).Lock()   // func f got
	go func() { own.Lock() }() // func f own
	find()().mu.Lock()         // var find.mu
	f.g(1)[2].mu.Lock()        // var f.g.mu
}
