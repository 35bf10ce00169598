package profile

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// By says what a row of a report is.
type By string

// What a row can be.
const (
	ByFunction  By = "function"
	ByLine      By = "line"
	ByFile      By = "file"
	ByPackage   By = "package"
	ByGoroutine By = "goroutine"
	ByState     By = "state"
	ByGroup     By = "group"   // Record.Group: a name, perhaps a tab and file:line
	ByBlocked   By = "blocked" // what goroutines wait for, and the innermost line of the program's own code
)

// Bys lists those that need no more than a profile.
var Bys = []By{ByFunction, ByLine, ByFile, ByPackage, ByGoroutine, ByState, ByBlocked}

// A Sort is an order of rows.
type Sort string

// The orders. Both begin with the largest.
const (
	SortSelf  Sort = "self"
	SortTotal Sort = "total"
	SortCPU   Sort = "cpu" // self time on a CPU
)

// Sorts lists them.
var Sorts = []Sort{SortSelf, SortTotal, SortCPU}

// ReportOptions say what to report. The zero value is all functions by self time.
type ReportOptions struct {
	By     By
	Sort   Sort
	Focus  *regexp.Regexp // only stacks with a function or file that matches
	Ignore *regexp.Regexp // no stacks with one
	Own    *regexp.Regexp // ByBlocked: functions or files that are the program's own code; nil: see ownCode
	Top    int            // the number of rows at most; 0 is all
}

// A Report is a profile by functions, lines or the like.
type Report struct {
	Duration   time.Duration `json:"duration_ns"`
	Samples    int64         `json:"samples"`
	Goroutines int           `json:"goroutines"`
	Unitless   bool          `json:"unitless,omitempty"`  // as in the Profile: times are plain numbers
	Total      time.Duration `json:"total_ns"`            // wall time of all goroutines together, without regard to Focus and Ignore
	TotalCPU   time.Duration `json:"cpu_ns"`              // the part of Total on a CPU
	NoCore     time.Duration `json:"no_core_ns"`          // the part of Total in the state NoCore
	Elsewhere  time.Duration `json:"no_goroutine_cpu_ns"` // the part of TotalCPU that no goroutine used
	Idle       time.Duration `json:"idle_ns"`             // the part of Total that is Profile.Idle
	Rows       []Row         `json:"rows,omitzero"`

	Shown    time.Duration `json:"-"` // wall time of the stacks that Focus and Ignore left
	ShownCPU time.Duration `json:"-"`
	Left     int           `json:"-"` // rows that Top left out

	Profile *Profile `json:"-"` // of which it is
}

// A Row is one function, line or the like. Self is the time in which it was
// innermost. Total is the time in which it was in the stack; a stack counts once even
// if the row is in it several times. A wait frame, which has no file, is a row of its
// own by function or line. By file or package, its time is self time of the function
// that waits.
type Row struct {
	Name     string        `json:"name"`
	File     string        `json:"file"`
	Line     int           `json:"line"` // for a function the one with the most self time, or total time if it has none; 0 is unknown
	Self     time.Duration `json:"self_ns"`
	Total    time.Duration `json:"total_ns"`
	SelfCPU  time.Duration `json:"self_cpu_ns"`
	TotalCPU time.Duration `json:"total_cpu_ns"`
	// The parts of Self and Total in the state NoCore.
	SelfNoCore  time.Duration `json:"self_no_core_ns,omitempty"`
	TotalNoCore time.Duration `json:"total_no_core_ns,omitempty"`

	// The lines of a function that are in stacks, if they are several.
	FirstLine int `json:"first_line,omitempty"`
	LastLine  int `json:"last_line,omitempty"`

	Series []float32 `json:"-"` // the time by which the rows are sorted, in equal parts of the profile's time, ns

	// Facts that only some other profilers' formats have.
	Called  *int64            `json:"called,omitempty"`
	Metrics map[string]Metric `json:"metrics,omitempty"`
}

// A Metric is one measure of a function, in the unit of its format.
type Metric struct {
	Inclusive float64 `json:"inc"`
	Exclusive float64 `json:"exc"`
}

