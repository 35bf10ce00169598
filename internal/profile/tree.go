package profile

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A Node is a function in a tree of calls. Its children are the functions that it calls, or those
// that call it.
type Node struct {
	Name     string        `json:"name"`
	File     string        `json:"file"`
	Line     int           `json:"line"` // the one with the most time in one stack
	Total    time.Duration `json:"total_ns"`
	Self     time.Duration `json:"self_ns"` // time in which the stack ends there
	TotalCPU time.Duration `json:"total_cpu_ns"`
	NoCore   time.Duration `json:"total_no_core_ns,omitempty"`
	Children []*Node       `json:"children,omitempty"` // the one with the most time first

	Series []float32 `json:"-"` // of Total

	at   time.Duration // of the stack that Line is from
	kids map[rowKey]*Node
}

// A Tree is a tree of calls.
type Tree struct {
	Report           // without rows
	Nodes    []*Node `json:"tree"`
	NodesCut int     `json:"-"` // nodes that Top left out
}

// NewTree makes a tree of the functions that goroutines began with and of what these call.
func NewTree(p *Profile, o ReportOptions) (*Tree, error) {
	return newTree(p, o, func(stack []uint32, yield func(frame uint32)) {
		for _, id := range slices.Backward(stack) {
			yield(id)
		}
	})
}

// NewCallers makes a tree of functions and of what calls them. which says which functions; a stack
// counts for its innermost one.
func NewCallers(p *Profile, o ReportOptions, which *regexp.Regexp) (*Tree, error) {
	match := make([]bool, len(p.Frames))
	for i := range p.Frames {
		match[i] = which.MatchString(FuncName(p.Frames[i].Func))
	}
	return newTree(p, o, func(stack []uint32, yield func(frame uint32)) {
		i := slices.IndexFunc(stack, func(id uint32) bool { return match[id] })
		if i < 0 {
			return
		}
		for _, id := range stack[i:] {
			yield(id)
		}
	})
}

// newTree makes a tree of the ways that walk yields for stacks.
func newTree(p *Profile, o ReportOptions, walk func(stack []uint32, yield func(frame uint32))) (*Tree, error) {
	r, err := New(p, ReportOptions{By: ByState, Focus: o.Focus, Ignore: o.Ignore})
	if err != nil {
		return nil, err
	}
	t := &Tree{Report: *r}
	t.Rows = nil
	root := &Node{}
	focus, ignore := p.matches(o.Focus), p.matches(o.Ignore)
	for i := range p.Records {
		rec := &p.Records[i]
		if focus != nil && !focus(rec) || ignore != nil && ignore(rec) {
			continue
		}
		at := root
		walk(rec.Stack, func(id uint32) {
			at = at.child(&p.Frames[id], rec)
		})
		if at != root {
			at.Self = add(at.Self, rec.Wall)
			root.Total, root.TotalCPU = add(root.Total, rec.Wall), add(root.TotalCPU, rec.CPU)
		}
	}
	cpu := o.Sort == SortCPU
	root.arrange(cpu)
	if o.Top > 0 {
		t.NodesCut = root.cut(o.Top, cpu)
	}
	t.Nodes = root.Children
	if t.Nodes == nil {
		t.Nodes = []*Node{}
	}
	return t, nil
}

// child returns the child for a frame. It adds a record's time to it.
func (n *Node) child(f *Frame, r *Record) *Node {
	key := rowKey{name: f.Func, file: f.File}
	c := n.kids[key]
	if c == nil {
		c = &Node{Name: FuncName(f.Func), File: f.File}
		if n.kids == nil {
			n.kids = map[rowKey]*Node{}
		}
		n.kids[key] = c
	}
	if r.Wall > c.at || c.Line == 0 {
		c.at, c.Line = r.Wall, int(max(0, f.Line))
	}
	c.Total, c.TotalCPU, c.NoCore = add(c.Total, r.Wall), add(c.TotalCPU, r.CPU), add(c.NoCore, r.noCore())
	c.Series = Plus(c.Series, r.Series)
	return c
}

// time returns the time by which nodes are sorted.
func (n *Node) time(cpu bool) time.Duration {
	if cpu {
		return n.TotalCPU
	}
	return n.Total
}

// arrange sorts the children of a node and of all below.
func (n *Node) arrange(cpu bool) {
	for _, c := range n.kids {
		c.arrange(cpu)
		n.Children = append(n.Children, c)
	}
	n.kids = nil
	slices.SortFunc(n.Children, func(a, b *Node) int {
		return cmp.Or(cmp.Compare(b.time(cpu), a.time(cpu)), cmp.Compare(b.Total, a.Total), strings.Compare(a.Name, b.Name), strings.Compare(a.File, b.File))
	})
}

// cut leaves so many lines with the most time. A way on which there is no choice is one line. It
// returns the number of nodes that are left out.
func (n *Node) cut(most int, cpu bool) (left int) {
	left = n.straighten(cpu)
	var all []time.Duration
	var count func(n *Node)
	count = func(n *Node) {
		for _, c := range n.Children {
			all = append(all, c.time(cpu))
			end, _ := c.Way()
			count(end)
		}
	}
	count(n)
	if len(all) <= most {
		return left
	}
	slices.SortFunc(all, func(a, b time.Duration) int { return cmp.Compare(b, a) })
	least := max(1, all[most-1])
	lines := 0
	var prune func(n *Node)
	prune = func(n *Node) {
		kept := n.Children[:0:0]
		for _, c := range n.Children {
			if c.time(cpu) < least || lines >= most && c.time(cpu) == least {
				left += c.size()
				continue
			}
			lines++
			kept = append(kept, c)
		}
		n.Children = kept
		for _, c := range kept {
			end, _ := c.Way()
			prune(end)
		}
	}
	prune(n)
	return left
}

// straighten leaves out what is beside a child that has nearly all the time. It returns the number
// of nodes that it leaves out.
func (n *Node) straighten(cpu bool) (left int) {
	if len(n.Children) > 1 && n.Total > 0 && n.Children[0].isWay(n, cpu) {
		for _, c := range n.Children[1:] {
			left += c.size()
		}
		n.Children = n.Children[:1]
	}
	for _, c := range n.Children {
		left += c.straighten(cpu)
	}
	return left
}

func (n *Node) size() int {
	size := 1
	for _, c := range n.Children {
		size += c.size()
	}
	return size
}

// isWay reports whether a child has so much of a node's time that what is beside it does not
// matter: 95 %.
func (n *Node) isWay(parent *Node, cpu bool) bool {
	return float64(n.time(cpu)) >= 0.95*float64(parent.time(cpu))
}

// Way returns the last node of the way from a node on which there is no choice, and all nodes on
// it. Less than 5 % of the time is elsewhere.
func (n *Node) Way() (end *Node, way []*Node) {
	way = append(way, n)
	for len(n.Children) == 1 && n.Children[0].isWay(n, false) {
		n = n.Children[0]
		way = append(way, n)
	}
	return n, way
}
