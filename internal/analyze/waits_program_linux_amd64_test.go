//go:build !race && go1.26

package analyze

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/reader"
)

// A program that waits for three goroutines, of which one takes longer because of a lock. It measures how
// long that one was the only one left.
func TestWaitsOfProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "waits.tach")
	session := openNative(t, path)
	s := &store{}
	stop := make(chan struct{})
	var holder, target sync.WaitGroup
	p := &planted{log: newLockLog()}
	holder.Go(func() {
		for id := ownID(); ; {
			select {
			case <-stop:
				return
			default:
				s.refresh(p, id)
			}
		}
	})
	var waited time.Duration
	target.Go(func() {
		for begin := time.Now(); time.Since(begin) < time.Second; {
			waited += fanOut(s)
		}
	})
	target.Wait()
	close(stop)
	holder.Wait()
	if err := session.Stop(); err != nil {
		t.Fatal(err)
	}
	f, err := reader.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := FindWaits(samplesOf(t, stream.Options{Objects: true}, f), WaitOptions{Func: regexp.MustCompile(`\.fanOut$`)})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(w.Chains, func(n WaitNode) bool { return n.State == "sync.WaitGroup.Wait" })
	if i < 0 {
		t.Fatalf("no wait for a group: %+v", w)
	}
	n := w.Chains[i]
	var known, behind, held time.Duration // behind: the last child waited for the lock
	for _, child := range n.Next {
		known += child.Time
		if child.State != "sync.Mutex.Lock" {
			continue
		}
		behind += child.Time
		for _, h := range child.Next {
			if h.State == "sleep" && strings.HasSuffix(h.Func, ".(*store).load") {
				held += h.Time
			}
		}
	}
	t.Logf("waited %v, by its own clock %v; known %v, behind the lock %v, held by the other goroutine %v", n.Time, waited, known, behind, held)
	if 2*n.Time < waited || 2*waited < n.Time {
		t.Errorf("%v of waits for the group, the program says %v", n.Time, waited)
	}
	if 10*known < 7*n.Time {
		t.Errorf("of %v it is known for %v what the group waited for", n.Time, known)
	}
	if 5*behind < n.Time || 10*held < 8*behind {
		t.Errorf("of %v the last goroutine waited %v for the lock, %v of it for the goroutine that loads", n.Time, behind, held)
	}
}

// fanOut waits for three goroutines and returns for how long.
func fanOut(s *store) time.Duration {
	var all sync.WaitGroup
	all.Go(func() { time.Sleep(time.Millisecond) })
	all.Go(func() { spin(time.Millisecond) })
	all.Go(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		time.Sleep(time.Millisecond)
	})
	begin := time.Now()
	all.Wait()
	return time.Since(begin)
}
