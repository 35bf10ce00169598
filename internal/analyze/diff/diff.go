// Package diff compares two sides, each of one or several profiles. Command and page call [Find].
//
// # Files
//
//   - diff.go: reads the profiles, window by window
//   - measured.go: the values of each row, and which rows are tested
//   - judge.go: which rows are significant
//   - rows.go: which rows a sample is in; closures.go names function literals
//   - compare.go: the difference of two series of values; student.go
package diff

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/requests"
	"github.com/gotach/profiler/internal/stream"
)

// Options say how to compare two sides. The zero value is the usual choice.
type Options struct {
	By  string // what a row is: one of Bys; "" is function
	Per string // what times are divided by: one of Pers; "" is wall
}

// Bys and Pers list the choices of Options.
var (
	Bys  = []string{"function", "total", "line", "stack"}
	Pers = []string{"wall", "share", "request"}
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
	Rows     []Row           `json:"rows"` // the whole first; then significant ones, by the size of the difference
}

// A Row is the whole, or a function, line or stack, on a CPU or in a wait. A and B are what it took
// on each side: goroutine time for each unit of time on the wall clock, which is the number of
// cores or goroutines, or its share of all goroutine time, or goroutine time in ns for each
// request. Of WhatRequests it is the number a second.
type Row struct {
	Name        string  `json:"name"`
	Level       string  `json:"level"`
	What        string  `json:"what"`
	A           float64 `json:"a"`
	B           float64 `json:"b"`
	Delta       float64 `json:"delta"` // B - A
	Low         float64 `json:"low"`   // interval of Delta, see judge
	High        float64 `json:"high"`
	P           float64 `json:"p"`           // adjusted for the number of rows
	Significant bool    `json:"significant"` // the interval does not have 0
	Tested      bool    `json:"tested"`
}

// The levels of rows.
const (
	LevelWhole = "whole"
	LevelTotal = "total" // a function with what it calls
	LevelSelf  = "self"
)

// What rows count.
const (
	WhatCPU        = "cpu"
	WhatWait       = "wait" // not on a CPU
	WhatGoroutines = "goroutines"
	WhatRequests   = "requests"
)

// The rows of the whole.
const (
	wholeCPU = iota
	wholeGoroutines
	wholeRequests
)

var wholes = [...]diffKey{
	{"[CPU]", LevelWhole, WhatCPU},
	{"[goroutines]", LevelWhole, WhatGoroutines},
	{"[requests]", LevelWhole, WhatRequests},
}

const (
	// leastShare is the amount of a row below which it is not tested: 0.1 %. Of rows of CPU time it
	// is leastCPU of all.
	leastShare = 0.001
	leastCPU   = 0.005
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
	o       Options
	width   uint64 // of a window, µs
	closure closures
	number  map[diffKey]int32
	rows    []diffRow
	lengths [2][]float64 // of the windows, µs
	all     [2][]float64 // time of all rows, by window, µs
	// requests have their number by window. took is the time of all. unknown says why their number
	// is not known.
	requests [2][]float64
	took     [2]float64 // µs
	unknown  error
	lost     [2]uint64 // time after the damage of profiles, µs
}

// A diffKey says what a row is.
type diffKey struct{ name, level, what string }

type diffRow struct {
	diffKey
	time [2][]float32 // by window, µs
}

