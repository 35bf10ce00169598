package page

import (
	"fmt"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
)

// A sideTables has what the commands locks, requests and leaks print of a side.
type sideTables struct {
	Locks    *analyze.Locks    `json:"locks,omitempty"`
	Requests *analyze.Requests `json:"requests,omitempty"`
	Leaks    *analyze.Leaks    `json:"leaks,omitempty"`
}

// findingNames are the names of findings. There is also "diff", of two profiles.
var findingNames = []string{"locks", "requests", "leaks"}

// mostLocks is the number of locks, and of groups that grow, of a page.
const mostLocks = 500

// find adds one kind of findings of an input.
func (t *sideTables) find(what string, in Input, source func(string) *source.File) error {
	options := map[string]stream.Options{"locks": {Objects: true}, "requests": {Labels: true}, "leaks": {Creators: true}}
	s, err := in.samples(options[what])
	if err != nil {
		return err
	}
	switch what {
	case "locks":
		t.Locks, err = analyze.FindLocks(s, analyze.LockOptions{Source: source})
	case "requests":
		t.Requests, err = analyze.FindRequests(s, analyze.RequestOptions{Source: source})
	case "leaks":
		t.Leaks, err = analyze.FindLeaks(s)
	}
	return err
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

// findings returns data that have only one kind of findings, in the piece "tables".
func findings(inputs []Input, what string, o Options) (*Data, error) {
	o.setDefaults()
	d := &Data{Head: Head{Version: version, Sides: []Side{}, LeftOut: []string{}}}
	content := map[string]any{}
	if what == "diff" {
		diff, err := compare(inputs)
		if err != nil {
			return nil, err
		}
		content["diff"] = diff
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
func compare(inputs []Input) (*analyze.Diff, error) {
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
	return analyze.FindDiff(sides[0], sides[1], analyze.DiffOptions{By: "total"})
}
