package syntax

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// Selects with "offers" in a comment wait to send to the channel that follows.
const selects = `package main

func (p *parser) lines(events chan<- event, done <-chan struct{}) {
	for {
		select { // offers events
		case events <- p.next():
		case <-done:
			return
		}
		select { // offers p.slots
		case p.slots <- struct{}{}:
		case <-p.ctx.Done():
		case <-time.After(time.Second):
		}
		select { // may have work
		case e := <-p.in:
			p.use(e)
		case p.out <- p.first():
		}
		select { // only receives
		case <-p.wake:
		case <-done:
		}
		go func() {
			select { // offers events
			case <-done:
			case events <- p.last():
			}
		}()
	}
}

func pump(wake <-chan struct{}, to chan<- event) {
	var out chan<- event
	second := to
	for {
		if len(queue) > 0 {
			out = to
		}
		select { // may have nothing
		case out <- queue[0]:
		case <-wake:
		}
		select { // may have nothing
		case second <- queue[0]:
			second = nil
		case <-wake:
		}
	}
}
`

func TestOffers(t *testing.T) {
	s := NewSources(func(string) *source.File { return &source.File{Text: []byte(selects)} })
	for i, line := range strings.Split(selects, "\n") {
		_, comment, ok := strings.Cut(line, "select { // ")
		if !ok {
			continue
		}
		want, _ := strings.CutPrefix(comment, "offers ")
		if want == comment {
			want = ""
		}
		function := "main.pump"
		if i < strings.Count(selects[:strings.Index(selects, "func pump")], "\n") {
			function = "main.(*parser).lines"
		}
		if strings.HasPrefix(line, "\t\t\t") {
			function += ".func1"
		}
		testenv.Same(t, fmt.Sprint("line ", i+1), Text(s.Offers(&tachyon.Frame{File: "/app/main.go", Func: function, Line: int32(i + 1)})), want)
	}
	if s.Offers(&tachyon.Frame{File: "/app/main.go", Func: "main.pump", Line: 2}) != nil || NewSources(nil).Offers(&tachyon.Frame{File: "/app/main.go", Line: 5}) != nil {
		t.Error("there is a select where there is none")
	}
}

const times = `package main

func (s *sender) send(ctx context.Context, done chan error) error {
	late, tick := time.NewTimer(pause), time.NewTicker(pause)
	select { // delay
	case <-time.After(pause):
	case <-ctx.Done():
		return ctx.Err()
	}
	select { // delay
	case <-late.C:
	case <-ctx.Done():
	}
	select { // tick
	case now := <-tick.C:
		s.flush(now)
	case <-s.quit:
		return nil
	}
	<-s.ticker.C // one tick
	go func() {
		<-tick.C // tick
	}()
	select { // delay
	case <-time.After(pause):
	case <-tick.C:
	}
	select { // delay
	case <-late.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	for range time.Tick(pause) { // tick
		s.flush()
	}
	select { // an answer, or not for long
	case err := <-done:
		return err
	case <-time.After(pause):
	}
	select { // the same
	case <-done:
		return nil
	case <-time.After(pause):
		return errLate
	}
	select { // work
	case x := <-s.queue:
		s.flush(x)
	case <-tick.C:
	}
	select { // work
	case <-s.wake:
	case <-tick.C:
	}
	select { // goes on
	case <-time.After(pause):
	default:
	}
	<-done // an answer
	return nil
}
`

func TestForTime(t *testing.T) {
	s := NewSources(func(string) *source.File { return &source.File{Text: []byte(times)} })
	looked := 0
	for i, line := range strings.Split(times, "\n") {
		_, want, ok := strings.Cut(line, " // ")
		if !ok {
			continue
		}
		looked++
		function := "main.(*sender).send"
		if strings.HasPrefix(line, "\t\t") {
			function += ".func1"
		}
		got := s.ForTime(&tachyon.Frame{File: "/app/main.go", Func: function, Line: int32(i + 1)})
		testenv.Same(t, fmt.Sprint("line ", i+1), got, map[string]Time{"delay": Delay, "tick": Tick, "one tick": OneTick}[want])
	}
	testenv.Same(t, "line 4", s.ForTime(&tachyon.Frame{File: "/app/main.go", Func: "main.(*sender).send", Line: 4}), NoTime)
	testenv.Same(t, "lines", looked, 14)
	testenv.Same(t, "a wait without text", NewSources(nil).ForTime(&tachyon.Frame{File: "/app/main.go", Line: 6}), NoTime)
}
