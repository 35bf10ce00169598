package diff

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/tachyon"
)

// find returns the rows of a stack: none if nothing is known of its time.
func (d *differ) find(s *analyze.Samples, kind int, stack uint32) (out []int32) {
	leaf := s.Leaf(stack)
	if leaf != nil && analyze.IsGap(leaf) {
		return []int32{}
	}
	if pseudo := d.outermost(s, stack); pseudo == nil || pseudo.File != "" || kind != analyze.OnCPU {
		out = append(out, wholeGoroutines)
	} else if pseudo.Func == tachyon.FuncProfiler {
		return append(out, d.row(diffKey{pseudo.Func, LevelSelf, WhatCPU}))
	}
	what := WhatWait
	if kind == analyze.OnCPU {
		what = WhatCPU
		out = append(out, wholeCPU)
	}
	if d.o.By == "total" || kind == analyze.OnCPU {
		out = d.inclusive(out, s, stack, what)
	}
	if d.o.By != "total" || kind == analyze.NoCore || kind == analyze.Runnable {
		out = append(out, d.row(diffKey{d.self(s, kind, stack), LevelSelf, what}))
	}
	return out
}

// outermost returns the outermost frame of a stack, nil if it has none.
func (d *differ) outermost(s *analyze.Samples, stack uint32) (f *tachyon.Frame) {
	for ; stack != 0; stack = s.Caller(stack) {
		f = s.Leaf(stack)
	}
	return f
}

// self returns the name of the row of a stack.
func (d *differ) self(s *analyze.Samples, kind int, stack uint32) string {
	leaf := s.Leaf(stack)
	frame, prefix := leaf, ""
	switch {
	case kind == analyze.NoCore:
		return rowNoCore
	case kind == analyze.Runnable:
		return rowRunnable
	case kind == analyze.Waiting:
		prefix = "[waiting] "
		if leaf != nil && analyze.Reason(leaf) != "" {
			prefix = leaf.Func + " "
		}
		frame = s.ProgramFrame(stack)
	case leaf != nil && leaf.File == "":
		frame = cmp.Or(s.Function(stack), frame)
	}
	switch {
	case frame == nil:
		return strings.TrimSpace(cmp.Or(prefix, "[unknown]"))
	case d.o.By == "line":
		return prefix + fmt.Sprintf("%s %s:%d", d.function(frame), frame.File[strings.LastIndexAny(frame.File, `/\`)+1:], frame.Line)
	case d.o.By == "stack":
		var names []string
		for ; stack != 0; stack = s.Caller(stack) {
			if f := s.Leaf(stack); f.File != "" || len(names) == 0 && kind == analyze.OnCPU {
				names = append(names, d.function(f))
			}
		}
		slices.Reverse(names)
		return prefix + strings.Join(names, ";")
	case kind == analyze.Waiting:
		if in := waitsIn(s, stack); in != nil && in != frame {
			return prefix + d.function(frame) + " in " + d.function(in)
		}
	}
	return prefix + d.function(frame)
}

// waitsIn returns the innermost function of a stack that waits for something of its own, not for
// whoever calls it: one function of the program may wait in a library for one thing and then for
// another.
func waitsIn(s *analyze.Samples, stack uint32) *tachyon.Frame {
	for ; stack != 0; stack = s.Caller(stack) {
		if s.CodeOf(stack) > profile.CarrierCode {
			return s.Leaf(stack)
		}
	}
	return nil
}

// inclusive adds the rows of the functions of a stack, with what they call. If rows are of other
// things, these are functions of the program's own code only.
func (d *differ) inclusive(out []int32, s *analyze.Samples, stack uint32, what string) []int32 {
	least := profile.UnknownCode
	if d.o.By != "total" {
		least = profile.ModuleCode
		for at := stack; at != 0; at = s.Caller(at) {
			least = max(least, s.CodeOf(at))
		}
	}
	for ; stack != 0; stack = s.Caller(stack) {
		if s.CodeOf(stack) < least {
			continue
		}
		if n := d.row(diffKey{d.function(s.Leaf(stack)), LevelTotal, what}); !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// function returns a function's name.
func (d *differ) function(f *tachyon.Frame) string {
	if d.closure == nil {
		return f.Func
	}
	return d.closure.name(f)
}

// row returns the number of a row.
func (d *differ) row(key diffKey) int32 {
	n, ok := d.number[key]
	if !ok && len(d.rows) >= maxRows && key.name != others {
		key.name = others
		return d.row(key)
	}
	if !ok {
		n = int32(len(d.rows))
		d.number[key] = n
		d.rows = append(d.rows, diffRow{diffKey: key})
	}
	return n
}
