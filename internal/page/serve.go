package page

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gotach/profiler/internal/stream"
)

// A Span is a part of a profile's time, in µs since 1970. The zero value is all of it.
type Span struct{ From, To int64 }

// Select returns a selection that also leaves the other time out.
func (s Span) Select(sel *stream.Selection) (*stream.Selection, error) {
	if s == (Span{}) {
		return sel, nil
	}
	var out stream.Selection
	if sel != nil {
		out = *sel
	}
	moment := func(us int64) (stream.Moment, error) {
		return stream.ParseMoment(time.UnixMicro(us).UTC().Format(time.RFC3339Nano))
	}
	var err error
	if out.Since, err = moment(s.From); err == nil {
		out.Until, err = moment(s.To)
	}
	return &out, err
}

// A Request says which profiles to open.
type Request struct {
	Span
	// Sketch says that some of the files are enough, if it takes long to read all.
	Sketch bool
}

// Opened are profiles that a Server reads.
type Opened struct {
	Inputs  []Input
	Growing bool // they are still being written
	// Sketch says which part of the files is open, if not all are because of Request.Sketch.
	Sketch string
	// Large says that each reading of all takes long.
	Large bool
	Close func() error
}

// ServerOptions say what a Server shows.
type ServerOptions struct {
	Options
	Title string
	// Open opens the profiles. It is called for each reading of everything. Streams end when the
	// context does.
	Open func(context.Context, Request) (*Opened, error)
	// Version returns what changes when the profiles do.
	Version func() string
	// Note may be nil. It returns what the page says about the profiles at present, and whether the
	// page offers to take a new one, with the query new=1.
	Note func() (text string, again bool)
	// Rest says that after each reading nothing is read for restFactor times as long, whatever
	// pages show. Otherwise this holds for each part of the time by itself.
	Rest bool
}

const (
	// mostPages is the number of parts of the time whose pages are kept, apart from the whole. Each
	// takes at most Options.MaxSize. mostFindings is the same for tables, which are small.
	mostPages    = 3
	mostFindings = 12
	// abandoned is the time after which nothing is read further for a page that does not ask for
	// it. Pages ask each second. The page of the whole is always read.
	abandoned = 15 * time.Second
	// unwanted is the same for a reading that has not begun.
	unwanted = 4 * time.Second
	// restFactor says how long a growing profile is left alone after a reading: this many times
	// what that took.
	restFactor = 4
	leastRest  = 2 * time.Second
)

// A Server reads profiles and keeps what pages of them need. Its memory does not depend on the size
// of the profiles: one reading happens at a time, and at most one other waits half-way. That is a
// reading of the whole, before which parts come.
//
// Of profiles that take long to read, a page shows some of the files first.
type Server struct {
	o      ServerOptions
	ctx    context.Context
	stop   context.CancelCauseFunc
	turn   chan struct{} // has an element while something is read
	ended  sync.WaitGroup
	mu     sync.Mutex
	views  map[viewKey]*view
	urgent int       // readings of parts that wait or happen
	newest int64     // generation
	rest   time.Time // before which nothing is read, with ServerOptions.Rest
}

// A viewKey says what a view shows.
type viewKey struct {
	Span
	what string // "" for the page, or the name of findings
}

// A view is the page of a part of the time, or one of its tables. All fields belong to Server.mu.
type view struct {
	viewKey
	data       *Data // nil: not yet
	sketch     bool  // data are not of all files
	generation int64
	version    string // of the profiles when data was read
	growing    bool
	err        error // of the latest reading
	reading    bool
	passes     int
	share      float64 // of the present pass
	asked      time.Time
	rest       time.Time               // before which nothing is read again
	cancel     context.CancelCauseFunc // ends the reading
}

// NewServer returns a server, which begins to read at once. Close ends it.
func NewServer(ctx context.Context, o ServerOptions) *Server {
	s := &Server{o: o, turn: make(chan struct{}, 1), views: map[viewKey]*view{}}
	s.ctx, s.stop = context.WithCancelCause(ctx)
	s.status(viewKey{}, 0)
	return s
}

var errClosed = errors.New("the server has ended")

// Close ends all reading and waits for that.
func (s *Server) Close() {
	s.mu.Lock()
	s.stop(errClosed)
	s.mu.Unlock()
	s.ended.Wait()
}

// A Status says what a server has. The script asks for it again and again.
type Status struct {
	Generation int64  `json:"generation"` // 0: there are no data yet
	Growing    bool   `json:"growing,omitempty"`
	Progress   string `json:"progress,omitempty"`
	Error      string `json:"error,omitempty"` // of the latest reading
	Note       string `json:"note,omitempty"`
	Again      bool   `json:"again,omitempty"` // the page offers to take a new profile
	Head       *Head  `json:"head,omitempty"`  // if the script has an older generation
}

// status returns the status of a view. It starts a reading if there are no data or newer ones.
func (s *Server) status(key viewKey, has int64) Status {
	version := s.o.Version()
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.find(key)
	now := time.Now()
	v.asked = now
	stale := v.version != version || v.sketch || v.data == nil && v.err == nil
	if !v.reading && s.ctx.Err() == nil && stale && !now.Before(v.rest) {
		v.reading, v.passes, v.share = true, 0, 0
		t := &turn{Server: s, v: v}
		t.ctx, t.cancel = context.WithCancelCause(s.ctx)
		v.cancel = t.cancel
		s.ended.Go(func() { s.read(t, version) })
	}
	out := Status{Generation: v.generation, Growing: v.growing}
	if s.o.Note != nil {
		out.Note, out.Again = s.o.Note()
	}
	if v.reading {
		out.Progress = v.progress()
	} else if v.err != nil {
		out.Error = v.err.Error()
	}
	if v.data != nil && v.generation != has {
		head := v.data.Head
		head.Live, head.Title = true, s.o.Title
		out.Head = &head
	}
	return out
}

func (v *view) progress() string {
	if v.passes == 0 {
		return "waiting for another reading"
	}
	return fmt.Sprintf("pass %d, %.0f %%", v.passes, 100*v.share)
}

// find returns a view. It forgets the one of its kind that nobody asked for for the longest time if
// there are too many.
func (s *Server) find(key viewKey) *view {
	if v := s.views[key]; v != nil {
		return v
	}
	most := mostPages
	if key.what != "" {
		most = mostFindings
	}
	count := 0
	var oldest *view
	for _, v := range s.views {
		if v.viewKey == (viewKey{}) || (v.what == "") != (key.what == "") {
			continue
		}
		if count++; oldest == nil || v.asked.Before(oldest.asked) {
			oldest = v
		}
	}
	if count >= most {
		delete(s.views, oldest.viewKey)
		if oldest.reading {
			oldest.cancel(errAbandoned)
		}
	}
	v := &view{viewKey: key}
	s.views[key] = v
	return v
}

// piece returns a piece of a generation, nil if it is not there any more.
func (s *Server) piece(key viewKey, generation int64, name string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.views[key]
	if v == nil || v.data == nil || v.generation != generation {
		return nil
	}
	for _, p := range v.data.Pieces {
		if p.Name == name {
			return p.Bytes
		}
	}
	return nil
}
