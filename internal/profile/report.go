package profile

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
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
	Apart      []Apart       `json:"apart,omitempty"`     // the parts of Total that are Profile.Apart
	Rows       []Row         `json:"rows,omitzero"`

	Shown time.Duration `json:"-"` // wall time of the stacks that Focus and Ignore left
	Left  int           `json:"-"` // rows that Top left out

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
	t := &tally{p: p, by: o.By, sort: o.Sort, own: ownCode{p: p, asks: o.Own, kind: make([]Code, len(p.Frames))}, rows: map[rowKey]int{}, ids: make([]int, len(p.Frames))}
	if o.By == ByFunction {
		t.places = make([]placeTime, len(p.Frames))
	}
	r := &Report{Profile: p, Duration: p.Duration, Samples: p.Samples, Goroutines: p.Goroutines, Unitless: p.Unitless, Idle: p.Idle, Apart: p.Apart}
	r.Total, r.TotalCPU = p.Total()
	if !p.HasIdle {
		r.Total = add(r.Total, p.Idle)
	}
	for i := range p.Apart {
		if x := &p.Apart[i]; !p.HasApart {
			r.Total, r.TotalCPU = add(r.Total, x.Wall), add(r.TotalCPU, x.CPU)
		}
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
		r.Shown = add(r.Shown, rec.Wall)
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
