package nytprof

import (
	"fmt"
	"io"
	"slices"
)

// maxSize bounds the memory of what Load keeps, in bytes: a small compressed file could
// hold any amount. It is a variable for tests.
var maxSize = 1 << 30

// The sizes of things in memory without their texts, about.
const (
	sizeOfFile      = 256
	sizeOfSub       = 160
	sizeOfCaller    = 192
	sizeOfCall      = 192
	sizeOfLine      = 48 // its time or its source
	sizeOfAttribute = 64 // or option, or process
)

// Load reads a whole file. If the file is damaged or truncated, it returns both what
// could be read and the error of [Reader.Chunks].
func Load(r io.Reader) (*Data, error) {
	l := newLoader()
	rd := NewReader(r)
	for c, err := range rd.Chunks() {
		if err != nil {
			l.finish()
			return l.data, err
		}
		l.chunk(c)
		if l.size > maxSize {
			l.finish()
			return l.data, rd.errorAt(rd.d.offset(), fmt.Errorf("up to here it takes more than %d MB of memory", maxSize>>20))
		}
	}
	l.finish()
	return l.data, nil
}

// loader builds Data from chunks.
type loader struct {
	data     *Data
	files    map[uint32]*File
	subs     map[string]*Sub
	callers  map[callerKey]int // index in the called sub's Callers
	discount bool
	returned []level // calls whose callers have not returned, by rising depth
	size     int     // of all this in memory, about
}

func newLoader() *loader {
	return &loader{
		data:    new(Data),
		files:   make(map[uint32]*File),
		subs:    make(map[string]*Sub),
		callers: make(map[callerKey]int),
	}
}

type callerKey struct {
	fid, line      uint32
	caller, called string
}

// level is the calls that returned to one depth.
type level struct {
	depth uint32
	calls map[string]*Call
}

func (l *loader) chunk(c Chunk) {
	switch c := c.(type) {
	case *TimeLine:
		l.time(c.FID, c.Line, c.Ticks)
	case *TimeBlock:
		l.time(c.FID, c.Line, c.Ticks)
	case *Discount:
		l.discount = true
	case *SubReturn:
		l.subReturn(c)
	case *SubCallers:
		l.subCallers(c)
	case *SubInfo:
		s := l.sub(c.Name.Text)
		if s.FID == 0 {
			s.FID, s.First, s.Last = c.FID, c.First, c.Last
		}
	case *SrcLine:
		f := l.file(c.FID)
		if f.Source == nil {
			f.Source = make(map[uint32]string)
		}
		l.size += sizeOfLine + len(c.Text.Text)
		f.Source[c.Line] = c.Text.Text
	case *NewFID:
		f := l.file(c.FID)
		f.Name, f.EvalFID, f.EvalLine = c.Name.Text, c.EvalFID, c.EvalLine
		f.Flags, f.Size, f.Mtime = c.Flags, c.Size, c.Mtime
		l.size += len(f.Name)
	case *Attribute:
		l.data.Attributes = append(l.data.Attributes, *c)
		l.size += sizeOfAttribute + len(c.Key) + len(c.Value)
	case *Option:
		l.data.Options = append(l.data.Options, *c)
		l.size += sizeOfAttribute + len(c.Key) + len(c.Value)
	case *PIDStart:
		l.data.Processes = append(l.data.Processes, Process{PID: c.PID, Parent: c.Parent, Start: c.Time})
		l.size += sizeOfAttribute
	case *PIDEnd:
		for i, p := range slices.Backward(l.data.Processes) {
			if p.PID == c.PID && p.End == 0 {
				l.data.Processes[i].End = c.Time
				break
			}
		}
	}
}

func (l *loader) file(fid uint32) *File {
	f := l.files[fid]
	if f == nil {
		f = &File{FID: fid, Lines: make(map[uint32]LineTime)}
		l.files[fid] = f
		l.size += sizeOfFile
		l.data.Files = append(l.data.Files, f)
	}
	return f
}

func (l *loader) sub(name string) *Sub {
	s := l.subs[name]
	if s == nil {
		s = &Sub{Name: name}
		l.subs[name] = s
		l.data.Subs = append(l.data.Subs, s)
		l.size += sizeOfSub + len(name)
	}
	return s
}

func (l *loader) time(fid, line uint32, ticks int32) {
	f := l.file(fid)
	t, known := f.Lines[line]
	if !known {
		l.size += sizeOfLine
	}
	t.Ticks += int64(ticks)
	if !l.discount {
		t.Count++
	}
	l.discount = false
	f.Lines[line] = t
}

func (l *loader) subCallers(c *SubCallers) {
	s := l.sub(c.Called.Text)
	key := callerKey{c.FID, c.Line, c.Caller.Text, c.Called.Text}
	i, ok := l.callers[key]
	if !ok {
		i = len(s.Callers)
		l.callers[key] = i
		s.Callers = append(s.Callers, Caller{FID: c.FID, Line: c.Line, Sub: c.Caller.Text})
		l.size += sizeOfCaller + len(c.Caller.Text)
	}
	to := &s.Callers[i]
	to.Count += int64(c.Count)
	to.Incl += c.Incl
	to.Excl += c.Excl
	to.Reci += c.Reci
	to.Depth = max(to.Depth, c.Depth)
}

// subReturn puts a call into the tree. Calls return before their callers, so deeper
// calls that have no caller yet were made by this one.
func (l *loader) subReturn(c *SubReturn) {
	call := Call{Sub: c.Sub.Text, Incl: c.Incl, Excl: c.Excl, Count: 1}
	for n := len(l.returned); n > 0 && l.returned[n-1].depth > c.Depth; n = len(l.returned) {
		call.adopt(l.returned[n-1].calls)
		l.returned = l.returned[:n-1]
	}
	if n := len(l.returned); n == 0 || l.returned[n-1].depth < c.Depth {
		l.returned = append(l.returned, level{c.Depth, make(map[string]*Call)})
	}
	calls := l.returned[len(l.returned)-1].calls
	if same := calls[call.Sub]; same != nil {
		same.add(&call)
		return
	}
	l.size += sizeOfCall + len(call.Sub)
	calls[call.Sub] = &call
}

func (l *loader) finish() {
	l.data.Sampled = l.data.Attribute(GotachInterval) != ""
	slices.SortFunc(l.data.Files, func(a, b *File) int { return int(int64(a.FID) - int64(b.FID)) })
	if len(l.returned) == 0 {
		return
	}
	// Calls without a caller here were made from outside, or their caller was
	// running when the file was truncated.
	l.data.Calls = new(Call)
	for _, level := range l.returned {
		l.data.Calls.adopt(level.calls)
	}
}
