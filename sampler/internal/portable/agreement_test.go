package portable

import (
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

func TestMain(m *testing.M) { testenv.MainWithoutLeaks(m) }

// self returns the calling goroutine's id.
func self() (id uint64) {
	var buf [64]byte
	fmt.Sscanf(string(buf[:runtime.Stack(buf[:], false)]), "goroutine %d ", &id)
	return id
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	held := false
	testenv.Await(func() bool { held = ok(); return held })
	if !held {
		t.Fatal("the condition is still false after a minute")
	}
}

// waits has ways to wait until stop is closed, with the innermost frame below the wait frame.
var waits = map[string]struct {
	leaf string
	wait func(stop chan bool)
}{
	"sync.Mutex.Lock": {"internal/sync.runtime_SemacquireMutex", func(stop chan bool) {
		var m sync.Mutex
		m.Lock()
		go func() { <-stop; m.Unlock() }()
		m.Lock()
	}},
	"sync.Cond.Wait": {"sync.runtime_notifyListWait", func(stop chan bool) {
		c := sync.NewCond(new(sync.Mutex))
		c.L.Lock()
		go func() { <-stop; c.L.Lock(); c.Signal(); c.L.Unlock() }()
		c.Wait()
	}},
	"IO wait": {"internal/poll.runtime_pollWait", func(stop chan bool) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		go func() { <-stop; l.Close() }()
		l.Accept()
	}},
}

// TestAgreement has goroutines that wait. It compares their samples with their own descriptions of themselves.
func TestAgreement(t *testing.T) {
	r, buf, stop := newRecorder(), make([]byte, 4<<20), make(chan bool)
	var s snapshot
	s.init(r, true)
	look := func() {
		r.samples = nil
		if l := s.read(buf[:runtime.Stack(buf, true)], true); l != (lost{}) {
			t.Fatalf("%+v", l)
		}
		s.emit(time.Second, 1, func(int) int { return 0 })
	}
	var done sync.WaitGroup
	ids := map[uint64]bool{}
	for reason, kind := range waits {
		chain, told := []runtime.Frame(nil), make(chan uint64) // the chain is that of the witness, innermost first
		done.Go(func() {
			var pcs [32]uintptr
			frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
			for f, more := frames.Next(); more; f, more = frames.Next() {
				chain = append(chain, f) // without runtime.goexit, the last one
			}
			told <- self()
			kind.wait(stop)
		})
		id := <-told
		ids[id] = true
		var sample *source.Sample
		var st []tachyon.Frame
		waitFor(t, func() bool {
			look()
			sample = &r.samples[slices.IndexFunc(r.samples, func(s source.Sample) bool { return s.Goroutine == id })]
			st = r.stack(sample)
			return st[0] == (tachyon.Frame{Func: "[" + reason + "]"})
		})
		if sample.Status != 0 || st[1].Func != kind.leaf {
			t.Errorf("%s: status %b, stack %v", reason, sample.Status, st)
		}
		if g := r.goroutines[id]; g.Parent != self() || !strings.HasSuffix(g.CreatedBy, ".(*WaitGroup).Go") || !strings.Contains(g.CreatedAt, "/waitgroup.go:") {
			t.Errorf("%s: created by %+v", reason, g)
		}
		// The callers of the witness are as runtime.Callers returned them. It has itself gone on to another line.
		own := len(st) - len(chain)
		if own < 2 || st[own].Func != chain[0].Function || st[own].File != chain[0].File {
			t.Fatalf("%s: %v does not end in %v", reason, st, chain)
		}
		for j, f := range chain[1:] {
			if want := (tachyon.Frame{Func: f.Function, File: f.File, Line: int32(f.Line)}); st[own+1+j] != want {
				t.Errorf("%s: frame %d is %+v, want %+v", reason, own+1+j, st[own+1+j], want)
			}
		}
	}
	close(stop)
	done.Wait()
	waitFor(t, func() bool { // Out hears of the end of each
		look()
		for _, id := range r.gone {
			delete(ids, id)
		}
		return len(ids) == 0
	})
}
