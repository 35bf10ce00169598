package analyze

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// DiffOptions say how to compare two sides. The zero value is the usual choice.
type DiffOptions struct {
	By  string // what a row is: one of DiffBys; "" is function
	Per string // what times are divided by: one of DiffPers; "" is wall
}

// DiffBys and DiffPers list the choices of DiffOptions.
var (
	DiffBys  = []string{"function", "total", "line", "stack"}
	DiffPers = []string{"wall", "share", "request"}
)

// A Diff is the difference between two sides.
type Diff struct {
	Windows [2]int           `json:"windows"`   // number of them on each side
	Window  time.Duration    `json:"window_ns"` // length of one
	Length  [2]time.Duration `json:"duration_ns"`
	Per     string           `json:"per"`
	// With "request", the number of requests on each side, and how long one took on average.
	Requests []int           `json:"requests,omitempty"`
	Request  []time.Duration `json:"request_ns,omitempty"`
	Rows     []DiffRow       `json:"rows"` // significant ones first, then by the size of the difference
}

// A DiffRow is a function, line or stack, on a CPU or in a wait. A and B are what it took on each
// side: goroutine time for each unit of time on the wall clock, or its share of all goroutine time, or
// goroutine time in ns for each request.
type DiffRow struct {
	Name        string  `json:"name"`
	A           float64 `json:"a"`
	B           float64 `json:"b"`
	Delta       float64 `json:"delta"` // B - A
	Low         float64 `json:"low"`   // 95 % interval of Delta
	High        float64 `json:"high"`
	P           float64 `json:"p"`           // Mann-Whitney, adjusted for the number of rows
	Significant bool    `json:"significant"` // see judge

	unit float64 // what one goroutine takes all the time
}

const (
	// leastShare is the amount of a row below which it is not tested: 0.1 %.
	leastShare = 0.001
	// leastChange is the part of a row below which a difference does not count.
	leastChange = 0.02
	// maxRows bounds the memory of rows.
	maxRows = 50_000
	// machineShare is the part of the machine's difference below which a difference does not count.
	machineShare = 0.05
	// The windows of a side are at least so many, if the profile is long enough, and at most.
	minWindows, maxWindows = 60, 100
	// others is the row of what is beyond maxRows.
	others = "[other]"
)

// A differ adds up the time of rows by window.
type differ struct {
	o       DiffOptions
	width   uint64 // of a window, µs
	closure closures
	number  map[string]int32
	rows    []diffRow
	lengths [2][]float64 // of the windows, µs
	all     [2][]float64 // time of all rows, by window, µs
	// requests have their number by window, if Per is "request". took is the time of all.
	requests [2][]float64
	took     [2]float64 // µs
	cpu      [2]float64 // time on a CPU, µs
	lost     [2]uint64  // time after the damage of profiles, µs
}

type diffRow struct {
	name string
	time [2][]float32 // by window, µs
}

