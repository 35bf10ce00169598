package perlnytprof

import (
	"math"

	"github.com/gotach/profiler/nytprof"
)

// path is one way to a sub.
type path struct {
	callers []uint32 // frames, innermost first
	ticks   int64    // in the sub itself
}

// maxPath bounds a stack. The middle of a longer one is left out, so that what is near
// the root and what is near the leaf stay.
const maxPath = 512

// treePaths finds the paths of the call tree.
func (im *importer) treePaths() {
	type node struct {
		call    *nytprof.Call
		todo    []*nytprof.Call
		callers []uint32
	}
	stack := []node{{im.d.Calls, im.d.Calls.Sorted(), nil}}
	for len(stack) > 0 && im.frameIDs <= maxFrameIDs {
		top := &stack[len(stack)-1]
		if len(top.todo) == 0 {
			stack = stack[:len(stack)-1]
			continue
		}
		c := top.todo[0]
		top.todo = top.todo[1:]
		callers := top.callers
		if top.call.Sub == "" {
			callers = im.outside(c)
		} else {
			place := im.callAt[[2]string{top.call.Sub, c.Sub}]
			callers = push(im.at(top.call.Sub, place.FID, place.Line), callers)
		}
		im.path(c.Sub, callers, c.Excl)
		stack = append(stack, node{c, c.Sorted(), callers})
	}
}

// push returns a stack with one frame more on the inside.
func push(id uint32, callers []uint32) []uint32 {
	if len(callers) < maxPath {
		return append([]uint32{id}, callers...)
	}
	inner := append([]uint32{id}, callers[:maxPath/2-1]...)
	return append(inner, callers[maxPath/2:]...)
}

// outside returns the caller of calls from outside the tree: the main program.
func (im *importer) outside(c *nytprof.Call) []uint32 {
	s := im.subs[c.Sub]
	if s == nil || im.d.Sampled {
		return nil
	}
	var best *nytprof.Caller
	for i := range s.Callers {
		by := &s.Callers[i]
		if known := im.subs[by.Sub]; by.Sub != "" && (known == nil || len(known.Callers) == 0) && (best == nil || by.Incl > best.Incl) {
			best = by
		}
	}
	if best == nil {
		return nil
	}
	return []uint32{im.at(best.Sub, best.FID, best.Line)}
}

// path adds time of a sub along a path.
func (im *importer) path(sub string, callers []uint32, ticks float64) {
	im.frameIDs += len(callers)
	if !(ticks >= 0.5) || im.frameIDs > maxFrameIDs {
		return
	}
	s := im.subs[sub]
	if s == nil {
		s = &nytprof.Sub{Name: sub}
		im.subs[sub] = s
	}
	im.paths[s] = append(im.paths[s], path{callers, int64(math.Round(min(ticks, 1<<53)))})
}

// callerPaths makes paths of callers, without a call tree.
func (im *importer) callerPaths() {
	up := make(map[string]nytprof.Caller) // each sub's most expensive caller
	for _, s := range im.d.Subs {
		for _, c := range s.Callers {
			if best, ok := up[s.Name]; c.Sub != s.Name && (!ok || c.Incl > best.Incl) {
				up[s.Name] = c
			}
		}
	}
	for _, s := range im.d.Subs {
		for _, c := range s.Callers {
			callers := []uint32{}
			on := map[string]bool{s.Name: true}
			by, ok := c, true
			if c.Sub == s.Name { // a recursion, whose outermost call is by another
				callers = append(callers, im.at(c.Sub, c.FID, c.Line))
				by, ok = up[s.Name]
			}
			for ; ok && by.Sub != "" && !on[by.Sub] && len(callers) < maxPath; by, ok = up[by.Sub] {
				if im.ours && goName(by.Sub) == "runtime.goexit" {
					break
				}
				on[by.Sub] = true
				callers = append(callers, im.at(by.Sub, by.FID, by.Line))
			}
			im.path(s.Name, callers, c.Excl*1e9/im.tick)
		}
	}
}
