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

// ServerOptions say what a Server shows.
type ServerOptions struct {
	Options
	Title string
	// Inputs opens the profiles, of a part of their time. It is called for each reading of everything. Streams end
	// when the context does. growing says that the profiles are still being written.
	Inputs func(context.Context, Span) (list []Input, growing bool, done func() error, err error)
	// Version returns what changes when the profiles do.
	Version func() string
}

const (
	// mostViews is the number of parts of the time that are kept, apart from the whole. Each takes at most
	// Options.MaxSize.
	mostViews = 3
	// abandoned is the time after which a part is not read further if no page asks for it. Pages ask each second.
	abandoned = 15 * time.Second
	// restFactor says how long a growing profile is left alone after a reading: this many times what that took.
	restFactor = 4
	leastRest  = 2 * time.Second
)

// A Server reads profiles and keeps what pages of them need. Its memory does not depend on the size of the profiles: one
// reading happens at a time.
type Server struct {
	o      ServerOptions
	ctx    context.Context
	stop   context.CancelCauseFunc
	turn   chan struct{} // has an element while something is read
	ended  sync.WaitGroup
	mu     sync.Mutex
	views  map[Span]*view
	newest int64 // generation
}

// A view is a part of the time. All fields belong to Server.mu.
type view struct {
	span       Span
	data       *Data // nil: not yet
	generation int64
	version    string // of the profiles when data was read
	growing    bool
	err        error // of the latest reading
	reading    bool
	passes     int
	share      float64 // of the present pass
	asked      time.Time
	rest       time.Time // before which nothing is read again
}

// NewServer returns a server, which begins to read at once. Close ends it.
func NewServer(ctx context.Context, o ServerOptions) *Server {
	s := &Server{o: o, turn: make(chan struct{}, 1), views: map[Span]*view{}}
	s.ctx, s.stop = context.WithCancelCause(ctx)
	s.status(Span{}, 0)
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
	Head       *Head  `json:"head,omitempty"`  // if the script has an older generation
}

// status returns the status of a part. It starts a reading if there are no data or newer ones.
func (s *Server) status(span Span, has int64) Status {
	version := s.o.Version()
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.find(span)
	now := time.Now()
	v.asked = now
	if !v.reading && s.ctx.Err() == nil && (v.version != version || v.data == nil && v.err == nil) && !now.Before(v.rest) {
		v.reading, v.passes, v.share = true, 0, 0
		s.ended.Go(func() { s.read(v, version) })
	}
	out := Status{Generation: v.generation, Growing: v.growing}
	if v.reading {
		out.Progress = v.progress()
	} else if v.err != nil {
		out.Error = v.err.Error()
	}
	if v.data != nil && v.generation != has {
		head := v.data.Head
		head.Live = true
		out.Head = &head
	}
	return out
}

func (v *view) progress() string {
	if v.passes == 0 {
		return "waiting for another part"
	}
	return fmt.Sprintf("pass %d, %.0f %%", v.passes, 100*v.share)
}

// find returns the view of a part. It forgets the one that nobody asked for for the longest time if there are too many.
func (s *Server) find(span Span) *view {
	if v := s.views[span]; v != nil {
		return v
	}
	for len(s.views) > mostViews {
		var oldest *view
		for _, v := range s.views {
			if v.span != (Span{}) && (oldest == nil || v.asked.Before(oldest.asked)) {
				oldest = v
			}
		}
		delete(s.views, oldest.span)
	}
	v := &view{span: span}
	s.views[span] = v
	return v
}

// piece returns a piece of a generation, nil if it is not there any more.
func (s *Server) piece(span Span, generation int64, name string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.views[span]
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

var errAbandoned = errors.New("no page asks for it")

// read reads a part and keeps its data.
func (s *Server) read(v *view, version string) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return
	}
	began := time.Now()
	d, growing, err := s.build(ctx, v, cancel)
	took := time.Since(began)
	s.mu.Lock()
	defer s.mu.Unlock()
	v.reading = false
	v.rest = time.Now().Add(max(leastRest, restFactor*took))
	if errors.Is(err, errAbandoned) {
		return // it starts again when a page asks
	}
	v.version, v.growing, v.err = version, growing, err
	if err == nil {
		s.newest++
		v.data, v.generation = d, s.newest
	}
}

func (s *Server) build(ctx context.Context, v *view, cancel context.CancelCauseFunc) (d *Data, growing bool, err error) {
	s.mu.Lock()
	v.passes = 1
	s.mu.Unlock()
	list, growing, done, err := s.o.Inputs(ctx, v.span)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, done()) }()
	passes := 0
	for i := range list {
		open := list[i].Open
		list[i].Open = func(o stream.Options) (*stream.Source, error) {
			passes++
			pass := passes
			o.Context = ctx
			o.Progress = func(done, total uint64) {
				s.mu.Lock()
				defer s.mu.Unlock()
				v.passes, v.share = pass, min(1, float64(done)/float64(max(1, total)))
				if v.span != (Span{}) && time.Since(v.asked) > abandoned {
					cancel(errAbandoned)
				}
			}
			return open(o)
		}
	}
	d, err = Build(list, s.o.Options)
	return d, growing, err
}
