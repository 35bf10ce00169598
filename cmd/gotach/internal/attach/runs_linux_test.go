//go:build amd64 || arm64

package attach

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

type waiter chan bool

//go:noinline
func (w waiter) wait(int) { <-w }

func (w waiter) short(int) { w.wait(0) }

//go:noinline
func begin(w interface{ wait(int) }) { go w.wait(1) }

// A goroutine that has not run yet begins with the function that its go statement calls, not with the wrapper that the compiler made.
func TestBegins(t *testing.T) {
	notEmulated(t)
	w := make(waiter)
	defer close(w)
	go w.wait(1)
	go w.short(1)
	go func() { <-w }()
	begin(w)
	p := testenv.Must(Open(os.Getpid()))
	got := map[string]bool{}
	testenv.Await(func() bool {
		_ = testenv.Must(p.refresh())
		var all []int
		for i := range p.roster.gs {
			all = append(all, i)
		}
		testenv.OK(t, p.heads(all, func(_ int, b []byte) {
			h := parse(b, p.program.layout)
			if by := p.creator(h.gopc); goruntime.Alive(h.status) && (strings.HasSuffix(by.Func, ".TestBegins") || strings.HasSuffix(by.Func, "attach.begin")) {
				got[strings.TrimPrefix(p.begins(&h).Func, "github.com/gotach/profiler/cmd/gotach/internal/attach.")] = true
			}
		}))
		return len(got) >= 4
	})
	if want := map[string]bool{"waiter.wait": true, "waiter.short": true, "TestBegins.func1": true, "begin": true}; !reflect.DeepEqual(got, want) {
		t.Errorf("goroutines begin with %v", got)
	}
}

// A tick that finds a goroutine running ends its wait. What perf has not seen is no time on a CPU, and time without a core only if the
// goroutine has not stopped meanwhile.
func TestRuns(t *testing.T) {
	const ms, rests = time.Millisecond, 1 << 31
	for _, tt := range []struct {
		name string
		look func(tick func(finds uint32, cpu time.Duration))
		want string
	}{
		{"for a short time", func(tick func(uint32, time.Duration)) {
			tick(goruntime.GWaiting, 0)
			tick(goruntime.GRunning, 0)
			tick(goruntime.GWaiting, ms/4)
		}, "wait 1ms, on 250µs, wait 1.75ms"},
		{"after a rest", func(tick func(uint32, time.Duration)) {
			tick(goruntime.GWaiting, 0)
			tick(rests, 0)
			tick(rests, 0)
			tick(goruntime.GRunning, 0)
			tick(goruntime.GRunnable, ms/4)
		}, "wait 1ms, wait 2ms, on 250µs, wait 1.75ms"},
		{"always", func(tick func(uint32, time.Duration)) {
			tick(goruntime.GRunning, 0)
			tick(0, ms)
			tick(0, ms)
			tick(0, ms)
		}, "on 1ms, on 1ms, on 1ms"},
		{"without a core", func(tick func(uint32, time.Duration)) {
			tick(goruntime.GWaiting, 0)
			tick(goruntime.GRunning, 0)
			for range 4 {
				tick(0, 0)
			}
			tick(goruntime.GWaiting, 0)
		}, "wait 1ms, no core 1ms, no core 1ms, no core 1ms, wait 3ms"},
		{"and stops between", func(tick func(uint32, time.Duration)) {
			tick(goruntime.GWaiting, 0)
			for range 5 {
				tick(goruntime.GRunning, 0)
			}
		}, "wait 1ms, wait 1ms, wait 1ms, wait 1ms"},
		{"and stops between, with a core", func(tick func(uint32, time.Duration)) {
			tick(goruntime.GWaiting, 0)
			tick(goruntime.GRunning, 0)
			for range 3 {
				tick(goruntime.GRunning, ms/4)
			}
		}, "wait 1ms, on 250µs, wait 500µs, on 250µs, wait 750µs, on 250µs"},
		{"and rests", func(tick func(uint32, time.Duration)) { // what it ran was before
			tick(goruntime.GWaiting, 0)
			tick(0, ms/4)
			tick(goruntime.GWaiting, 0)
		}, "wait 1ms, wait 1ms, on 250µs, wait 750µs"},
		{"and ends", func(tick func(uint32, time.Duration)) {
			tick(goruntime.GRunning, 0)
			tick(goruntime.GDead, 0)
		}, "no core 1ms"},
	} {
		s := newScripted()
		r, _ := scriptedRecorder(t, s, Options{Interval: ms})
		r.base, r.perf, r.list, r.dueAt = 0, &perf{period: ms}, []*known{{}}, make([]time.Duration, 1)
		_ = testenv.Must(s.refresh())
		l := s.program.layout
		seq := byte(0)
		tt.look(func(finds uint32, cpu time.Duration) {
			if r.before, r.now = r.now, r.now+ms; finds == rests {
				return
			}
			if finds != 0 {
				seq++
				s.part(theG + uint64(l.GStatus))[0], s.part(theG + uint64(l.GTrackingSeq))[0] = byte(finds), seq
			}
			r.owe(r.list[0], debt{[]uint32{9}, tachyon.HasGIL, cpu})
			r.walks = r.walks[:0]
			testenv.OK(t, r.heads([]int{0}, r.look))
			testenv.OK(t, r.readAll())
		})
		var got []string
		at := time.Duration(0)
		for _, x := range r.batch {
			what := "wait"
			switch {
			case x.Status&tachyon.OnCPU != 0:
				what = "on"
			case x.Status&tachyon.HasGIL != 0:
				what = "no core"
			}
			now := time.Duration(x.Time) * time.Microsecond
			got = append(got, fmt.Sprint(what, " ", now-at))
			at = now
		}
		testenv.Same(t, tt.name, strings.Join(got, ", "), tt.want)
		testenv.OK(t, r.w.Discard(func(*writer.Writer) error { return nil }))
	}
}
