package main

import (
	"fmt"
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
	list, moved, err := p.Goroutines()
	if err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	if moved > 0 {
		e.warn(fmt.Errorf("%s moved each time that they were read, and are left out", plural(int64(moved), "goroutine")))
	}
	at := instantOf(list, time.Now())
	title := fmt.Appendf(nil, "process %d (%s): %s at %s\n", pid, p.Name, plural(int64(len(list)), "goroutine"), at.Time.Format("2006-01-02 15:04:05.000"))
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
