package portable

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// look takes one snapshot of all goroutines.
func look(t *testing.T, s *snapshot, r *recorder) (dropped int64) {
	t.Helper()
	buf := make([]byte, 4<<20)
	n := runtime.Stack(buf, true)
	if n == len(buf) {
		t.Fatal("the buffer is too small for the text")
	}
	r.samples = nil
	l := s.read(buf[:n], true)
	s.emit(time.Second, runtime.GOMAXPROCS(0), func(int) int { return 0 })
	return l.dropped
}

// self returns the calling goroutine's id.
func self() (id uint64) {
	var buf [64]byte
	fmt.Sscanf(string(buf[:runtime.Stack(buf[:], false)]), "goroutine %d ", &id)
	return id
}

// witness is a goroutine's own description of itself before it waits.
type witness struct {
	id     uint64
	parent uint64
	chain  []runtime.Frame // innermost first, from the function that waits
	reason string
}

// waitKind is a way to wait. The function block waits until release is called.
type waitKind struct {
	reason  string
	leaf    string // innermost frame below the wait frame; "": the function itself
	prepare func() (block, release func())
}

func waitKinds(t *testing.T) []waitKind {
	return []waitKind{
		{"chan receive", "", func() (func(), func()) {
			c := make(chan int)
			return func() { <-c }, func() { close(c) }
		}},
		{"chan send", "", func() (func(), func()) {
			c := make(chan int)
			return func() { c <- 1 }, func() { <-c }
		}},
		{"select", "", func() (func(), func()) {
			c, d := make(chan int), make(chan int)
			return func() {
				select {
				case <-c:
				case d <- 1:
				}
			}, func() { close(c) }
		}},
		{"sync.Mutex.Lock", "", func() (func(), func()) {
			m := new(sync.Mutex)
			m.Lock()
			return func() { m.Lock() }, m.Unlock
		}},
		{"sync.RWMutex.Lock", "", func() (func(), func()) {
			m := new(sync.RWMutex)
			m.RLock()
			return func() { m.Lock() }, m.RUnlock
		}},
		{"sync.RWMutex.RLock", "", func() (func(), func()) {
			m := new(sync.RWMutex)
			m.Lock()
			return func() { m.RLock() }, m.Unlock
		}},
		{"sync.WaitGroup.Wait", "", func() (func(), func()) {
			g := new(sync.WaitGroup)
			g.Add(1)
			return g.Wait, g.Done
		}},
		{"sync.Cond.Wait", "sync.runtime_notifyListWait", func() (func(), func()) {
			c := sync.NewCond(new(sync.Mutex))
			return func() { c.L.Lock(); c.Wait(); c.L.Unlock() }, func() { c.L.Lock(); c.Signal(); c.L.Unlock() }
		}},
		{"sleep", "time.Sleep", func() (func(), func()) {
			var over atomic.Bool
			return func() {
				for !over.Load() {
					time.Sleep(100 * time.Millisecond)
				}
			}, func() { over.Store(true) }
		}},
		{"IO wait", "internal/poll.runtime_pollWait", func() (func(), func()) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			return func() { ln.Accept() }, func() { ln.Close() }
		}},
	}
}

