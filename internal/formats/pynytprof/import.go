package pynytprof

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/formats/perlnytprof"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/nytprof"
)

// Read reads a file and makes a profile of it.
func Read(r io.Reader) (*profile.Profile, error) {
	f, err := decode(r)
	if err != nil {
		return nil, err
	}
	return f.Profile()
}

// Profile makes stacks as [perlnytprof.Profile] does for files without a call tree: a
// stack of caller and called sub has the pair's exclusive time, which is distributed
// over the lines of the called sub.
func (f *file) Profile() (*profile.Profile, error) {
	p, err := perlnytprof.Profile(f.data())
	if err != nil {
		return nil, err
	}
	for _, a := range f.Attributes {
		n, err := strconv.ParseInt(a.Value, 10, 64)
		if err != nil || n < 0 {
			continue
		}
		switch a.Key {
		case attrDuration:
			p.Duration = time.Duration(n)
		case attrInterval:
			p.Interval = time.Duration(n)
		case attrGoroutines:
			p.Goroutines = int(min(n, math.MaxInt32))
		}
	}
	return p, nil
}

// data converts the file into the data of Perl's format.
func (f *file) data() *nytprof.Data {
	d := &nytprof.Data{
		Attributes: []nytprof.Attribute{{Key: "ticks_per_sec", Value: strconv.Itoa(ticksPerSecond)}},
		Options:    f.Options,
	}
	start := float64(f.Process.Start) / 1e6
	d.Processes = []nytprof.Process{{PID: f.Process.PID, Parent: f.Process.Parent, Start: start, End: start}}
	files := make(map[uint32]*nytprof.File)
	file := func(fid uint32) *nytprof.File {
		if files[fid] == nil {
			files[fid] = &nytprof.File{FID: fid, Name: fmt.Sprintf("file %d", fid), Lines: make(map[uint32]nytprof.LineTime)}
			d.Files = append(d.Files, files[fid])
		}
		return files[fid]
	}
	for _, l := range f.Lines {
		lines := file(l.FID).Lines
		t := lines[l.Line]
		t.Ticks += int64(min(l.Excl, 1<<53))
		if l.Excl > 0 { // calls in proportion: in the others the line only called something
			t.Count += int64(math.Round(float64(l.Calls) * min(1, float64(l.Excl)/float64(l.Incl))))
		}
		lines[l.Line] = t
	}
	subs := make(map[uint32]*nytprof.Sub)
	sub := func(sid uint32) *nytprof.Sub {
		if subs[sid] == nil {
			subs[sid] = &nytprof.Sub{Name: fmt.Sprintf("sub %d", sid)}
			d.Subs = append(d.Subs, subs[sid])
		}
		return subs[sid]
	}
	for _, s := range f.Subs {
		sub(s.SID).Name = s.Name
	}
	places := false // of subs: gotach wrote the file
	for _, a := range f.Attributes {
		if id, ok := numbered(a.Key, attrFile); ok {
			file(id).Name = a.Value
		} else if id, ok := numbered(a.Key, attrSub); ok && subs[id] != nil {
			s := subs[id]
			if n, _ := fmt.Sscanf(a.Value, "%d,%d,%d", &s.FID, &s.First, &s.Last); n != 3 {
				s.FID, s.First, s.Last = 0, 0, 0
			}
			places = true
		} else if a.Key == "application" {
			d.Attributes = append(d.Attributes, a)
		}
	}
	if !places && slices.ContainsFunc(f.Calls, func(c call) bool { return c.Ticks > c.SubTicks }) {
		d.Files = nil // lines and calls both have all the time, and no line has a sub
	}
	d.Sampled = places
	for _, c := range f.Calls {
		called, caller := sub(c.Called), sub(c.Caller)
		by := caller.Name
		if by == roots {
			by = ""
		}
		called.Callers = append(called.Callers, nytprof.Caller{
			FID: caller.FID, Line: caller.First, Sub: by, Count: int64(c.Calls),
			Incl: float64(c.Ticks) / ticksPerSecond, Excl: float64(c.Ticks-min(c.SubTicks, c.Ticks)) / ticksPerSecond,
		})
	}
	return d
}

// numbered returns the number after the prefix of an attribute's key.
func numbered(key, prefix string) (uint32, bool) {
	rest, ok := strings.CutPrefix(key, prefix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(rest, 10, 32)
	return uint32(n), err == nil
}
