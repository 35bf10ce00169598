// Package flamegraph draws a profile as a flame graph: a static SVG picture for documents, without
// scripts. A function's width is its time, its callees are above it, and its color tells what most
// of its time is: on a CPU, waiting for a lock, and so on. What is too narrow to see is left out,
// and the picture says how much that is. A browser shows the figures of a function as a tooltip,
// and a dark page gets a dark background.
package flamegraph

import (
	"bytes"
	"cmp"
	"io"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
)

// Options say what to draw. The zero value is the usual choice.
type Options struct {
	CPU       bool   // CPU time instead of wall time
	Selection string // says which samples the profile has; "": all
}

// Limits of a picture. Width is in pixels.
const (
	width     = 1200
	narrowest = 0.4 // of a frame
	mostRows  = 150
	mostNodes = 8000
)

// mixed is the class of a function that has no class for most of its time.
const mixed = stream.Classes

// Sniff reports whether a file is such a picture.
func Sniff(head []byte) bool {
	return bytes.HasPrefix(head, []byte("<svg")) && bytes.Contains(head, []byte(generator))
}

// Write draws a profile. It returns a sentence that says what was left out, "" if nothing was.
func Write(w io.Writer, p *profile.Profile, o Options) (left string, err error) {
	g := newGraph(p, o)
	g.choose()
	d := &drawing{graph: g}
	d.draw()
	_, err = w.Write(d.b)
	return g.left, err
}

// A graph is a tree of functions.
type graph struct {
	p     *profile.Profile
	o     Options
	nodes []node // 0 is the root; a node comes after its caller
	child map[call]uint32

	rows  int    // that are drawn, the root's included
	drawn []bool // by node
	left  string
}

// A node is a function called by another node.
type node struct {
	caller    uint32
	function  function
	depth     int
	total     time.Duration // the root's is that of the profile
	self      time.Duration
	wall, cpu time.Duration
	classes   [stream.Classes]time.Duration // of total
	children  []uint32                      // by time, the largest first
}

// A function is what a node shows. Lines of a function are one.
type function struct{ name, file string }

type call struct {
	caller   uint32
	function function
}

func newGraph(p *profile.Profile, o Options) *graph {
	g := &graph{p: p, o: o, nodes: []node{{}}, child: map[call]uint32{}}
	for i := range p.Records {
		g.add(&p.Records[i])
	}
	for i := range g.nodes[1:] {
		n := uint32(i + 1)
		caller := &g.nodes[g.nodes[n].caller]
		caller.children = append(caller.children, n)
	}
	for i := range g.nodes {
		slices.SortFunc(g.nodes[i].children, func(a, b uint32) int {
			x, y := &g.nodes[a], &g.nodes[b]
			return cmp.Or(cmp.Compare(y.total, x.total), cmp.Compare(x.function.name, y.function.name), cmp.Compare(x.function.file, y.function.file))
		})
	}
	return g
}

// add adds a record. If no frame tells the state of a goroutine that does not run, a frame is added
// that does.
func (g *graph) add(r *profile.Record) {
	time := r.Wall
	if g.o.CPU {
		time = r.CPU
	}
	if time <= 0 {
		return
	}
	class := stream.ClassOf(r.State)
	if r.State == "" {
		class = stream.ClassOther
	}
	count := func(n uint32, self bool) {
		x := &g.nodes[n]
		x.total, x.wall, x.cpu = plus(x.total, time), plus(x.wall, r.Wall), plus(x.cpu, r.CPU)
		x.classes[class] = plus(x.classes[class], time)
		if self {
			x.self = plus(x.self, time)
		}
	}
	state := g.stateFrame(r)
	count(0, false)
	at := uint32(0)
	for i := len(r.Stack) - 1; i >= 0; i-- {
		f := g.p.Frames[r.Stack[i]]
		at = g.callee(at, function{profile.FuncName(f.Func), f.File})
		count(at, i == 0 && state == "")
	}
	if state != "" {
		count(g.callee(at, function{name: state}), true)
	}
}

// stateFrame returns the name of the frame that tells a record's state, "" if there is one already
// or none is needed.
func (g *graph) stateFrame(r *profile.Record) string {
	if len(r.Stack) == 0 {
		return "[no stack]"
	}
	switch r.State {
	case "", profile.Running, profile.Waiting, profile.NotSeen:
		return ""
	}
	if _, ok := stream.WaitReason(g.p.Frames[r.Stack[0]]); ok {
		return ""
	}
	return "[" + r.State + "]"
}

// callee returns the node of a function that a node calls.
func (g *graph) callee(caller uint32, f function) uint32 {
	key := call{caller, f}
	n, ok := g.child[key]
	if !ok {
		n = uint32(len(g.nodes))
		g.child[key] = n
		g.nodes = append(g.nodes, node{caller: caller, function: f, depth: g.nodes[caller].depth + 1})
	}
	return n
}

// class returns the class of most of a node's time.
func (n *node) class() stream.Class {
	for c, d := range n.classes {
		if d > n.total/2 {
			return stream.Class(c)
		}
	}
	return mixed
}

// choose decides which nodes are drawn. Callers of a node that is drawn are drawn too, since they
// are at least as wide.
func (g *graph) choose() {
	g.drawn = make([]bool, len(g.nodes))
	g.drawn[0], g.rows = true, 1
	least := time.Duration(float64(g.nodes[0].total) * narrowest / width)
	var widths []time.Duration
	for i := range g.nodes[1:] {
		if n := &g.nodes[i+1]; n.total > least && n.depth < mostRows {
			widths = append(widths, n.total)
		}
	}
	if len(widths) > mostNodes {
		slices.SortFunc(widths, func(a, b time.Duration) int { return cmp.Compare(b, a) })
		least = widths[mostNodes]
	}
	narrow, deep := 0, 0
	hidden := time.Duration(0)
	for i := range g.nodes[1:] {
		n := &g.nodes[i+1]
		switch {
		case n.total <= least:
			narrow++
		case n.depth >= mostRows:
			deep++
		default:
			g.drawn[i+1] = true
			g.rows = max(g.rows, n.depth+1)
			continue
		}
		if g.drawn[n.caller] {
			hidden = plus(hidden, n.total)
		}
	}
	g.left = leftText(narrow, deep, hidden, g.nodes[0].total)
}

func plus(a, b time.Duration) time.Duration {
	if s := a + b; s >= a {
		return s
	}
	return 1<<63 - 1
}
