package page

import (
	"fmt"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/diff"
	"github.com/gotach/profiler/internal/analyze/findings"
	"github.com/gotach/profiler/internal/analyze/leaks"
	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/analyze/report"
	"github.com/gotach/profiler/internal/analyze/requests"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
)

// A sideTables has what the commands locks, requests, leaks and why print of a side.
type sideTables struct {
	Locks    *locks.Locks       `json:"locks,omitempty"`
	Requests *requests.Requests `json:"requests,omitempty"`
	Leaks    *leaks.Leaks       `json:"leaks,omitempty"`
	// Why is what is wrong with the program, in sentences.
	Why []findings.Finding `json:"why,omitempty"`
}

// findingNames are the names of findings. There is also "diff", of two profiles.
var findingNames = []string{"locks", "requests", "leaks", "why"}

// mostLocks is the number of locks, and of groups that grow, of a page.
const mostLocks = 500

// find adds one kind of findings of an input.
func (t *sideTables) find(what string, in Input, source func(string) *source.File) error {
	if what == "why" {
		all, err := findAll(in, source)
		t.Why = all.Why
		return err
	}
	options := map[string]stream.Options{"locks": {Objects: true, Labels: true, Creators: true}, "requests": {Labels: true, Objects: true}, "leaks": {Creators: true}}
	s, err := in.samples(options[what])
	if err != nil {
		return err
	}
	switch what {
	case "locks":
		if t.Locks, err = locks.Find(s, locks.Options{Source: source}); err == nil {
			t.Locks = t.Locks.Group()
		}
	case "requests":
		t.Requests, err = requests.Find(s, requests.Options{Source: source})
	case "leaks":
		t.Leaks, err = leaks.Find(s)
	}
	return err
}

// findAll finds all kinds of findings of an input, without Requests if it would take long. It reads
// the samples fewer times than find does for each kind.
func findAll(in Input, source func(string) *source.File) (t sideTables, err error) {
	survey, err := report.OpenSurvey(in.Open, report.Options{Series: true}, source)
	if err != nil {
		return t, err
	}
	locks, err := survey.Locks()
	if err != nil {
		return t, err
	}
	if t.Requests, err = survey.FindRequests(); err != nil {
		return t, err
	}
	if t.Why, err = findings.Of(findings.Input{Survey: survey, Locks: locks, Requests: t.Requests, Files: in.Files}); err != nil {
		return t, err
	}
	for i := range t.Why {
		if in.Files == "" {
			t.Why[i].Command = ""
		}
	}
	t.Locks, t.Leaks = locks.Group(), survey.Leaks
	return t, nil
}

// shorten cuts long tables off. It returns what is left out.
func (t *sideTables) shorten() (omitted []string) {
	if t.Locks != nil && len(t.Locks.Locks) > mostLocks {
		n := len(t.Locks.Locks)
		t.Locks.Locks = t.Locks.Locks[:mostLocks]
		omitted = append(omitted, fmt.Sprintf("%d of %d locks and channels, those with the least waiting, are left out", n-mostLocks, n))
	}
	if t.Leaks != nil && len(t.Leaks.Groups) > mostLocks {
		n := len(t.Leaks.Groups)
		t.Leaks.Groups = t.Leaks.Groups[:mostLocks]
		omitted = append(omitted, fmt.Sprintf("%d of %d groups that grow are left out", n-mostLocks, n))
	}
	return omitted
}

// onlyFindings returns data that have only one kind of findings, in the piece "tables".
func onlyFindings(inputs []Input, what string, o Options) (*Data, error) {
	o.setDefaults()
	d := &Data{Head: Head{Version: version, Sides: []Side{}, LeftOut: []string{}}}
	content := map[string]any{}
	if what == "diff" {
		compared, err := compare(inputs)
		if err != nil {
			return nil, err
		}
		content["diff"] = compared
	} else {
		var sides []sideTables
		for _, in := range inputs {
			var t sideTables
			if err := t.find(what, in, o.Source); err != nil {
				return nil, err
			}
			d.Head.LeftOut = append(d.Head.LeftOut, t.shorten()...)
			sides = append(sides, t)
		}
		content["sides"] = sides
	}
	p, err := newPiece("tables", content, nil)
	d.Pieces = []Piece{p}
	return d, err
}

// compare returns what gotach diff says of two profiles, nil if it is one.
func compare(inputs []Input) (*diff.Diff, error) {
	if len(inputs) < 2 {
		return nil, nil
	}
	var sides [2][]*analyze.Samples
	for i := range inputs {
		s, err := inputs[i].samples(stream.Options{})
		if err != nil {
			return nil, err
		}
		sides[i] = []*analyze.Samples{s}
	}
	return diff.Find(sides[0], sides[1], diff.Options{By: "total"})
}
