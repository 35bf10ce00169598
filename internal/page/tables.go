package page

import (
	"fmt"
	"io/fs"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/stream"
)

// A sideTables has what the commands locks, requests and leaks print of a side.
type sideTables struct {
	Locks    *analyze.Locks    `json:"locks"`
	Requests *analyze.Requests `json:"requests"`
	Leaks    *analyze.Leaks    `json:"leaks"`
}

// mostLocks is the number of locks, and of groups that grow, of a page.
const mostLocks = 500

// source reads a file of the program's source.
func (b *builder) source(path string) ([]byte, error) {
	if b.o.NoSource {
		return nil, fs.ErrNotExist
	}
	return b.o.Source(path)
}

// analyze makes the tables of an input.
func (b *builder) analyze(in Input) (t sideTables, err error) {
	s, err := in.samples(stream.Options{Objects: true})
	if err == nil {
		t.Locks, err = analyze.FindLocks(s, analyze.LockOptions{Source: b.source})
	}
	if err == nil {
		s, err = in.samples(stream.Options{Labels: true})
	}
	if err == nil {
		t.Requests, err = analyze.FindRequests(s, analyze.RequestOptions{Source: b.source})
	}
	if err == nil {
		s, err = in.samples(stream.Options{Creators: true})
	}
	if err == nil {
		t.Leaks, err = analyze.FindLeaks(s)
	}
	if err != nil {
		return t, err
	}
	if n := len(t.Locks.Locks); n > mostLocks {
		t.Locks.Locks = t.Locks.Locks[:mostLocks]
		b.omitted = append(b.omitted, fmt.Sprintf("%d of %d locks and channels are left out", n-mostLocks, n))
	}
	if n := len(t.Leaks.Groups); n > mostLocks {
		t.Leaks.Groups = t.Leaks.Groups[:mostLocks]
		b.omitted = append(b.omitted, fmt.Sprintf("%d of %d groups that grow are left out", n-mostLocks, n))
	}
	return t, nil
}

// compare returns what gotach diff says of two profiles, nil if it is one.
func (b *builder) compare(inputs []Input) (*analyze.Diff, error) {
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