// Find compares the profiles of one side with those of the other. Each profile is divided into
// windows of the same length.
func Find(a, b []*analyze.Samples, o Options) (*Diff, error) {
	o.By, o.Per = cmp.Or(o.By, "function"), cmp.Or(o.Per, "wall")
	if !slices.Contains(Bys, o.By) || !slices.Contains(Pers, o.Per) {
		return nil, fmt.Errorf("no difference by %q per %q", o.By, o.Per)
	}
	sides := [2][]*analyze.Samples{a, b}
	d := &differ{o: o, number: map[diffKey]int32{}}
	for _, key := range wholes {
		d.row(key)
	}
	if v := version(a); v != version(b) || v == "several" {
		d.closure = closures{}
	}
	out := &Diff{Rows: []Row{}, Per: o.Per}
	var length [2]uint64
	for side, list := range sides {
		for _, s := range list {
			n, err := s.Length()
			if err != nil {
				return nil, s.Named(err)
			}
			length[side] += n
			d.width = max(d.width, 10*s.Interval())
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
				return nil, s.Named(err)
			}
			if len(a)+len(b) > stream.Many {
				s.Source.Release()
			}
		}
		out.Length[side] -= time.Duration(d.lost[side]) * time.Microsecond
		if out.Windows[side] = len(d.lengths[side]); out.Windows[side] == 0 {
			return nil, errNoSamples
		}
		if o.Per == "request" {
			if d.unknown != nil {
				return nil, d.unknown
			}
			n := analyze.Sum(d.requests[side])
			if n == 0 {
				return nil, errors.New("one side has no requests")
			}
			out.Requests = append(out.Requests, int(math.Round(n)))
			out.Request = append(out.Request, analyze.Micros(uint64(d.took[side]/n)))
		}
	}
	out.Window = time.Duration(d.width) * time.Microsecond
	out.Rows = d.result()
	return out, nil
}

var errNoSamples = errors.New("one side has no samples")

// second is a second in µs.
const second = 1_000_000

// version returns the Go version of all profiles without its last number, "several" if they differ.
func version(list []*analyze.Samples) (out string) {
	for i, s := range list {
		parts := strings.SplitN(s.GoVersion(), ".", 3)
		v := strings.Join(parts[:min(2, len(parts))], ".")
		if i > 0 && v != out {
			return "several"
		}
		out = v
	}
	return out
}

// read adds a profile to a side.
func (d *differ) read(side int, s *analyze.Samples) error {
	length, err := s.Length()
	if err != nil {
		return err
	}
	// A last window of less than half the width is left out, if it is not the only one.
	n := (length + d.width/2) / d.width
	if !s.Cut {
		n = max(1, n)
	}
	offset := uint64(len(d.lengths[side]))
	for i := range n {
		d.lengths[side] = append(d.lengths[side], float64(min(length, (i+1)*d.width)-i*d.width))
		d.all[side] = append(d.all[side], 0)
	}
	if err := d.count(side, s, n); err != nil {
		return err
	}
	var known [4][][]int32 // rows by kind and stack
	for x, err := range s.All() {
		if err != nil {
			return err
		}
		if x.Unselected {
			continue
		}
		kind := analyze.StateOf(x.Status)
		if int(x.Stack) >= len(known[kind]) {
			known[kind] = append(known[kind], make([][]int32, s.Stacks()-len(known[kind]))...)
		}
		rows := known[kind][x.Stack]
		if rows == nil {
			rows = d.find(s, kind, x.Stack)
			known[kind][x.Stack] = rows
		}
		if len(rows) == 0 {
			continue
		}
		for from, to := x.Begin(), min(x.At, n*d.width); from < to; {
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
	if s.Cut {
		return d.shorten(side, s, offset, length)
	}
	return nil
}

// shorten removes the windows of a profile after its damage. Its windows begin at offset, and it
// was said to have length µs.
func (d *differ) shorten(side int, s *analyze.Samples, offset, length uint64) error {
	known, err := s.Length()
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
	d.requests[side] = d.requests[side][:end]
	for i := range d.rows {
		row := &d.rows[i]
		row.time[side] = row.time[side][:min(end, uint64(len(row.time[side])))]
	}
	return nil
}

// count counts the requests of a profile by window.
func (d *differ) count(side int, s *analyze.Samples, windows uint64) error {
	ended, err := requests.FindEnded(s)
	if err != nil {
		return err
	}
	if ended.Unknown {
		d.unknown = errors.New("most requests are shorter than the time between two samples, so their number is not known; PROFILE_BUDGET=10 takes more samples")
	}
	counts := make([]float64, windows)
	for _, at := range ended.At {
		counts[min(at/d.width, windows-1)] += ended.Each
	}
	d.took[side] += ended.Took
	d.requests[side] = append(d.requests[side], counts...)
	return nil
}
