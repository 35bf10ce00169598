package spx

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/profile"
)

// maxFrames bounds the frames that all stacks of a Profile take, by the number of
// events: n calls inside one another, each with a call beside it, have stacks of
// n² frames.
func maxFrames(events int64) int64 { return 1<<22 + 64*events }

// Profile reads all events and returns the report added up, and what each
// function took in all of its metrics. A record's count is the number of calls
// that had its stack; its time is what they took themselves.
func (r *Reader) Profile() (*profile.Profile, []FunctionTotals, error) {
	f := newFlat(len(r.meta.EnabledMetrics))
	t := newTree(r.meta.EnabledMetrics)
	for e, err := range r.Events() {
		if err != nil {
			return nil, nil, err
		}
		f.add(e)
		t.add(e)
	}
	p, err := t.profile(r)
	if err != nil {
		return nil, nil, err
	}
	return p, f.list(r.Functions()), nil
}

// tree is the calls of a report by their stacks.
type tree struct {
	nodes    []node
	children map[uint64]uint32 // node << 32 | function -> node
	at       uint32            // node of the innermost open call
	wt, ct   int               // indices of metrics; ct -1: there is none
	last     [2]float64        // of wt and ct
}

type node struct {
	parent uint32
	fn     uint32
	depth  int
	calls  int64
	own    [2]float64 // wt and ct spent with this call innermost
}

func newTree(metrics []string) *tree {
	return &tree{
		nodes: make([]node, 1), children: map[uint64]uint32{},
		wt: slices.Index(metrics, wallTime), ct: slices.Index(metrics, cpuTime),
	}
}

func (t *tree) add(e *Event) {
	now := [2]float64{e.Values[t.wt], 0}
	if t.ct >= 0 {
		now[1] = e.Values[t.ct]
	}
	for i := range now {
		t.nodes[t.at].own[i] += now[i] - t.last[i]
	}
	t.last = now
	if !e.Enter {
		t.nodes[t.at].calls++
		t.at = t.nodes[t.at].parent
		return
	}
	k := uint64(t.at)<<32 | uint64(e.Function)
	child, ok := t.children[k]
	if !ok {
		child = uint32(len(t.nodes))
		t.children[k] = child
		t.nodes = append(t.nodes, node{parent: t.at, fn: e.Function, depth: t.nodes[t.at].depth + 1})
	}
	t.at = child
}

func (t *tree) profile(r *Reader) (*profile.Profile, error) {
	unit := 1.0 // ns
	if r.micros {
		unit = 1000
	}
	ns := func(v float64) time.Duration {
		// ct may fall by some ns from call to call.
		return time.Duration(min(max(math.Round(v*unit), 0), math.MaxInt64/2))
	}
	p := &profile.Profile{
		Program:  r.meta.CLICommandLine,
		Duration: ns(t.last[0]),
		Interval: r.meta.interval(),
		Samples:  r.exits,
	}
	if r.meta.ExecTS > 0 {
		p.Start = time.Unix(r.meta.ExecTS, 0)
	}
	if r.meta.CLI == 0 && r.meta.HTTPRequestURI != "" {
		p.Program = strings.TrimSpace(r.meta.HTTPMethod + " " + r.meta.HTTPHost + r.meta.HTTPRequestURI)
	}
	for _, f := range r.functions {
		p.Frames = append(p.Frames, profile.Frame{Func: f.Name, File: f.File, Line: int32(f.Line)})
	}
	stacks, err := t.stacks(maxFrames(r.events))
	if err != nil {
		return nil, err
	}
	goroutines := map[uint64]bool{}
	for i := 1; i < len(t.nodes); i++ {
		n, stack := &t.nodes[i], stacks[i]
		rec := profile.Record{Stack: stack, Count: n.calls, Wall: ns(n.own[0]), CPU: ns(n.own[1])}
		if r.meta.sampled() {
			if id, ok := goroutine(r.functions[stack[len(stack)-1]].Name); ok {
				rec.Goroutine = id
				goroutines[id] = true
			}
			rec.State, _ = profile.WaitReason(p.Frames[stack[0]])
			if rec.State == "" && rec.CPU > 0 && rec.CPU == rec.Wall {
				rec.State = profile.Running
			}
		}
		p.Records = append(p.Records, rec)
	}
	p.Goroutines = len(goroutines)
	return p, nil
}

// stacks returns the functions of each node's stack, innermost first. A caller's stack
// is the end of its callee's, so it shares the memory of its deepest callee's.
func (t *tree) stacks(limit int64) ([][]uint32, error) {
	all := make([][]uint32, len(t.nodes))
	frames := int64(0)
	for i := len(t.nodes) - 1; i > 0; i-- { // callees come after their callers
		if all[i] != nil {
			continue
		}
		if frames += int64(t.nodes[i].depth); frames > limit {
			return nil, fmt.Errorf("calls are nested too deeply to be added up: their stacks have more than %d frames", limit)
		}
		stack := make([]uint32, 0, t.nodes[i].depth)
		for k := uint32(i); k != 0; k = t.nodes[k].parent {
			stack = append(stack, t.nodes[k].fn)
		}
		for k := uint32(i); k != 0 && all[k] == nil; k = t.nodes[k].parent {
			all[k] = stack[t.nodes[i].depth-t.nodes[k].depth:]
		}
	}
	return all, nil
}

// goroutine returns the number of the goroutine that lies under a root.
func goroutine(root string) (id uint64, ok bool) {
	s, ok := strings.CutPrefix(root, "goroutine ")
	if !ok {
		return 0, false
	}
	id, err := strconv.ParseUint(s, 10, 64)
	return id, err == nil
}
