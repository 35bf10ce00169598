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
func (e *env) stacksNow(pid int, grouped, asJSON bool) error {
	p, err := attach.Open(pid)
	if err != nil {
		return err
	}
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
	at := instantOf(list, when)
	title := fmt.Appendf(nil, "%s (%s): %s at %s\n", who, p.Name, plural(int64(len(list)), "goroutine"), at.Time.Format("2006-01-02 15:04:05.000"))
	switch {
	case asJSON:
		return e.printJSON(at, " ")
	case grouped:
		return e.print(append(title, instant.Grouped(at.Goroutines)...))
	}
	return e.print(append(title, instant.Text(at.Goroutines)...))
}

// instantOf returns goroutines as the commands print them.
func instantOf(list []attach.Goroutine, now time.Time) *instant.Instant {
	out := &instant.Instant{Time: now, Goroutines: make([]instant.Goroutine, 0, len(list))}
	for _, g := range list {
		x := instant.Goroutine{ID: g.ID, Parent: g.Parent, State: g.State, Waited: g.Waited, Labels: g.Labels, Frames: []instant.Frame{}}
		if g.CreatedBy.Func != "" {
			x.CreatedBy, x.CreatedAt = g.CreatedBy.Func, g.CreatedBy.File+":"+strconv.Itoa(int(g.CreatedBy.Line))
		}
		for _, f := range g.Frames {
			x.Frames = append(x.Frames, instant.Frame(f))
		}
		out.Goroutines = append(out.Goroutines, x)
	}
	return out
}
