package session

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// Objects in variables of the program, such as a global lock, get the names of these variables. The
// names are in the executable (executable.go). Whoever reads the profile may not have it, so the
// program looks the names up itself. A goroutine does that while the session runs, so that the file
// of a killed program has the names too.

const (
	// The pause between two searches is at least searchEvery, and at least searchShare times as
	// long as the previous search took. So searches take at most 0.2 % of a core.
	searchEvery = time.Second
	searchShare = 500
)

// objectNames has the names of static objects: those in variables (tachyon.Object.Static is not 0).
// The session's sink calls its methods, one at a time. Only finish and reason may run at any time.
type objectNames struct {
	find    func([]tachyon.Object) (map[uint64]Variable, error)
	known   map[uint64]Variable // by link-time address
	waiting []tachyon.Object    // objects of the present file that have no name yet
	next    time.Time           // no search before
	search  *search             // the one that runs; nil: none

	why atomic.Pointer[error] // of the first search that has failed: the next one would too, so there is none any more
}

type search struct {
	found map[uint64]Variable
	err   error
	took  time.Duration
	ended chan struct{} // closed when the fields above are set
}

// name gives objects the names that are known.
func (n *objectNames) name(list []tachyon.Object) {
	for i := range list {
		o := &list[i]
		if o.Static == 0 {
			continue
		}
		if v, ok := n.known[o.Static]; ok {
			o.Symbol, o.Offset = v.Name, v.Offset
		} else if n.why.Load() == nil {
			n.waiting = append(n.waiting, *o)
		}
	}
}

// poll begins a search if one is due, and does not wait for it. It returns objects whose names have
// become known.
func (n *objectNames) poll() (named []tachyon.Object) {
	if n.search != nil {
		select {
		case <-n.search.ended:
			named = n.take(n.search)
			n.search = nil
		default:
			return nil
		}
	}
	if len(n.waiting) > 0 && !time.Now().Before(n.next) {
		s := &search{ended: make(chan struct{})}
		n.search = s
		list := slices.Clone(n.waiting)
		own.Go(func() {
			defer close(s.ended)
			start := time.Now()
			s.found, s.err = n.find(list)
			s.took = time.Since(start)
		})
	}
	return named
}

// take adds what a search has found to the known names. It returns the objects that have names now.
func (n *objectNames) take(s *search) (named []tachyon.Object) {
	n.next = time.Now().Add(max(searchEvery, searchShare*s.took))
	list := n.waiting
	n.waiting = nil
	if s.err != nil {
		n.why.CompareAndSwap(nil, &s.err)
		return nil
	}
	if n.known == nil {
		n.known = map[uint64]Variable{}
	}
	maps.Copy(n.known, s.found)
	n.name(list) // those that came after the search began wait for the next one
	return slices.DeleteFunc(list, func(o tachyon.Object) bool { return o.Symbol == "" })
}

// cut is called when a new file begins. It returns the objects of the file before that have no name
// yet.
func (n *objectNames) cut() []tachyon.Object {
	list := n.waiting
	n.waiting = nil
	return list
}

// settle waits until no search runs.
func (n *objectNames) settle() {
	if n.search != nil {
		<-n.search.ended
	}
}

// finish finds the names of the objects that cut has returned, and writes them to their file. It
// may run while other methods do: with rotation, the old file is finished while the new one is
// written.
func (n *objectNames) finish(w *writer.Writer, list []tachyon.Object) error {
	if len(list) == 0 {
		return nil
	}
	found, err := n.find(list)
	if err != nil {
		n.why.CompareAndSwap(nil, &err)
		return nil
	}
	for i := range list {
		v := found[list[i].Static]
		list[i].Symbol, list[i].Offset = v.Name, v.Offset
	}
	return w.WriteRecords(&tachyon.Records{Objects: list})
}

// reason returns why objects have no names, or "".
func (n *objectNames) reason() string {
	if err := n.why.Load(); err != nil {
		return (*err).Error()
	}
	return ""
}
