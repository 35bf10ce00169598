package spx

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/profile"
)

// maxFrames bounds the frames that all stacks of a Profile take, by the number of
// events: n calls inside one another, each with a call beside it, have stacks of
// n² frames.
func maxFrames(events int64) int64 { return 1<<22 + 64*events }

// FunctionTotals is what one function took, as SPX's flat profile shows it.
type FunctionTotals struct {
	Function
	Called int64 // calls; of a sampled profile: stretches observed

	// One a metric of Metadata.EnabledMetrics. A call within a call of the same
	// function is part of the outer one and counts once.
	Inc []float64 // with the calls made inside
	Exc []float64 // without
}

// Profile reads all events and returns the report added up, and what each
// function took in all of its metrics, in the order of the report's functions.
// A record's count is the number of calls that had its stack; its time is what
// they took themselves.
func (r *Reader) Profile() (*profile.Profile, []FunctionTotals, error) {
	metrics := len(r.meta.EnabledMetrics)
	t := &tree{
		nodes: []node{{own: make([]float64, metrics)}}, last: make([]float64, metrics),
		children: map[uint64]uint32{}, open: map[uint32]int{},
	}
	for e, err := range r.Events() {
		if err != nil {
			return nil, nil, err
		}
		t.add(e)
	}
	p, err := t.profile(r)
	if err != nil {
		return nil, nil, err
	}
	return p, t.totals(r.functions), nil
}

// tree is the calls of a report by their stacks.
type tree struct {
	nodes    []node
	children map[uint64]uint32 // node << 32 | function -> node
	at       uint32            // node of the innermost open call
	open     map[uint32]int    // open calls of each function
	last     []float64         // values of the last event
}

type node struct {
	parent uint32
	fn     uint32
	depth  int
	inner  bool // within a call of the same function
	calls  int64
	own    []float64 // spent with this call innermost, one a metric
}

func (t *tree) add(e *Event) {
	own := t.nodes[t.at].own
	for i, v := range e.Values {
		own[i] += v - t.last[i]
	}
	copy(t.last, e.Values)
	if !e.Enter {
		t.open[e.Function]--
		t.nodes[t.at].calls++
		t.at = t.nodes[t.at].parent
		return
	}
	k := uint64(t.at)<<32 | uint64(e.Function)
	child, ok := t.children[k]
	if !ok {
		child = uint32(len(t.nodes))
		t.children[k] = child
		t.nodes = append(t.nodes, node{
			parent: t.at, fn: e.Function, depth: t.nodes[t.at].depth + 1,
			inner: t.open[e.Function] > 0, own: make([]float64, len(e.Values)),
		})
	}
	t.open[e.Function]++
	t.at = child
}

// totals adds the calls up by function. It adds what callees took to their callers'
// nodes, so it comes last.
func (t *tree) totals(functions []Function) (out []FunctionTotals) {
	sums := make([]FunctionTotals, len(functions))
	for i := range t.nodes[1:] {
		n := &t.nodes[1+i]
		f := &sums[n.fn]
		if f.Called == 0 {
			f.Inc, f.Exc = make([]float64, len(n.own)), make([]float64, len(n.own))
		}
		f.Called += n.calls
		addTo(f.Exc, n.own)
	}
	for i := len(t.nodes) - 1; i > 0; i-- { // callees come after their callers
		n := &t.nodes[i]
		if !n.inner {
			addTo(sums[n.fn].Inc, n.own)
		}
		addTo(t.nodes[n.parent].own, n.own)
	}
	for i, f := range sums {
		if f.Called > 0 {
			f.Function = functions[i]
			out = append(out, f)
		}
	}
	return out
}

func addTo(sum, values []float64) {
	for i, v := range values {
		sum[i] += v
	}
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
		Duration: ns(t.last[r.wt]),
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
		rec := profile.Record{Stack: stack, Count: n.calls, Wall: ns(n.own[r.wt])}
		if r.ct >= 0 {
			rec.CPU = ns(n.own[r.ct])
		}
		if r.meta.sampled() {
			if id, ok := goroutine(r.functions[stack[len(stack)-1]].Name); ok {
				rec.Goroutine = id
				goroutines[id] = true
			}
			rec.State = profile.LeafState(p.Frames[stack[0]])
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