// TestAgreement parks a few hundred goroutines in many ways. It compares their samples with their
// own descriptions of themselves.
func TestAgreement(t *testing.T) {
	const each = 25
	kinds := waitKinds(t)
	told := make(chan witness, len(kinds)*each)
	var done sync.WaitGroup
	var release []func()
	parent := self()
	for _, k := range kinds {
		for range each {
			block, rel := k.prepare()
			release = append(release, rel)
			done.Add(1)
			go func() {
				defer done.Done()
				var pcs [32]uintptr
				frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
				w := witness{id: self(), parent: parent, reason: k.reason}
				for {
					f, more := frames.Next()
					if f.Function != "runtime.goexit" {
						w.chain = append(w.chain, f)
					}
					if !more {
						break
					}
				}
				told <- w
				block()
			}()
		}
	}
	witnesses := make(map[uint64]witness)
	for range len(kinds) * each {
		w := <-told
		witnesses[w.id] = w
	}

	r := newRecorder()
	var s snapshot
	s.init(r, true)
	// The goroutines describe themselves just before they wait. Repeat the look until all wait.
	deadline := time.Now().Add(time.Minute)
	for {
		if n := look(t, &s, r); n != 0 {
			t.Fatalf("%d dropped", n)
		}
		waits := 0
		for i := range r.samples {
			p := &r.samples[i]
			if w, ok := witnesses[p.Goroutine]; ok && r.frames[p.Stack[0]].Func == "["+w.reason+"]" {
				waits++
			}
		}
		if waits == len(witnesses) || time.Now().After(deadline) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}

	leaf := make(map[string]string)
	for _, k := range kinds {
		leaf[k.reason] = k.leaf
	}
	found := 0
	for i := range r.samples {
		p := &r.samples[i]
		w, ok := witnesses[p.Goroutine]
		if !ok {
			continue
		}
		found++
		st := r.stack(p)
		fail := func(format string, args ...any) {
			t.Errorf("goroutine %d, which waits for %s: %s\n%v", p.Goroutine, w.reason, fmt.Sprintf(format, args...), st)
		}
		if want := (tachyon.Frame{Func: "[" + w.reason + "]"}); st[0] != want {
			fail("the wait frame is %+v", st[0])
			continue
		}
		if p.Status != 0 || p.System {
			fail("status %b", p.Status)
		}
		if want := leaf[w.reason]; want != "" && st[1].Func != want {
			fail("the leaf is %s, want %s", st[1].Func, want)
		}
		g := r.goroutines[p.Goroutine]
		if g.Parent != w.parent || !strings.HasSuffix(g.CreatedBy, ".TestAgreement") || !strings.Contains(g.CreatedAt, "agreement_test.go:") {
			fail("created by %+v", g)
		}
		// The callers of the waiting function are as runtime.Callers returned them. The waiting
		// function itself has gone on to another line.
		own := len(st) - len(w.chain)
		if own < 2 || st[own].Func != w.chain[0].Function || st[own].File != w.chain[0].File {
			fail("the chain is not %v", w.chain)
			continue
		}
		for j, f := range w.chain[1:] {
			if want := (tachyon.Frame{Func: f.Function, File: f.File, Line: int32(f.Line)}); st[own+1+j] != want {
				fail("frame %d is %+v, want %+v", own+1+j, st[own+1+j], want)
			}
		}
	}
	if found != len(witnesses) {
		t.Errorf("%d of %d goroutines seen", found, len(witnesses))
	}

	for _, f := range release {
		f()
	}
	done.Wait()
	// Out gets a call of Gone for every goroutine.
	waitFor(t, func() bool {
		look(t, &s, r)
		gone := 0
		for _, id := range r.gone {
			if _, ok := witnesses[id]; ok {
				gone++
			}
		}
		return gone == len(witnesses)
	})
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the condition is still false after a minute")
		}
	}
}

// TestStates checks the statuses of goroutines that do not wait.
func TestStates(t *testing.T) {
	pr, pw, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pr.Close()
	pr.Fd() // makes reads blocking system calls
	stop := make(chan bool)
	ids := make(chan uint64)
	var done sync.WaitGroup
	spawn := func(f func()) uint64 {
		done.Add(1)
		go func() {
			defer done.Done()
			ids <- self()
			f()
		}()
		return <-ids
	}
	var enough atomic.Bool
	spin := spawn(func() {
		for !enough.Load() {
		}
	})
	syscall := spawn(func() { pr.Read(make([]byte, 1)) })
	panics := spawn(func() {
		defer func() {
			func() { <-stop }()
			recover()
		}()
		panic("on purpose")
	})

	r := newRecorder()
	var s snapshot
	s.init(r, true)
	status := func(id uint64) (tachyon.Status, []tachyon.Frame) {
		for i := range r.samples {
			if r.samples[i].Goroutine == id {
				return r.samples[i].Status, r.stack(&r.samples[i])
			}
		}
		return 255, nil
	}
	waitFor(t, func() bool {
		look(t, &s, r)
		st, stack := status(syscall)
		return st == tachyon.Unknown && stack[0].Func == "[syscall]"
	})
	waitFor(t, func() bool {
		look(t, &s, r)
		st, stack := status(panics)
		return st == tachyon.HasException && stack[0].Func == "[chan receive]"
	})
	_, stack := status(panics)
	found := false
	for _, f := range stack {
		found = found || f.Func == "runtime.gopanic" && strings.HasSuffix(f.File, "/runtime/panic.go")
	}
	if !found {
		t.Errorf("no runtime.gopanic in %v", stack)
	}
	waitFor(t, func() bool {
		look(t, &s, r)
		st, _ := status(spin)
		return st == tachyon.HasGIL|tachyon.OnCPU
	})
	if st, _ := status(1); st&tachyon.MainThread == 0 {
		t.Errorf("goroutine 1 has status %b", st)
	}
	if st, _ := status(self()); st != 255 {
		t.Errorf("there is a sample of the calling goroutine")
	}
	enough.Store(true)
	close(stop)
	pw.Close()
	done.Wait()
}

// TestLabels checks pprof labels, if this Go version prints them.
func TestLabels(t *testing.T) {
	t.Setenv("GODEBUG", "tracebacklabels=1")
	prints := !strings.HasPrefix(runtime.Version(), "go1.25")
	id, next := make(chan uint64), make(chan bool)
	var done sync.WaitGroup
	done.Add(1)
	sets := []map[string]string{
		{"plain": "value"},
		{"a key": "quo\"te }]:\n\t", "sigma": "\u03a3", "z": ""},
	}
	go func() {
		defer done.Done()
		pprof.SetGoroutineLabels(context.Background())
		id <- self()
		<-next
		for _, set := range sets {
			var kv []string
			for k, v := range set {
				kv = append(kv, k, v)
			}
			pprof.Do(context.Background(), pprof.Labels(kv...), func(context.Context) {
				id <- 0
				<-next
			})
		}
		id <- 0
		<-next
	}()
	g := <-id
	r := newRecorder()
	var s snapshot
	s.init(r, true)
	look(t, &s, r)
	for range len(sets) + 1 {
		next <- true
		<-id
		for range 3 { // Out gets only changes
			look(t, &s, r)
		}
	}
	next <- true
	done.Wait()

	var want []map[string]string
	if prints {
		want = append(sets, nil)
	}
	got := r.labels[g]
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("labels are %q, want %q", got, want)
	}
}

