package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/pprof"
	"strings"
	"sync"
	"time"
)

// A part is one part of the demo's workload. Its goroutines call run, which returns when the
// context ends.
type part struct {
	name       string // also the value of the goroutines' label "part"
	does       string // description
	goroutines int
	run        func(context.Context, *shared)
}

// workload is what the demo profiles.
var workload = []part{
	{"hot CPU", "hashes without a pause", 1, demoCPU},
	{"mutex", "four goroutines contend for a lock", 4, demoMutex},
	{"pipeline", "a producer, a channel, a slow consumer", 1, demoPipeline},
	{"sleep", "sleeps, works a little, sleeps", 1, demoSleep},
	{"file", "writes, syncs and reads a file", 1, demoFile},
	{"network", "sends requests over loopback", 1, demoNetwork},
	{"garbage", "allocates and drops memory", 1, demoGarbage},
}

// shared is the state that the parts share.
type shared struct {
	running sync.WaitGroup
	lock    sync.Mutex // for demoMutex
	sum     [sha256.Size]byte

	once  sync.Once
	error error // the first error
}

// end must be called when a part returns; err is its result.
func (s *shared) end(part string, err error) {
	if err != nil {
		s.once.Do(func() { s.error = fmt.Errorf("%s: %w", part, err) })
	}
	s.running.Done()
}

// runWorkload runs all parts for a time and returns the first error.
func runWorkload(ctx context.Context, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	defer pprof.SetGoroutineLabels(context.Background())
	var common shared
	for _, p := range workload {
		// A new goroutine inherits the labels of the goroutine that starts it.
		pprof.SetGoroutineLabels(pprof.WithLabels(ctx, pprof.Labels("part", p.name)))
		for range p.goroutines {
			common.running.Add(1)
			go p.run(ctx, &common)
		}
	}
	pprof.SetGoroutineLabels(ctx)
	common.running.Wait()
	return common.error
}

// hash takes some tens of microseconds of CPU time a round.
func hash(rounds int) (sum [sha256.Size]byte) {
	block := make([]byte, 64<<10)
	for range rounds {
		sum = sha256.Sum256(block)
		copy(block, sum[:])
	}
	return sum
}

func demoCPU(ctx context.Context, s *shared) {
	defer s.end("hot CPU", nil)
	for ctx.Err() == nil {
		hash(10)
	}
}

func demoMutex(ctx context.Context, s *shared) {
	defer s.end("mutex", nil)
	for ctx.Err() == nil {
		s.lock.Lock()
		s.sum = hash(5)
		time.Sleep(time.Millisecond) // holds the lock during a slow operation
		s.lock.Unlock()
	}
}

func demoPipeline(ctx context.Context, s *shared) {
	defer s.end("pipeline", nil)
	items := make(chan int)
	go func() {
		defer close(items)
		for i := 0; ctx.Err() == nil; i++ {
			items <- i
		}
	}()
	for range items {
		hash(2)
		time.Sleep(2 * time.Millisecond)
	}
}

func demoSleep(ctx context.Context, s *shared) {
	defer s.end("sleep", nil)
	for ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond)
		hash(1)
	}
}

func demoFile(ctx context.Context, s *shared) { s.end("file", fileLoop(ctx)) }

func fileLoop(ctx context.Context) error {
	f, err := os.CreateTemp("", "gotach-demo-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	data := make([]byte, 256<<10)
	for ctx.Err() == nil {
		if _, err := f.WriteAt(data, 0); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		if _, err := f.ReadAt(data, 0); err != nil {
			return err
		}
	}
	return nil
}

func demoNetwork(ctx context.Context, s *shared) { s.end("network", networkLoop(ctx)) }

func networkLoop(ctx context.Context) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	served := make(chan struct{})
	go func() {
		defer close(served)
		serveSlowly(l)
	}()
	defer func() { l.Close(); <-served }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return err
	}
	defer c.Close()
	message := make([]byte, 4<<10)
	for ctx.Err() == nil {
		if _, err := c.Write(message); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, message); err != nil {
			return err
		}
	}
	return nil
}

// serveSlowly is an echo server for one client. It answers after 3 ms.
func serveSlowly(l net.Listener) {
	c, err := l.Accept()
	if err != nil {
		return
	}
	defer c.Close()
	message := make([]byte, 4<<10)
	for {
		if _, err := io.ReadFull(c, message); err != nil {
			return
		}
		time.Sleep(3 * time.Millisecond)
		if _, err := c.Write(message); err != nil {
			return
		}
	}
}

func demoGarbage(ctx context.Context, s *shared) { s.end("garbage", garbageLoop(ctx)) }

func garbageLoop(ctx context.Context) error {
	type node struct {
		Name     string
		Children []node
	}
	for ctx.Err() == nil {
		tree := node{Name: strings.Repeat("x", 100)}
		for range 200 {
			tree.Children = append(tree.Children, node{Name: fmt.Sprint(tree.Name, len(tree.Children))})
		}
		text, err := json.Marshal(tree)
		if err != nil {
			return err
		}
		var again node
		if err := json.Unmarshal(text, &again); err != nil {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}
