package dcpi

import (
	"cmp"
	"debug/gosym"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// LeafPCs finds addresses for the samples of a session whose source recorded
// functions and lines but no addresses. A sample's address is the first one in the
// executable that belongs to the innermost frame's line. The innermost frame of a
// waiting goroutine is the one that called "[reason]". The executable must still
// exist and be the one that was profiled. Samples without an address are left out
// and counted in lost.
func LeafPCs(s *tachyon.Session, src *stream.Source) (pcs *tachyon.LeafPCs, lost int64, err error) {
	if s == nil {
		return nil, 0, errors.New("DCPI counts instruction addresses and the profile has none: it was not recorded by gotach")
	}
	if s.Executable == "" {
		return nil, 0, errors.New("the profile has no addresses of instructions, and names no executable that could tell them")
	}
	m, err := openImage(s.Executable, withTable)
	if err != nil {
		return nil, 0, fmt.Errorf("the profile has no addresses of instructions, and its executable, which could tell them, cannot be read: %w", err)
	}
	if !m.is(s.BuildID) {
		return nil, 0, fmt.Errorf("the profile has no addresses of instructions, and %s, which could tell them, is another executable by now: its build ID is %q, the profile's %q", m.Path, m.BuildID, s.BuildID)
	}
	if m.table == nil {
		return nil, 0, fmt.Errorf("the profile has no addresses of instructions, and %s is no Go program that could tell them", m.Path)
	}
	counts, lost, err := frameCounts(src)
	if err != nil {
		return nil, 0, err
	}
	frames := src.Frames()
	l := newLineFinder(m.table)
	sums := map[uint64]*count{}
	for _, id := range slices.Sorted(maps.Keys(counts)) {
		c := counts[id]
		addr, ok := l.addr(frames[id])
		if !ok || addr < m.TextStart || addr >= m.TextStart+m.TextSize {
			lost += int64(c.wall)
			continue
		}
		if sums[addr] == nil {
			sums[addr] = new(count)
		}
		sums[addr].add(*c)
	}
	pcs = &tachyon.LeafPCs{TextStart: m.TextStart, TextSize: m.TextSize}
	for addr, c := range sums {
		if c.wall > math.MaxUint32 {
			return nil, 0, errors.New("a count exceeds the format's 32 bits")
		}
		pcs.PCs = append(pcs.PCs, tachyon.LeafPC{
			Addr: addr, CPU: uint32(c.cpu), Wall: uint32(c.wall), CPUTime: c.cpuTime, WallTime: c.wallTime,
		})
	}
	slices.SortFunc(pcs.PCs, func(a, b tachyon.LeafPC) int { return cmp.Compare(a.Addr, b.Addr) })
	return pcs, lost, nil
}

// frameCounts adds samples up by the innermost frame that has a file. Samples without
// a stack are counted in lost.
func frameCounts(src *stream.Source) (counts map[uint32]*count, lost int64, err error) {
	counts = map[uint32]*count{}
	for s, err := range src.Samples() {
		if err != nil {
			return nil, 0, err
		}
		if s.Marker || s.NotSeen {
			continue
		}
		stack := src.Stacks()[s.Stack]
		if stack.Caller != 0 && src.Frames()[stack.Frame].File == "" {
			stack = src.Stacks()[stack.Caller]
		}
		if stack.Depth == 0 {
			lost++
			continue
		}
		c := counts[stack.Frame]
		if c == nil {
			c = new(count)
			counts[stack.Frame] = c
		}
		weight := uint64(s.Wall.Microseconds())
		c.add(count{wall: 1, wallTime: weight})
		if s.Status&tachyon.OnCPU != 0 {
			c.add(count{cpu: 1, cpuTime: weight})
		}
	}
	return counts, lost, nil
}

// count is numbers of samples and the times that they stand for, in µs.
type count struct{ cpu, wall, cpuTime, wallTime uint64 }

func (c *count) add(o count) {
	c.cpu, c.wall, c.cpuTime, c.wallTime = c.cpu+o.cpu, c.wall+o.wall, c.cpuTime+o.cpuTime, c.wallTime+o.wallTime
}

// lineFinder finds addresses of source lines.
type lineFinder struct {
	table *gosym.Table
	funcs map[string][]*gosym.Func // by printed name: the instances of a generic one share it
	lines map[*gosym.Func]map[place]uint64
}

type place struct {
	file string
	line int
}

func newLineFinder(t *gosym.Table) *lineFinder {
	l := &lineFinder{table: t, funcs: map[string][]*gosym.Func{}, lines: map[*gosym.Func]map[place]uint64{}}
	for i := range t.Funcs {
		f := &t.Funcs[i]
		name := printed(f.Name)
		l.funcs[name] = append(l.funcs[name], f)
	}
	return l
}

// addr returns the first address of a frame's line in the frame's function. If the
// function has no such line, addr returns an address of the line anywhere, as in a
// function into which it was inlined; and if there is none, the function's entry.
func (l *lineFinder) addr(f tachyon.Frame) (addr uint64, ok bool) {
	at := place{f.File, int(f.Line)}
	for _, fn := range l.funcs[f.Func] {
		if addr, ok := l.places(fn)[at]; ok {
			return addr, true
		}
	}
	if addr, _, err := l.table.LineToPC(f.File, int(f.Line)); err == nil {
		return addr, true
	}
	for _, fn := range l.funcs[f.Func] {
		return fn.Entry, true
	}
	return 0, false
}

// maxFunction bounds how much code of a function is searched, in bytes.
const maxFunction = 64 << 10

func (l *lineFinder) places(fn *gosym.Func) map[place]uint64 {
	places, ok := l.lines[fn]
	if !ok {
		places = map[place]uint64{}
		for pc := fn.Entry; pc < fn.End && pc < fn.Entry+maxFunction; pc++ {
			file, line, _ := l.table.PCToLine(pc)
			if _, ok := places[place{file, line}]; !ok {
				places[place{file, line}] = pc
			}
		}
		l.lines[fn] = places
	}
	return places
}
