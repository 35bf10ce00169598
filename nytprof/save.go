package nytprof

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"
)

// Write writes d as a file, its chunks in the order in which perl has them. The
// order in which statements ran is not in d: each file's are written by line. Of
// more than 64 million one stands for several, with their time.
func (d *Data) Write(w io.Writer, uncompressed bool) error {
	cw := NewWriter(w)
	s := saver{w: cw}
	s.head(d, uncompressed)
	for _, p := range d.Processes {
		s.write(&PIDStart{p.PID, p.Parent, p.Start})
	}
	for _, f := range d.Files {
		s.write(&NewFID{f.FID, f.EvalFID, f.EvalLine, f.Flags, f.Size, f.Mtime, String{Text: f.Name}})
	}
	each := (d.statements()-1)/maxStatements + 1
	for _, f := range d.Files {
		for _, line := range slices.Sorted(maps.Keys(f.Lines)) {
			t := f.Lines[line]
			if t.Count > 0 {
				t.Count = (t.Count-1)/each + 1
			}
			s.lineTime(f.FID, line, t)
		}
	}
	if d.Calls != nil {
		s.returns(d.Calls)
	}
	for _, a := range d.Attributes {
		if a.Key == attrOverhead {
			s.write(&a)
		}
	}
	if d.Attribute(attrOverhead) == "" { // perl's reader misses it
		s.write(&Attribute{attrOverhead, "0"})
	}
	for _, f := range d.Files {
		for _, line := range slices.Sorted(maps.Keys(f.Source)) {
			s.write(&SrcLine{f.FID, line, String{Text: f.Source[line]}})
		}
	}
	for _, sub := range d.Subs {
		if sub.FID != 0 {
			s.write(&SubInfo{sub.FID, sub.First, sub.Last, String{Text: sub.Name}})
		}
	}
	for _, sub := range d.Subs {
		for _, c := range sub.Callers {
			s.write(&SubCallers{
				FID: c.FID, Line: c.Line, Count: uint32(min(c.Count, math.MaxUint32)),
				Incl: c.Incl, Excl: c.Excl, Reci: c.Reci, Depth: c.Depth,
				Called: String{Text: sub.Name}, Caller: String{Text: c.Sub},
			})
		}
	}
	for _, p := range d.Processes {
		if p.End != 0 {
			s.write(&PIDEnd{p.PID, p.End})
		}
	}
	if err := cw.Close(); s.err == nil {
		s.err = err
	}
	return s.err
}

// maxStatements bounds the number of statements written: folded stacks, for example,
// may have nanoseconds for weights. It is a variable for tests.
var maxStatements int64 = 64 << 20

func (d *Data) statements() (n int64) {
	for _, f := range d.Files {
		for _, t := range f.Lines {
			n += min(max(t.Count, 0), math.MaxInt64-n)
		}
	}
	return n
}

// attrOverhead is the one attribute that comes after the statements.
const attrOverhead = "cumulative_overhead_ticks"

// saver keeps the first error.
type saver struct {
	w   *Writer
	err error
}

func (s *saver) write(c Chunk) {
	if s.err == nil {
		s.err = s.w.Write(c)
	}
}

func (s *saver) head(d *Data, uncompressed bool) {
	s.write(&Version{Major: 5})
	at := time.Now()
	if len(d.Processes) > 0 {
		at = time.UnixMicro(int64(d.Processes[0].Start * 1e6))
	}
	s.write(&Comment{"Perl profile database. Written by gotach, profiled on " + at.UTC().Format(time.ANSIC)})
	for _, a := range d.Attributes {
		if a.Key != attrOverhead {
			s.write(&a)
		}
	}
	for _, o := range d.Options {
		s.write(&o)
	}
	if !uncompressed {
		s.write(&StartDeflate{})
	}
}

// maxRest bounds the records for times of damaged files. It is enough for seven years.
const maxRest = 1 << 20

// lineTime writes one chunk for each execution, sharing the time out.
func (s *saver) lineTime(fid, line uint32, t LineTime) {
	c := TimeLine{FID: fid, Line: line}
	for n := t.Count; n > 0 && s.err == nil; n-- {
		share := t.Ticks / n
		c.Ticks = int32(max(min(share, math.MaxInt32), math.MinInt32))
		t.Ticks -= int64(c.Ticks)
		s.write(&c)
	}
	// The rest of the time: more than fits, or not counted.
	for n := 0; t.Ticks != 0 && s.err == nil; n++ {
		if n == maxRest {
			s.err = fmt.Errorf("NYTProf: a time of %d ticks more than %d records hold", t.Ticks, n)
			return
		}
		c.Ticks = int32(max(min(t.Ticks, math.MaxInt32), math.MinInt32))
		t.Ticks -= int64(c.Ticks)
		s.write(&Discount{})
		s.write(&c)
	}
}

// returns writes the calls below root as they return: the deepest first. A call
// of the tree stands for many, and returns once.
func (s *saver) returns(root *Call) {
	type node struct {
		call *Call
		todo []*Call // below it
	}
	path := []node{{root, root.Sorted()}}
	for s.err == nil {
		top := &path[len(path)-1]
		if len(top.todo) > 0 {
			next := top.todo[0]
			top.todo = top.todo[1:]
			path = append(path, node{next, next.Sorted()})
			continue
		}
		path = path[:len(path)-1]
		if len(path) == 0 {
			return
		}
		s.write(&SubReturn{uint32(len(path)), top.call.Incl, top.call.Excl, String{Text: top.call.Sub}})
	}
}
