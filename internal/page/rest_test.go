package page

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestServerRest: with Rest, readings take a fifth of the time, however many parts are asked for, and those that nobody waits
// for are not read.
func TestServerRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var total atomic.Int64 // of the readings, in ns
		reading := func() time.Duration { return time.Duration(total.Load()) }
		s := NewServer(t.Context(), ServerOptions{Rest: true, Version: func() string { return "" }, Open: func(context.Context, Request) (*Opened, error) {
			const takes = 100 * time.Millisecond
			time.Sleep(takes)
			total.Add(int64(takes))
			return nil, errors.New("nothing to read")
		}})
		defer s.Close()
		begin := time.Now()
		for i := range int64(245) {
			s.status(viewKey{Span: Span{1 + i, 1000}}, 0)
			time.Sleep(40 * time.Millisecond)
		}
		if most := time.Since(begin)/(1+restFactor) + 100*time.Millisecond; reading() < most/2 || reading() > most {
			t.Errorf("in %v there were readings of %v, want %v at most", time.Since(begin), reading(), most)
		}
		before := reading()
		time.Sleep(time.Minute)
		if more := reading() - before; more > mostPages*100*time.Millisecond {
			t.Errorf("nobody asks any more, and there were readings of %v", more)
		}
	})
}

// TestServerUnwanted: a part that had to wait for its turn is not read if no page has asked for it since.
func TestServerUnwanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		s := NewServer(t.Context(), ServerOptions{Version: func() string { return "" }, Open: func(_ context.Context, r Request) (*Opened, error) {
			if r.Span.From == 2 {
				reads.Add(1)
			}
			time.Sleep(2 * unwanted)
			return nil, errors.New("nothing to read")
		}})
		defer s.Close()
		for i := range int64(2) {
			s.status(viewKey{Span: Span{1 + i, 1000}}, 0)
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		if reads.Load() > 0 {
			t.Error("the second part was read")
		}
	})
}
