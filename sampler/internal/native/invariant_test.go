//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// The call paths have an invariant. invRoot calls invA or invX. invA calls only invB, invB only invC,
// invC only invA or leaf. invX calls only invY, invY only invZ, invZ only invX or leaf. The frames of both paths have the same sizes, so that
// they can be at the same addresses, and stacks grow and shrink all the time. So a walk breaks the pattern if it reads parts of two
// stacks, or of the old and the new copy of a stack.

//go:noinline
func invRoot(w *invWorker, n int) int {
	if n&1 == 0 {
		return invA(w, n) + 1
	}
	return invX(w, n) + 1
}

//go:noinline
func invA(w *invWorker, n int) int {
	var pad [17]int
	pad[n%17] = n
	return invB(w, n-1) + pad[(n+1)%17]
}

//go:noinline
func invB(w *invWorker, n int) int { return invC(w, n-1) + 1 }

//go:noinline
func invC(w *invWorker, n int) int {
	if n <= 0 {
		return w.leaf(n)
	}
	var pad [400]byte
	pad[n%400] = byte(n)
	return invA(w, n-1) + int(pad[(n+1)%400])
}

//go:noinline
func invX(w *invWorker, n int) int {
	var pad [17]int
	pad[n%17] = n
	return invY(w, n-1) + pad[(n+1)%17]
}

//go:noinline
func invY(w *invWorker, n int) int { return invZ(w, n-1) + 1 }

//go:noinline
func invZ(w *invWorker, n int) int {
	if n <= 0 {
		return w.leaf(n)
	}
	var pad [400]byte
	pad[n%400] = byte(n)
	return invX(w, n-1) + int(pad[(n+1)%400])
}

type invWorker struct {
	random *rand.Rand
	c      chan int
	sink   []byte
	word   string
}

// leaf does one of several things that goroutines do.
//
//go:noinline
func (w *invWorker) leaf(n int) int {
	switch w.random.IntN(7) {
	case 0:
		w.sink = make([]byte, 100+w.random.IntN(2000))
	case 1:
		runtime.Gosched()
	case 2:
		select {
		case w.c <- n:
		case <-w.c:
		case <-time.After(time.Duration(w.random.IntN(100)) * time.Microsecond):
		}
	case 3:
		copy(w.sink, w.sink[len(w.sink)/2:])
		w.word = strings.ToUpper(string(w.sink[:min(40, len(w.sink))]))
	case 4:
		for range w.random.IntN(20000) {
			n = n*7 + 1
		}
	case 5:
		os.Getppid()
	case 6:
		time.Sleep(time.Duration(w.random.IntN(50)) * time.Microsecond)
	}
	return n
}

// invCallers has which functions call which.
var invCallers = map[string]string{
	"invA": "invC invRoot", "invB": "invA", "invC": "invB", "invX": "invZ invRoot", "invY": "invX", "invZ": "invY",
	"(*invWorker).leaf": "invC invZ", "invRoot": "runInvariant.func1",
}

// checkInvariant returns an error if a stack breaks the invariant. The names are innermost first.
func checkInvariant(stack []string) error {
	for i, full := range stack {
		name := strings.TrimPrefix(full, here)
		callers, known := invCallers[name]
		switch {
		case !known:
			continue
		case i+1 == len(stack) && i < 200:
			return fmt.Errorf("%s has no caller", name)
		case i+1 == len(stack):
			return nil // deeper than what is kept
		}
		if next := strings.TrimPrefix(stack[i+1], here); !slices.Contains(strings.Fields(callers), next) {
			return fmt.Errorf("%s called by %s", name, next)
		}
		if name != "invRoot" {
			continue
		}
		if i+3 != len(stack) && i < 200 { // below it is the function of WaitGroup.Go
			return fmt.Errorf("invRoot is at %d of %d", i, len(stack))
		}
		if called, ours := strings.CutPrefix(stack[max(0, i-1)], here); i > 0 && ours && called != "invA" && called != "invX" {
			return fmt.Errorf("invRoot calls %s", called)
		}
	}
	return nil
}

func init() { children["invariant"] = runInvariant }

func runInvariant() {
	var stop atomic.Bool
	var workers sync.WaitGroup
	c := make(chan int)
	for i := range 24 {
		workers.Go(func() {
			w := &invWorker{random: rand.New(rand.NewPCG(uint64(i), 1)), c: c}
			for !stop.Load() {
				invRoot(w, w.random.IntN(3<<w.random.IntN(8)))
			}
		})
	}
	broken := 0
	var checked, running, deep atomic.Int64
	results := map[*tachyon.Frame]error{}
	r := newRecorder()
	r.keep = func(s *taken) bool {
		checked.Add(1)
		if s.status&tachyon.OnCPU != 0 {
			running.Add(1)
		}
		if len(s.stack) > 100 {
			deep.Add(1)
		}
		err, ok := results[&s.stack[0]]
		if !ok {
			stack := names(s.stack)
			if s.goroutine >= tachyon.FirstPseudo {
				stack = stack[:len(stack)-1] // the row
			}
			err = checkInvariant(stack)
			results[&s.stack[0]] = err
		}
		if err != nil {
			if broken < 5 {
				fmt.Printf("broken, status %d: %v\n  %s\n", s.status, err, strings.Join(names(s.stack[:min(len(s.stack), 12)]), "\n  "))
			}
			broken++
		}
		return false
	}
	n := New()
	if err := n.Start(source.Config{Rate: 10000, Budget: 30, WaitFrames: true, Start: time.Now()}, r); err != nil {
		fmt.Println("Start:", err)
		return
	}
	time.Sleep(testenv.Times(0, 5*time.Minute))
	enough := func() bool { return checked.Load() >= 5000 && running.Load() >= 250 && deep.Load() >= 250 }
	for range 5 { // it takes long under an emulator
		testenv.Await(enough)
	}
	n.Stop()
	stop.Store(true)
	workers.Wait()
	fmt.Printf("%d samples, %d running, %d deep, %d broken; %+v\n", checked.Load(), running.Load(), deep.Load(), broken, n.Progress())
	if enough() && broken == 0 {
		fmt.Println("ok")
	}
}

// TestInvariant samples a program at 10 kHz that makes wrong walks as likely as possible.
func TestInvariant(t *testing.T) {
	t.Parallel()
	out, err := child(t, "invariant", "GOGC=5", "GODEBUG=gcshrinkstackoff=0,adaptivestackstart=1")
	t.Log(out)
	testenv.FailIf(t, err != nil || !strings.HasSuffix(out, "ok"), "%v", err)
}