// New makes a report.
func New(p *Profile, o ReportOptions) (*Report, error) {
	if o.By == "" {
		o.By = ByFunction
	}
	if o.Sort == "" {
		o.Sort = SortSelf
	}
	if !slices.Contains(Bys, o.By) && o.By != ByGroup {
		return nil, fmt.Errorf("no report by %q", o.By)
	}
	if !slices.Contains(Sorts, o.Sort) {
		return nil, fmt.Errorf("no order by %q", o.Sort)
	}
	t := &tally{p: p, by: o.By, sort: o.Sort, own: ownCode{p: p, asks: o.Own, kind: make([]uint8, len(p.Frames))}, rows: map[rowKey]int{}, ids: make([]int, len(p.Frames))}
	if o.By == ByFunction {
		t.places = make([]placeTime, len(p.Frames))
	}
	r := &Report{Profile: p, Duration: p.Duration, Samples: p.Samples, Goroutines: p.Goroutines, Unitless: p.Unitless, Idle: p.Idle}
	r.Total, r.TotalCPU = p.Total()
	if !p.HasIdle {
		r.Total = add(r.Total, p.Idle)
	}
	for i := range p.Records {
		rec := &p.Records[i]
		r.NoCore = add(r.NoCore, rec.noCore())
		if !rec.OfGoroutine() {
			r.Elsewhere = add(r.Elsewhere, rec.CPU)
		}
	}
	focus, ignore := p.matches(o.Focus), p.matches(o.Ignore)
	for i := range p.Records {
		rec := &p.Records[i]
		if focus != nil && !focus(rec) || ignore != nil && ignore(rec) {
			continue
		}
		if o.By == ByBlocked && !rec.Blocked() {
			continue
		}
		r.Shown, r.ShownCPU = add(r.Shown, rec.Wall), add(r.ShownCPU, rec.CPU)
		t.add(rec)
	}
	t.setLines()
	r.Rows = t.list
	if r.Rows == nil {
		r.Rows = []Row{}
	}
	r.arrange(o)
	return r, nil
}

// arrange sorts the rows by o.Sort and keeps the first o.Top.
func (r *Report) arrange(o ReportOptions) {
	slices.SortStableFunc(r.Rows, func(a, b Row) int {
		first, second := cmp.Compare(b.Self, a.Self), cmp.Compare(b.Total, a.Total)
		switch o.Sort {
		case SortTotal:
			first, second = second, first
		case SortCPU:
			first, second = cmp.Compare(b.SelfCPU, a.SelfCPU), cmp.Or(cmp.Compare(b.TotalCPU, a.TotalCPU), first, second)
		}
		return cmp.Or(first, second, strings.Compare(a.Name, b.Name), strings.Compare(a.File, b.File), a.Line-b.Line)
	})
	if o.Top > 0 && len(r.Rows) > o.Top {
		r.Left += len(r.Rows) - o.Top
		r.Rows = slices.Clip(r.Rows[:o.Top])
	}
}

// matches returns a function that says whether a stack has a frame that matches.
func (p *Profile) matches(re *regexp.Regexp) func(*Record) bool {
	if re == nil {
		return nil
	}
	const yes, no = 1, 2
	known := make([]uint8, len(p.Frames))
	return func(r *Record) bool {
		for _, id := range r.Stack {
			if known[id] == 0 {
				known[id] = no
				if f := &p.Frames[id]; re.MatchString(FuncName(f.Func)) || re.MatchString(f.Func) || re.MatchString(f.File) {
					known[id] = yes
				}
			}
			if known[id] == yes {
				return true
			}
		}
		return false
	}
}

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
		name := t.p.goroutineName(r)
		key := rowKey{file: fmt.Sprint(r.Goroutine, r.System)}
		if !r.OfGoroutine() {
			key.name = name
		}
		t.count(t.row(key, Row{Name: name}), r, true)
		return
	case ByState:
		name := r.State
		if name == "" {
			name = "unknown"
		}
		t.count(t.row(rowKey{name: name}, Row{Name: name}), r, true)
		return
	case ByGroup:
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
		t.count(t.row(key, row), r, true)
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

// Blocked reports whether a record is time in which goroutines waited: they neither ran nor could run.
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
	if entry := FuncName(p.entry(r)); entry != "" && entry != name { // SPX's roots have that name
		name += " " + entry
	}
	if r.System {
		name += " (runtime)"
	}
	return name
}
