package page

import (
	"context"
	"errors"
	"time"

	"github.com/gotach/profiler/internal/stream"
)

var errAbandoned = errors.New("no page asks for it")

// A turn is one reading of a Server.
type turn struct {
	*Server
	v      *view
	ctx    context.Context
	cancel context.CancelCauseFunc
	held   time.Time // since when it is this reading's turn; zero: it is not
}

// read reads what a view shows and keeps its data.
func (s *Server) read(t *turn, version string) {
	v := t.v
	defer t.cancel(nil)
	urgent := v.Span != (Span{})
	if urgent {
		s.hurry(1)
		defer s.hurry(-1)
	}
	defer t.leave()
	began := time.Now()
	var d *Data
	var opened *Opened
	err := t.enter()
	if err == nil {
		began = time.Now()
		d, opened, err = t.build()
	}
	took := time.Since(began)
	s.mu.Lock()
	defer s.mu.Unlock()
	v.reading = false
	v.rest = time.Now().Add(max(leastRest, restFactor*took))
	if errors.Is(err, errAbandoned) {
		return // it starts again when a page asks
	}
	v.version, v.err, v.sketch = version, err, false
	if err == nil {
		s.newest++
		v.data, v.generation, v.growing = d, s.newest, opened.Growing
		if opened.Sketch != "" {
			v.sketch, v.rest = true, time.Time{} // all is read next
		}
	}
}

func (s *Server) hurry(n int) {
	s.mu.Lock()
	s.urgent += n
	s.mu.Unlock()
}

// enter waits for this reading's turn, and until the rest after the one before is over. An error
// ends the reading.
func (t *turn) enter() error {
	check := time.NewTicker(unwanted)
	defer check.Stop()
	for t.held.IsZero() {
		select {
		case t.turn <- struct{}{}:
			t.held = time.Now()
		case <-check.C:
			t.abandon(unwanted)
		case <-t.ctx.Done():
			return context.Cause(t.ctx)
		}
	}
	t.mu.Lock()
	rest := time.NewTimer(time.Until(t.rest))
	t.mu.Unlock()
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-t.ctx.Done():
	}
	t.held = time.Now()
	t.abandon(unwanted)
	return context.Cause(t.ctx)
}

// abandon ends the reading if no page asked for it within a time. The page of the whole is always
// read.
func (t *turn) abandon(within time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.v.viewKey != (viewKey{}) && time.Since(t.v.asked) > within {
		t.cancel(errAbandoned)
	}
}

func (t *turn) leave() {
	if t.held.IsZero() {
		return
	}
	if t.o.Rest {
		t.mu.Lock()
		if rest := time.Now().Add(restFactor * time.Since(t.held)); rest.After(t.rest) { // not if it was given up in the rest
			t.rest = rest
		}
		t.mu.Unlock()
	}
	t.held = time.Time{}
	<-t.turn
}

// progress notes how far the reading is. A reading of the whole lets those of parts go first.
func (t *turn) progress(pass int, done, total uint64) {
	t.mu.Lock()
	v := t.v
	v.passes, v.share = pass, min(1, float64(done)/float64(max(1, total)))
	wait := v.Span == (Span{}) && t.urgent > 0
	t.mu.Unlock()
	t.abandon(abandoned)
	if wait {
		t.leave()
		_ = t.enter() // an error ends the reading at its next step
	}
}

// build opens the profiles and makes the data.
func (t *turn) build() (d *Data, opened *Opened, err error) {
	t.mu.Lock()
	t.v.passes = 1
	first := t.v.data == nil
	t.mu.Unlock()
	opened, err = t.o.Open(t.ctx, Request{Span: t.v.Span, Sketch: first && t.v.what == ""})
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	pass := 0
	for i := range opened.Inputs {
		open := opened.Inputs[i].Open
		opened.Inputs[i].Open = func(o stream.Options) (*stream.Source, error) {
			o.Context = t.ctx
			last := uint64(0)
			o.Progress = func(done, total uint64) {
				if done < last { // the analysis reads the samples again
					pass++
				}
				last = done
				t.progress(pass, done, total)
			}
			pass++
			return open(o)
		}
	}
	if t.v.what != "" {
		d, err = onlyFindings(opened.Inputs, t.v.what, t.o.Options)
		return d, opened, err
	}
	o := t.o.Options
	o.noFindings, o.noLatency = true, opened.Large
	if opened.Large && o.Events == 0 {
		o.Events = someEvents
	}
	d, err = Build(opened.Inputs, o)
	if err == nil {
		d.Head.Sketch = opened.Sketch
	}
	return d, opened, err
}
