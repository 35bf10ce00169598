package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/gotach/profiler/cmd/gotach/internal/attach"
	"github.com/gotach/profiler/internal/analyze/instant"
)

// stacksNow prints what the goroutines of a process do now.
func (e *env) stacksNow(pid int, grouped, asJSON, pause bool) error {
	p, err := e.open(e.ctx, pid)
	if err != nil {
		return err
	}
	p.Pauses = pause
	return e.stacksOf(p, fmt.Sprintf("process %d", pid), time.Now(), grouped, asJSON)
}

// stacksOfCore prints what the goroutines of a process did when it ended.
func (e *env) stacksOfCore(args []string, grouped, asJSON bool) error {
	p, err := openCore(args)
	if err != nil {
		return err
	}
	fi, err := os.Stat(args[0])
	if err != nil {
		return err
	}
	return e.stacksOf(p, args[0]+": process "+strconv.Itoa(p.PID), fi.ModTime(), grouped, asJSON)
}

func (e *env) stacksOf(p *attach.Process, who string, when time.Time, grouped, asJSON bool) error {
	list, moved, err := p.Goroutines()
	if err != nil {
		return fmt.Errorf("%s: %w", who, err)
	}
	if moved > 0 {
		e.warn(fmt.Errorf("%s moved each time that they were read, and are left out", plural(int64(moved), "goroutine")))
	}
	at := &instant.Instant{Time: when, Goroutines: list}
	title := fmt.Appendf(nil, "%s (%s): %s at %s\n", who, p.Name, plural(int64(len(list)), "goroutine"), at.Time.Format("2006-01-02 15:04:05.000"))
	return e.printStacks(at, title, grouped, asJSON)
}