// TestSourceEnds starts and stops the source. Then it starts one whose Out panics, which must end
// with an error.
func TestSourceEnds(t *testing.T) {
	defer goleak.VerifyNone(t)
	r := newRecorder()
	s := New()
	cfg := source.Config{Rate: 1000, Budget: 100, WaitFrames: true, Start: time.Now()}
	if err := s.Start(cfg, r); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return r.count() > 50 })
	s.Stop()
	st := s.Stats()
	if n := r.count(); n != len(r.samples) || st.TicksReached < 2 || st.Cost <= 0 || st.Dropped != 0 {
		t.Errorf("%+v after %d samples", st, n)
	}
	last := make(map[uint64]time.Duration)
	for _, p := range r.samples {
		if before, ok := last[p.Goroutine]; ok && p.Time <= before {
			t.Fatalf("goroutine %d at %v after %v", p.Goroutine, p.Time, before)
		}
		last[p.Goroutine] = p.Time
	}
	time.Sleep(5 * time.Millisecond)
	if again := s.Stats(); again != st {
		t.Errorf("Stats changes after Stop from %+v to %+v", st, again)
	}

	r = newRecorder()
	r.onSample = func() { panic("the sink is broken") }
	s = New()
	cfg.Start = time.Now()
	if err := s.Start(cfg, r); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.failed != nil
	})
	s.Stop()
	if !strings.Contains(r.failed.Error(), "the sink is broken") {
		t.Error(r.failed)
	}
}

// TestBuffer starts with a buffer that is too small. Goroutines that do not fit are counted as
// dropped, and the buffer grows for the next tick. It shrinks when it is not needed any more.
func TestBuffer(t *testing.T) {
	const n = 500
	waitFor(t, func() bool { return runtime.NumGoroutine() == 2 }) // the goroutines of other tests have ended
	stop, parked := make(chan bool), make(chan bool)
	for range n {
		go func() {
			parked <- true
			<-stop
		}()
		<-parked
	}
	r := newRecorder()
	s := New()
	s.cfg, s.out = source.Config{Start: time.Now()}, r
	s.limit = newLimit(time.Minute)
	s.snapshot.init(r, true)
	s.buf = make([]byte, 10_000)
	alive := runtime.NumGoroutine()
	s.tick(1, false)
	if got := len(r.samples); got < 10 || got+int(s.dropped.Load()) != alive-1 {
		t.Errorf("%d samples and %d dropped of %d goroutines", got, s.dropped.Load(), alive)
	}
	if want := alive * perGoroutine; len(s.buf) != want {
		t.Errorf("the buffer is %d bytes, want %d", len(s.buf), want)
	}
	r.samples = nil
	s.dropped.Store(0)
	s.tick(1, false)
	if len(r.samples) != alive-1 || s.dropped.Load() != 0 || len(r.gone) != 0 {
		t.Errorf("%d samples and %d dropped of %d goroutines", len(r.samples), s.dropped.Load(), alive)
	}
	close(stop)
	waitFor(t, func() bool { return runtime.NumGoroutine() == alive-n })
	for range shrinkAfter {
		s.resize(1000)
	}
	if want := alive * perGoroutine / 4; len(s.buf) != want {
		t.Errorf("the buffer is %d bytes, want %d", len(s.buf), want)
	}
	s.buf = make([]byte, maxBuffer/2+1)
	s.resize(len(s.buf))
	s.resize(len(s.buf))
	if len(s.buf) != maxBuffer {
		t.Errorf("the buffer grew to %d bytes", len(s.buf))
	}
}

// TestWholeSession runs a session whose budget allows only one look. The samples must cover the
// session from its start to its end.
func TestWholeSession(t *testing.T) {
	start := time.Now()
	r, s := newRecorder(), New()
	if err := s.Start(source.Config{Rate: 1000, Budget: 0.001, Start: start}, r); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return r.count() > 0 })
	time.Sleep(10 * time.Millisecond)
	ending := time.Since(start)
	s.Stop()
	var times []time.Duration // times of looks
	for _, sample := range r.samples {
		if !slices.Contains(times, sample.Time) {
			times = append(times, sample.Time)
		}
	}
	if len(times) != 2 || times[1] < ending || r.samples[0].Gap > r.samples[0].Time {
		t.Errorf("looks at %v in a session that Stop ended at %v; the first one stands for %v", times, ending, r.samples[0].Gap)
	}
}
