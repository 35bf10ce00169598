package profile

import (
	"cmp"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
)

// A tally adds up rows.
type tally struct {
	p    *Profile
	by   By
	sort Sort
	own  ownCode
	rows map[rowKey]int // where in list
	list []Row
	seen []int // per row: the last record that counted for it
	turn int   // number of the record, from 1
	ids  []int // per frame: its row + 1, 0 if not known yet

	places []placeTime // per frame, by function only
}

// placeTime is the time of a frame.
type placeTime struct {
	self, total time.Duration
	seen        int // the last record that counted for it
}

type rowKey struct {
	name, file string
	line       int32
}

// add adds a record to the rows of its frames.
func (t *tally) add(r *Record) {
	t.turn++
	stack := r.Stack
	switch t.by {
	case ByGoroutine:
		t.count(t.goroutine(r), r, true)
		return
	case ByState:
		name := r.State
		if name == "" {
			name = "unknown"
		}
		t.count(t.row(rowKey{name: name}, Row{Name: name}), r, true)
		return
	case ByGroup:
		t.count(t.group(r), r, true)
		return
	case ByBlocked:
		t.count(t.blocked(r), r, true)
		return
	case ByFile, ByPackage:
		if len(stack) > 1 {
			if _, ok := WaitReason(t.p.Frames[stack[0]]); ok {
				stack = stack[1:]
			}
		}
	}
	for i, id := range stack {
		if t.ids[id] == 0 {
			t.ids[id] = t.frameRow(&t.p.Frames[id]) + 1
		}
		t.count(t.ids[id]-1, r, i == 0)
		if t.places == nil {
			continue
		}
		at := &t.places[id]
		if i == 0 {
			at.self = add(at.self, r.Wall)
		}
		if at.seen != t.turn {
			at.seen = t.turn
			at.total = add(at.total, r.Wall)
		}
	}
	if len(stack) == 0 {
		t.count(t.row(rowKey{}, Row{Name: "[no stack]"}), r, true)
	}
}

// goroutine returns the row of a record's goroutine.
func (t *tally) goroutine(r *Record) int {
	name := t.p.goroutineName(r)
	key := rowKey{file: fmt.Sprint(r.Goroutine, r.System)}
	if !r.OfGoroutine() {
		key.name = name
	}
	i := t.row(key, Row{Name: name})
	if row := &t.list[i]; strings.HasPrefix(name, row.Name) {
		row.Name = name // the first record had no function
	}
	return i
}

// group returns the row of a record's group.
func (t *tally) group(r *Record) int {
	row := Row{Name: r.Group}
	if row.Name == "" && !r.OfGoroutine() {
		row.Name = t.p.entry(r)
	}
	key := rowKey{name: row.Name}
	if name, at, ok := strings.Cut(row.Name, "\t"); ok {
		row.Name, row.File = FuncName(name), at
		if i := strings.LastIndexByte(at, ':'); i > 0 {
			if line, err := strconv.Atoi(at[i+1:]); err == nil {
				row.File, row.Line = at[:i], line
			}
		}
	}
	return t.row(key, row)
}

// blocked returns the row of a wait.
func (t *tally) blocked(r *Record) int {
	reason := "[" + r.State + "]"
	id, ok := t.own.frame(r.Stack)
	if !ok {
		return t.row(rowKey{name: reason}, Row{Name: reason})
	}
	f := &t.p.Frames[id]
	name := reason + " " + FuncName(f.Func)
	return t.row(rowKey{name: name, file: f.File, line: f.Line}, Row{Name: name, File: f.File, Line: int(max(f.Line, 0))})
}

// Blocked reports whether a record is time in which goroutines waited: they neither ran nor could
// run.
func (r *Record) Blocked() bool {
	switch r.State {
	case Running, NoCore, Runnable, SyscallOnCPU, OnCPUInC, NotSeen, "not recorded", "":
		return false
	}
	return r.OfGoroutine()
}

