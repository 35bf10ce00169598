package findings

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/profile"
)

const (
	// computeShare is the least share of the time of requests that one function computes, and
	// onceShare that if one of onceOnly does.
	computeShare, onceShare = 0.4, 0.2
	// computeWeight puts it behind what others must wait for.
	computeWeight = 0.5
	// insideShare is the least part of that time for which what the function calls is named.
	insideShare = 0.5
)

// onceOnly are functions whose result can often be kept, by the words that say so.
var onceOnly = map[string]string{
	"regexp.MustCompile": "a regular expression can be compiled once, before requests come",
	"regexp.Compile":     "a regular expression can be compiled once, before requests come",

	"html/template.(*Template).Parse": "a template can be parsed once, before requests come",
	"text/template.(*Template).Parse": "a template can be parsed once, before requests come",
}

// A computed is the CPU time that requests have in a function of the program, with what it calls.
type computed struct {
	cpu    time.Duration
	lines  map[place]time.Duration
	inside map[string]time.Duration // by the function that it calls
}

// addComputed adds the CPU time of a record of a request, whose innermost frame of the program is at
// a place and has a number.
func (f *facts) addComputed(rec *profile.Record, at place, own uint32) {
	key := place{function: at.function, file: at.file}
	c := f.computes[key]
	if c == nil {
		c = &computed{lines: map[place]time.Duration{}, inside: map[string]time.Duration{}}
		f.computes[key] = c
	}
	c.cpu += rec.CPU
	c.lines[at] += rec.CPU
	if i := slices.Index(rec.Stack, own); i > 0 {
		if called := &f.p.Frames[rec.Stack[i-1]]; called.File != "" && !strings.HasPrefix(called.Func, "runtime.") {
			c.inside[called.Func] += rec.CPU
		}
	}
}

// requestsCompute says in which function requests compute for much of their time. That may be their
// work, so it is a note, unless the function calls one of onceOnly.
func requestsCompute(f *facts) error {
	if !f.byRequests() {
		return nil
	}
	for _, at := range slices.SortedFunc(maps.Keys(f.computes), byPlace) {
		c := f.computes[at]
		called, inside := most(c.inside, strings.Compare)
		if float64(inside) < insideShare*float64(c.cpu) {
			called = ""
		}
		hint, least := onceOnly[called], computeShare
		if hint != "" {
			least = onceShare
		}
		if !f.worth(c.cpu, least) {
			continue
		}
		line, _ := most(c.lines, byPlace)
		x := Finding{Kind: Compute, weight: computeWeight, Cost: c.cpu, Share: f.share(c.cpu), Sure: Measured, Note: hint == ""}
		x.Text = fmt.Sprintf("Requests compute: %s, in %s", f.part(c.cpu), line.text())
		if called != "" {
			x.Text += fmt.Sprintf(", %s of it in %s", percentOf(inside, c.cpu), profile.FuncName(called))
		}
		if hint != "" {
			x.Evidence = append(x.Evidence, hint)
		}
		x.Text += "."
		x.Command = "report %s --weight cpu --tree --focus " + quoted(funcFlag(at.function))
		f.add(x, at)
	}
	return nil
}
