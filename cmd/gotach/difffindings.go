package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/gotach/profiler/internal/analyze/diff"
	"github.com/gotach/profiler/internal/analyze/findings"
	"github.com/gotach/profiler/internal/formats"
)

// comparedFindings are the faults that one side of a diff has and the other one does not. Findings
// are the same if kind and function are.
type comparedFindings struct {
	New  []findings.Finding `json:"new_findings"` // nil: not known
	Gone []findings.Finding `json:"gone_findings"`
}

// foundDiff is what diff --json prints.
type foundDiff struct {
	*diff.Diff
	comparedFindings
}

// compareFindings finds what is wrong on each side. It finds nothing unless both sides have
// sessions, each side's files are read as a whole, and the time that is chosen is the same for all
// files of a side.
func (e *env) compareFindings(sides [2][]slice, o formats.Options, choice selectFlags) (c comparedFindings, err error) {
	var found [2][]findings.Finding
	for i, side := range sides {
		var paths []string
		for _, part := range side {
			if part.part != side[0].part || part.since != side[0].since || part.until != side[0].until {
				return c, nil
			}
			paths = append(paths, part.path)
		}
		choice := choice
		if side[0].part {
			choice.since, choice.until = side[0].since, side[0].until
		}
		o := o
		if err := choice.set("diff", &o); err != nil {
			return c, err
		}
		err := e.read("diff", paths, o, func(in *formats.Input) (err error) {
			if !in.HasSession() {
				return errNoSession
			}
			found[i], err = e.findings(in, paths)
			return err
		})
		if errors.Is(err, errNoSession) || err != nil && len(paths) > 1 { // a damaged file of several: its samples have caused a warning
			return c, nil
		}
		if err != nil {
			return c, err
		}
	}
	c.New, c.Gone = missing(found[1], found[0]), missing(found[0], found[1])
	return c, nil
}

var errNoSession = errors.New("the file says nothing of a session")

// missing returns the faults of a list that another list does not have.
func missing(list, other []findings.Finding) []findings.Finding {
	left := []findings.Finding{}
	for _, x := range list {
		if !x.Note && !slices.ContainsFunc(other, func(y findings.Finding) bool { return x.Kind == y.Kind && x.Function == y.Function }) {
			left = append(left, x)
		}
	}
	return left
}

// mostCompared is the number of findings that each list prints.
const mostCompared = 5

// text prints the lists below the rows.
func (c comparedFindings) text(paint paint, width int) []byte {
	var b bytes.Buffer
	for _, part := range []struct {
		what string
		list []findings.Finding
	}{{"only in B", c.New}, {"only in A", c.Gone}} {
		if len(part.list) == 0 {
			continue
		}
		printf(&b, "\n%s\n", paint.bold(fmt.Sprintf("%s %s:", plural(int64(len(part.list)), "finding"), part.what)))
		for i := range part.list {
			if i == mostCompared {
				printf(&b, "… and %d more; --json has them\n", len(part.list)-i)
				break
			}
			b.Write(oneFinding(i+1, &part.list[i], paint, width))
		}
	}
	return b.Bytes()
}
