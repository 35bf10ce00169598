//go:build !race && go1.26

package analyze

import (
	"cmp"
	"path/filepath"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/reader"
)

// slots are a channel with a place for each goroutine that may do something at a time.
type slots struct{ free chan struct{} }

func (s *slots) acquire() { s.free <- struct{}{} }
func (s *slots) release() { <-s.free }

// held notes that a goroutine had a place, or was what others waited for.
func (p *planted) held(channel any, id uint64, begin int64) {
	p.log.held(*(*unsafe.Pointer)(unsafe.Add(unsafe.Pointer(&channel), unsafe.Sizeof(uintptr(0)))), id, begin)
}

func (p *planted) direct(s *slots, id uint64) {
	s.free <- struct{}{}
	begin := p.log.now()
	time.Sleep(4 * time.Millisecond)
	p.held(s.free, id, begin)
	<-s.free
	time.Sleep(time.Millisecond)
}

func (p *planted) inSelect(s *slots, id uint64, cancel chan struct{}) {
	select {
	case s.free <- struct{}{}:
		defer func() { <-s.free }()
	case <-cancel:
		return
	}
	begin := p.log.now()
	time.Sleep(4 * time.Millisecond)
	p.held(s.free, id, begin)
}

func (p *planted) wrapped(s *slots, id uint64) {
	s.acquire()
	defer s.release()
	begin := p.log.now()
	time.Sleep(3 * time.Millisecond)
	p.held(s.free, id, begin)
}

func (p *planted) produce(jobs chan int) { jobs <- 1 }

// consume takes jobs, with which it sleeps. Producers wait for it.
func (p *planted) consume(jobs chan int, id uint64) {
	<-jobs
	begin := p.log.now()
	time.Sleep(5 * time.Millisecond)
	p.held(jobs, id, begin)
}

// drain receives for a while.
func drain(jobs chan int) {
	for end := time.After(100 * time.Millisecond); ; {
		select {
		case <-jobs:
		case <-end:
			return
		}
	}
}

// Programs that keep a log of who has a place in a channel, or who could receive from it.
func TestChannelHoldersOfProgram(t *testing.T) {
	for _, c := range []struct {
		name, role string
		run        func(p *planted)
	}{
		{"places", RoleHolds, func(p *planted) {
			s := &slots{make(chan struct{}, 2)}
			for range 5 {
				p.goes(func(id uint64) { p.direct(s, id) })
			}
		}},
		{"select", RoleHolds, func(p *planted) {
			s := &slots{make(chan struct{}, 2)}
			for range 5 {
				p.goes(func(id uint64) { p.inSelect(s, id, p.stop) })
			}
		}},
		{"wrapped", RoleHolds, func(p *planted) {
			s := &slots{make(chan struct{}, 1)}
			for range 3 {
				p.goes(func(id uint64) { p.wrapped(s, id) })
			}
		}},
		{"places of goroutines", RoleHolds, func(p *planted) {
			s := &slots{make(chan struct{}, 2)}
			for range 2 {
				p.goes(func(uint64) {
					s.free <- struct{}{}
					begin := p.log.now()
					p.all.Go(func() {
						defer func() { <-s.free }()
						id := ownID()
						time.Sleep(25 * time.Millisecond)
						p.held(s.free, id, begin)
					})
				})
			}
		}},
		{"rendezvous", RoleOtherSide, func(p *planted) {
			jobs := make(chan int)
			p.goes(func(id uint64) { p.consume(jobs, id) })
			for range 3 {
				p.all.Go(func() {
					for {
						select {
						case <-p.stop:
							return
						default:
						}
						p.produce(jobs)
					}
				})
			}
			p.all.Go(func() { // nobody waits at the end
				<-p.stop
				drain(jobs)
			})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &planted{log: newLockLog(), stop: make(chan struct{})}
			path := filepath.Join(t.TempDir(), "x.tach")
			session := openNative(t, path)
			c.run(p)
			time.Sleep(1500 * time.Millisecond)
			if err := session.Stop(); err != nil {
				t.Fatal(err)
			}
			close(p.stop)
			p.all.Wait()
			for _, list := range p.log.holds {
				slices.SortFunc(list, func(a, b hold) int { return cmp.Compare(a.begin, b.begin) })
			}
			x := compareHolders(t, p.log, path, LockOptions{Channels: true})
			if 100*x.right < 95*(x.right+x.wrong) {
				t.Errorf("right at %d instants and wrong at %d", x.right, x.wrong)
			}
			if all := x.right + x.wrong + x.unknown; 10*x.unknown > all || all == 0 {
				t.Errorf("unknown at %d of %d instants", x.unknown, all)
			}
			f, err := reader.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			l, err := FindLocks(samplesOf(t, stream.Options{Objects: true}, f), LockOptions{Channels: true})
			if err != nil {
				t.Fatal(err)
			}
			for i := range l.Locks {
				if k := &l.Locks[i]; k.Holder != nil {
					h := k.Holder
					t.Logf("%s %s %d: waited %v, %s: seen %v, inferred %v, unknown %v, %v", k.Name, k.Kind, k.Object, k.Waited, h.Role, h.Seen, h.Inferred, h.Unknown, h.States)
				}
			}
			most := Lock{}
			for _, k := range l.Locks {
				if k.Waited > most.Waited && k.Name != "t.signal" {
					most = k
				}
			}
			if h := most.Holder; h == nil || h.Role != c.role || h.Seen+h.Inferred+h.Unknown != most.Waited {
				t.Errorf("%+v: %+v", most, h)
			}
		})
	}
}
