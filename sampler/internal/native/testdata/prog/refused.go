package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
)

// What modes use in which Start takes the portable source, or none.

type sink struct {
	sampler.OnePart
	samples int
}

func (*sink) Intern(tachyon.Frame) uint32 { return 0 }
func (s *sink) WriteBatch(list []tachyon.Sample) (int, error) {
	s.samples += len(list)
	return len(list), nil
}
func (*sink) Forget(uint64, uint32) error { return nil }

func (*sink) WriteRecords(*tachyon.Records) error { return nil }

// fallsBack makes the kernel refuse a system call. It checks that the portable source takes over with the reason
// why, and that nothing of the native source is left.
func fallsBack(call int, why string) {
	if call >= 0 {
		forbid(call)
	}
	start := func(k *sink) *sampler.Sampler {
		s, err := sampler.Start(sampler.Config{Budget: 50}, k)
		if err != nil {
			fail("Start: %v", err)
		}
		return s
	}
	spareThreads()        // each maps memory, which stays
	start(&sink{}).Stop() // so does what the runtime does for the first session
	_, _, maps, goroutines := inventory()
	for range 3 {
		start(&sink{}).Stop()
	}
	k := &sink{}
	s := start(k)
	await("a sample", func() bool { return s.Stats().Samples > 0 })
	if err := s.Stop(); err != nil {
		fail("Stop: %v", err)
	}
	st := s.Stats()
	if st.Source != "portable" || !strings.Contains(st.SourceReason, why) || k.samples == 0 {
		fail("%s because %q, %d samples", st.Source, st.SourceReason, k.samples)
	}
	fmt.Println(st.Source, "because", st.SourceReason)
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		_, _, maps2, goroutines2 := inventory()
		if maps2 <= maps+12 && goroutines2 <= goroutines {
			return
		}
		if time.Since(begin) > time.Minute {
			fail("not given back: %d maps, before %d; %d goroutines, before %d", maps2, maps, goroutines2, goroutines)
		}
	}
}

// spareThreads makes the runtime start more threads than the program needs.
func spareThreads() {
	var all sync.WaitGroup
	for range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			_ = unix.Nanosleep(&unix.Timespec{Nsec: 50_000_000}, nil)
		}()
	}
	all.Wait()
}

// refused checks that Start returns an error that has why in it.
func refused(why string) {
	for _, source := range []string{sampler.Auto, sampler.Native, sampler.Portable} {
		_, err := sampler.Start(sampler.Config{Source: source}, &sink{})
		if err == nil || !strings.Contains(err.Error(), why) {
			fail("%s: %v", source, err)
		}
		fmt.Println(err)
	}
}

func inventory() (fds, threads, maps, goroutines int) {
	f, _ := os.ReadDir("/proc/self/fd")
	t, _ := os.ReadDir("/proc/self/task")
	m, _ := os.ReadFile("/proc/self/maps")
	return len(f), len(t), strings.Count(string(m), "\n"), runtime.NumGoroutine()
}