// FindDiff compares the profiles of one side with those of the other. Each profile is divided into
// windows of the same length.
func FindDiff(a, b []*Samples, o DiffOptions) (*Diff, error) {
	o.By, o.Per = cmp.Or(o.By, "function"), cmp.Or(o.Per, "wall")
	if !slices.Contains(DiffBys, o.By) || !slices.Contains(DiffPers, o.Per) {
		return nil, fmt.Errorf("no difference by %q per %q", o.By, o.Per)
	}
	sides := [2][]*Samples{a, b}
	d := &differ{o: o, number: map[string]int32{}}
	if v := version(a); v != version(b) || v == "several" {
		d.closure = closures{}
	}
	out := &Diff{Rows: []DiffRow{}, Per: o.Per}
	var length [2]uint64
	for side, list := range sides {
		for _, s := range list {
			n, err := s.length()
			if err != nil {
				return nil, s.named(err)
			}
			length[side] += n
			d.width = max(d.width, 10*s.interval())
		}
		out.Length[side] = time.Duration(length[side]) * time.Microsecond
	}
	if min(length[0], length[1]) == 0 {
		return nil, errNoSamples
	}
	d.width = max(d.width, max(length[0], length[1])/maxWindows, min(second, min(length[0], length[1])/minWindows))
	for side, list := range sides {
		for _, s := range list {
			if err := d.read(side, s); err != nil {
				return nil, s.named(err)
			}
			if len(a)+len(b) > stream.Many {
				s.src.Release()
			}
		}
		out.Length[side] -= time.Duration(d.lost[side]) * time.Microsecond
		if out.Windows[side] = len(d.lengths[side]); out.Windows[side] == 0 {
			return nil, errNoSamples
		}
		if o.Per == "request" {
			n := sum(d.requests[side])
			if n == 0 {
				return nil, errors.New("one side has no requests")
			}
			out.Requests = append(out.Requests, int(math.Round(n)))
			out.Request = append(out.Request, micros(uint64(d.took[side]/n)))
		}
	}
	out.Window = time.Duration(d.width) * time.Microsecond
	for i := range d.rows {
		out.Rows = append(out.Rows, d.row(&d.rows[i]))
	}
	judge(out.Rows, d.core())
	slices.SortFunc(out.Rows, func(a, b DiffRow) int {
		if a.Significant != b.Significant {
			if a.Significant {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(math.Abs(b.Delta), math.Abs(a.Delta)), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

var errNoSamples = errors.New("one side has no samples")

// second is a second in µs.
const second = 1_000_000

// version returns the Go version of all profiles without its last number, "several" if they differ.
func version(list []*Samples) (out string) {
	for i, s := range list {
		parts := strings.SplitN(s.goVersion(), ".", 3)
		v := strings.Join(parts[:min(2, len(parts))], ".")
		if i > 0 && v != out {
			return "several"
		}
		out = v
	}
	return out
}

// read adds a profile to a side.
func (d *differ) read(side int, s *Samples) error {
	length, err := s.length()
	if err != nil {
		return err
	}
	// A last window of less than half the width is left out, if it is not the only one.
	n := (length + d.width/2) / d.width
	if !s.cut {
		n = max(1, n)
	}
	offset := uint64(len(d.lengths[side]))
	for i := range n {
		d.lengths[side] = append(d.lengths[side], float64(min(length, (i+1)*d.width)-i*d.width))
		d.all[side] = append(d.all[side], 0)
	}
	if d.o.Per == "request" {
		if err := d.count(side, s, n); err != nil {
			return err
		}
	}
	var known [4][][]int32 // rows by kind and stack
	for x, err := range s.all() {
		if err != nil {
			return err
		}
		if x.Unselected {
			continue
		}
		kind := kindOf(x.Status)
		if int(x.Stack) >= len(known[kind]) {
			known[kind] = append(known[kind], make([][]int32, s.stacks()-len(known[kind]))...)
		}
		rows := known[kind][x.Stack]
		if rows == nil {
			rows = d.find(s, kind, x.Stack)
			known[kind][x.Stack] = rows
		}
		if len(rows) == 0 {
			continue
		}
		if kind == kindCPU {
			d.cpu[side] += float64(x.time - x.begin())
		}
		for from, to := x.begin(), min(x.time, n*d.width); from < to; {
			i := from / d.width
			end := min(to, (i+1)*d.width)
			d.all[side][offset+i] += float64(end - from)
			for _, r := range rows {
				row := &d.rows[r]
				for uint64(len(row.time[side])) <= offset+i {
					row.time[side] = append(row.time[side], 0)
				}
				row.time[side][offset+i] += float32(end - from)
			}
			from = end
		}
	}
	if s.cut {
		return d.shorten(side, s, offset, length)
	}
	return nil
}

// shorten removes the windows of a profile after its damage. Its windows begin at offset, and it was said to have
// length µs.
func (d *differ) shorten(side int, s *Samples, offset, length uint64) error {
	known, err := s.length()
	if err != nil || known >= length {
		return err
	}
	d.lost[side] += length - known
	n := (known + d.width/2) / d.width // no window for less than half the width
	end := offset + n
	d.lengths[side], d.all[side] = d.lengths[side][:end], d.all[side][:end]
	if n > 0 {
		d.lengths[side][end-1] = float64(min(known, n*d.width) - (n-1)*d.width)
	}
	if d.o.Per == "request" {
		d.requests[side] = d.requests[side][:end]
	}
	for i := range d.rows {
		row := &d.rows[i]
		row.time[side] = row.time[side][:min(end, uint64(len(row.time[side])))]
	}
	return nil
}

// count counts the requests of a profile by window.
func (d *differ) count(side int, s *Samples, windows uint64) error {
	f := newFinder(s, RequestOptions{})
	for x, err := range s.all() {
		if err == nil {
			_, err = f.add(x)
		}
		if err != nil {
			return err
		}
	}
	f.finish()
	counts := make([]float64, windows)
	if list := f.lengths(); len(list) > 0 {
		l := estimate(list)
		if l.quantile(0.5) < l.short {
			return errors.New("most requests are shorter than the time between two samples, so their number is not known")
		}
		each := l.all / float64(len(list)) // with those that have no sample
		for _, x := range list {
			counts[min(x.last/d.width, windows-1)] += each
			d.took[side] += each * float64(x.length())
		}
	}
	d.requests[side] = append(d.requests[side], counts...)
	return nil
}

// The kinds of samples that have rows of their own.
const (
	kindCPU = iota
	kindNoCore
	kindRunnable
	kindWait
)

func kindOf(s tachyon.Status) int {
	switch {
	case s&tachyon.OnCPU != 0:
		return kindCPU
	case s&tachyon.HasGIL != 0:
		return kindNoCore
	case s&tachyon.GILRequested != 0:
		return kindRunnable
	}
	return kindWait
}

// find returns the rows of a stack: none if nothing is known of its time.
func (d *differ) find(s *Samples, kind int, stack uint32) []int32 {
	leaf := s.leaf(stack)
	switch {
	case leaf != nil && isGap(leaf):
		return []int32{}
	case d.o.By == "total":
		return d.inclusive(s, stack)
	case kind == kindNoCore:
		return []int32{d.named(rowNoCore)}
	case kind == kindRunnable:
		return []int32{d.named(rowRunnable)}
	}
	frame := leaf
	prefix := ""
	if kind == kindWait {
		prefix = "[waiting] "
		if leaf != nil && reason(leaf) != "" {
			prefix = leaf.Func + " "
		}
		frame = s.own(stack)
	} else if leaf != nil && leaf.File == "" {
		if f := s.function(stack); f != nil {
			frame = f
		}
	}
	name := ""
	switch {
	case frame == nil:
		return []int32{d.named(strings.TrimSpace(cmp.Or(prefix, "[unknown]")))}
	case d.o.By == "line":
		name = fmt.Sprintf("%s %s:%d", d.function(frame), frame.File[strings.LastIndexAny(frame.File, `/\`)+1:], frame.Line)
	case d.o.By == "stack":
		var names []string
		for ; stack != 0; stack = s.caller(stack) {
			if f := s.leaf(stack); f.File != "" || len(names) == 0 && kind == kindCPU {
				names = append(names, d.function(f))
			}
		}
		slices.Reverse(names)
		name = strings.Join(names, ";")
	default:
		name = d.function(frame)
	}
	return []int32{d.named(prefix + name)}
}

// inclusive returns the rows of all functions of a stack.
func (d *differ) inclusive(s *Samples, stack uint32) []int32 {
	out := []int32{}
	for ; stack != 0; stack = s.caller(stack) {
		if n := d.named(d.function(s.leaf(stack))); !slices.Contains(out, n) {
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

// named returns the number of the row with a name.
func (d *differ) named(name string) int32 {
	n, ok := d.number[name]
	if !ok && len(d.rows) >= maxRows && name != others {
		return d.named(others)
	}
	if !ok {
		n = int32(len(d.rows))
		d.number[name] = n
		d.rows = append(d.rows, diffRow{name: name})
	}
	return n
}

// core returns how many times as much CPU time as side A has side B has, in the unit of the rows. It is 1
// for requests: how much CPU time one takes does not depend on the machine's load.
func (d *differ) core() float64 {
	by := d.lengths
	switch {
	case d.o.Per == "request" || min(d.cpu[0], d.cpu[1]) == 0:
		return 1
	case d.o.Per == "share":
		by = d.all
	}
	return d.cpu[1] / sum(by[1]) / (d.cpu[0] / sum(by[0]))
}

// row compares the sides of a row.
func (d *differ) row(r *diffRow) DiffRow {
	var values [2][]float64
	var mean [2]float64
	for side := range values {
		time, by := 0.0, 0.0
		values[side] = make([]float64, len(d.lengths[side]))
		for i, length := range d.lengths[side] {
			if d.o.Per == "share" {
				length = d.all[side][i]
			}
			v := 0.0
			if i < len(r.time[side]) {
				v = float64(r.time[side][i])
			}
			if length > 0 {
				values[side][i] = v / length
			}
			time, by = time+v, by+length
		}
		if by > 0 {
			mean[side] = time / by
		}
	}
	unit := 1.0
	if d.o.Per == "request" {
		unit = 0
		for side := range values {
			values[side], mean[side] = ratios(r.time[side], d.requests[side])
			unit = max(unit, 1000*sum(d.lengths[side])/sum(d.requests[side]))
		}
	}
	out := DiffRow{Name: r.name, A: mean[0], B: mean[1], Delta: mean[1] - mean[0], P: 1, unit: unit}
	if !out.Tested() {
		out.Low, out.High = out.Delta, out.Delta
		return out
	}
	c := compare(values[0], values[1])
	out.Low, out.High, out.P = min(c.low, out.Delta), max(c.high, out.Delta), c.p
	return out
}