// row returns the number of the row with a key. If there is none, fresh becomes it.
func (t *tally) row(k rowKey, fresh Row) int {
	i, ok := t.rows[k]
	if !ok {
		i = len(t.list)
		t.rows[k] = i
		t.list = append(t.list, fresh)
		t.seen = append(t.seen, 0)
	}
	return i
}

// count adds a record's times to a row: the total once, the self time if the row is the innermost.
func (t *tally) count(row int, r *Record, innermost bool) {
	into := &t.list[row]
	if innermost {
		into.Self, into.SelfCPU = add(into.Self, r.Wall), add(into.SelfCPU, r.CPU)
		into.SelfNoCore = add(into.SelfNoCore, r.noCore())
		switch {
		case t.sort == SortSelf, t.sort == SortCPU && r.CPU > 0:
			into.Series = Plus(into.Series, r.Series)
		}
	}
	if t.seen[row] != t.turn {
		t.seen[row] = t.turn
		into.Total, into.TotalCPU = add(into.Total, r.Wall), add(into.TotalCPU, r.CPU)
		into.TotalNoCore = add(into.TotalNoCore, r.noCore())
		if t.sort == SortTotal {
			into.Series = Plus(into.Series, r.Series)
		}
	}
}

// setLines sets the lines of functions.
func (t *tally) setLines() {
	best := make([]placeTime, len(t.list)) // of Row.Line
	for id := range t.places {
		at, line := t.places[id], int(t.p.Frames[id].Line)
		if at.seen == 0 || line <= 0 {
			continue
		}
		i := t.ids[id] - 1
		row := &t.list[i]
		if order := cmp.Or(cmp.Compare(at.self, best[i].self), cmp.Compare(at.total, best[i].total)); row.Line == 0 || order > 0 || order == 0 && line < row.Line {
			row.Line, best[i] = line, at
		}
		if row.FirstLine == 0 || line < row.FirstLine {
			row.FirstLine = line
		}
		row.LastLine = max(row.LastLine, line)
	}
	for i := range t.list {
		if row := &t.list[i]; row.FirstLine == row.LastLine {
			row.FirstLine, row.LastLine = 0, 0
		}
	}
}

// noCore returns the record's time in the state NoCore.
func (r *Record) noCore() time.Duration {
	if r.State == NoCore {
		return r.Wall
	}
	return 0
}

// frameRow returns the row of a frame.
func (t *tally) frameRow(f *Frame) int {
	name := FuncName(f.Func)
	if name == "" {
		name = "?"
	}
	line := int(max(f.Line, 0))
	switch t.by {
	case ByLine:
		// Two functions on one line, such as a literal in its function, are one row.
		k := rowKey{file: f.File, line: f.Line}
		if f.File == "" {
			k.name = name
		}
		return t.row(k, Row{Name: name, File: f.File, Line: line})
	case ByFile:
		if f.File == "" {
			return t.row(rowKey{name: name}, Row{Name: name})
		}
		return t.row(rowKey{file: f.File}, Row{Name: f.File, File: f.File})
	case ByPackage:
		pkg := Package(f.Func)
		if pkg == "" && f.File != "" {
			pkg = path.Dir(strings.ReplaceAll(f.File, `\`, "/"))
		}
		if pkg == "" {
			pkg = name
		}
		return t.row(rowKey{name: pkg}, Row{Name: pkg})
	}
	return t.row(rowKey{name: name, file: f.File}, Row{Name: name, File: f.File})
}

// goroutineName is a goroutine's number and what it began with.
func (p *Profile) goroutineName(r *Record) string {
	if p.Goroutines == 0 {
		return "all goroutines"
	}
	if !r.OfGoroutine() {
		return p.entry(r)
	}
	name := fmt.Sprintf("goroutine %d", r.Goroutine)
	if entry := FuncName(p.entry(r)); entry != "" && entry != name && entry[0] != '[' { // SPX's roots have that name; a goroutine may have only a wait
		name += " " + entry
	}
	if r.System {
		name += " (runtime)"
	}
	return name
}
