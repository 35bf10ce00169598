package requests

import "github.com/gotach/profiler/internal/analyze"

// A request is one request that the samples show (spans.go, handlers.go). Between two samples its
// begin and end are not known exactly: it began between the times before and first, and ended
// between last and after, in µs.
type request struct {
	before, first uint64
	last, after   uint64
	goroutine     uint64
	read          int32  // of an HTTP/1 connection: index into lives.all + 1
	route         uint32 // index into finder.routes
	open          bool   // it lasts at the end of the profile
	dropped       bool   // unknown for how long it lasted, or not selected
	aside         bool   // of a kind that is not shown, if there are others
	debug         bool   // it looks at the program itself
	joined        bool   // it may be several that followed one another
	selected      bool   // it has a sample that is selected
}

// length returns how long the request took, in the middle of what is possible.
func (r *request) length() uint64 { return (r.last - r.first + r.after - r.before) / 2 }

// goesOn notes a further sample of the request.
func (r *request) goesOn(s *analyze.Sample) {
	r.last, r.after = s.At, s.At
	r.selected = r.selected || !s.Unselected
}

// ends notes when the request had ended at the latest.
func (r *request) ends(t uint64) { r.after = max(r.last, t) }

// endsUnseen notes that no later sample shows that the request has ended. Then its end is taken to
// be as uncertain as its beginning.
func (r *request) endsUnseen() { r.after = r.last + r.first - r.before }

// A requestList has all requests of a profile, which may be millions.
type requestList struct{ analyze.PartList[request] }

// ended returns the requests that have ended and are shown.
func (l *requestList) ended() []*request { return l.those(false) }

// those returns the requests that have ended, and if aside is set also those that are not shown.
func (l *requestList) those(aside bool) (out []*request) {
	for x := range l.All() {
		if !x.open && !x.dropped && (aside || !x.aside) {
			out = append(out, x)
		}
	}
	return out
}
