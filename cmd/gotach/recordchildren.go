package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gotach/profiler/cmd/gotach/internal/attach"
	"github.com/gotach/profiler/cmd/gotach/internal/gotest"
)

// childrenEvery is how often new processes are looked for.
const childrenEvery = 10 * time.Millisecond

// recordChildren records the Go programs that a process runs and starts, and those that they start,
// until ctx ends: that of the process to out, each of the others to a file of its own beside it. It
// says how it went. Its error says why there was none.
func (e *env) recordChildren(ctx context.Context, pid int, out string, o attach.Options) error {
	c := &children{root: pid, out: out, o: o, known: map[int]bool{}, err: errors.New("no Go program was seen")}
	for ctx.Err() == nil {
		c.looked = map[int][]byte{}
		c.look(ctx, []int{pid}, image(os.Getpid()))
		c.seen = c.looked
		select {
		case <-ctx.Done():
		case <-time.After(childrenEvery):
		}
	}
	c.wait.Wait()
	for _, say := range c.ends {
		if err := say(e.stderr); err != nil {
			e.warn(fmt.Errorf("record: %w", err))
		}
		c.err = nil
	}
	return c.err
}

// children are a process and those that were found below it.
type children struct {
	root         int
	out          string
	o            attach.Options
	wait         sync.WaitGroup
	seen, looked map[int][]byte // the images that processes had at the last look, and have at this one
	mu           sync.Mutex
	known        map[int]bool          // those that are recorded, or were: another program would have the same file
	ends         []func(*output) error // of recordings that have ended
	err          error                 // why the first process is not recorded
}

// image returns what tells one run of a program from the next (proc_pid_auxv(5)): addresses that
// the kernel chose at random for it.
func image(pid int) []byte {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", pid)) // it may have ended
	return b
}

// look begins to record processes that have begun to run a program, and those below them. Until
// then they have the image of their parent, and its memory.
func (c *children) look(ctx context.Context, pids []int, of []byte) {
	for _, pid := range pids {
		is := image(pid)
		c.looked[pid] = is
		if len(is) > 0 && !bytes.Equal(is, of) && !bytes.Equal(is, c.seen[pid]) {
			c.wait.Go(func() { c.record(ctx, pid) })
		}
		c.look(ctx, gotest.Children(pid), is)
	}
}

// record records a process if it runs a Go program.
func (c *children) record(ctx context.Context, pid int) {
	p, err := attach.Open(ctx, pid)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		if pid == c.root {
			c.err = err
		}
		return
	}
	if c.known[pid] {
		return
	}
	c.known[pid] = true
	name := c.out
	if ext := cmp.Or(filepath.Ext(c.out), ".tach"); pid != c.root || c.out == "" {
		name = strings.TrimPrefix(strings.TrimSuffix(c.out, ext)+"-", "-") + p.Name
		if pid != c.root {
			name += fmt.Sprint("-", pid)
		}
		name += ext
	}
	c.mu.Unlock()
	r, err := p.Record(ctx, name, c.o)
	c.mu.Lock()
	c.ends = append(c.ends, func(w *output) error { return recorded(p, name, w, r, err) })
}
