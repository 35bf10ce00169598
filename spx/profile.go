package spx

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gotach/profiler/profile"
)

// maxStacks bounds the frames of all stacks of a Profile together: calls n deep
// have n different stacks, of n²/2 frames.
const maxStacks = 1 << 26

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
		wt: slices.Index(metrics, WallTime), ct: slices.Index(metrics, CPUTime),
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
	var path []uint32
	frames := 0
	goroutines := map[uint64]bool{}
	for i := 1; i < len(t.nodes); i++ {
		n := &t.nodes[i]
		if frames += n.depth; frames > maxStacks {
			return nil, fmt.Errorf("calls are nested too deeply to be added up: their stacks have more than %d frames", maxStacks)
		}
		path = path[:0]
		for k := uint32(i); k != 0; k = t.nodes[k].parent {
			path = append(path, t.nodes[k].fn)
		}
		rec := profile.Record{Stack: slices.Clone(path), Count: n.calls, Wall: ns(n.own[0]), CPU: ns(n.own[1])}
		if r.meta.sampled() {
			root := r.functions[path[len(path)-1]].Name
			if id, ok := goroutine(root); ok {
				rec.Goroutine = id
				goroutines[id] = true
			}
			rec.State, _ = profile.WaitReason(p.Frames[path[0]])
		}
		p.Records = append(p.Records, rec)
	}
	p.Goroutines = len(goroutines)
	return p, nil
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
