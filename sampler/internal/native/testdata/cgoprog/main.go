// Command cgoprog runs the native source in a program with threads of C that call Go, and with a signal stack
// that C has created.
package main

/*
#cgo LDFLAGS: -lpthread
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

extern int goCallback(int);

static volatile int done;

static int cBurn(int n) {
	volatile int x = 0;
	for (int i = 0; i < n; i++) x += i;
	return x;
}

static int cCalls(int n) { return goCallback(n) + 1; }

static void *thread(void *arg) {
	int block = (int)(intptr_t)arg;
	if (block) {
		sigset_t all;
		sigfillset(&all);
		pthread_sigmask(SIG_BLOCK, &all, 0);
	}
	while (!done) cCalls(3);
	return 0;
}

static pthread_t threads[4];
static void start(void) { for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, thread, (void*)(intptr_t)(i & 1)); }
static void stop(void) { done = 1; for (int i = 0; i < 4; i++) pthread_join(threads[i], 0); }
*/
import "C"

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/sampler/internal/native"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

//export goCallback
func goCallback(n C.int) C.int {
	if n == 0 {
		return C.int(inGo())
	}
	return C.cCalls(n - 1)
}

//go:noinline
func inGo() (n int) {
	for i := range 20000 {
		n += i * n
	}
	return n
}

type counter struct {
	frames         []string
	inGo, inC      atomic.Int64
	samples, wrong int
}

func (c *counter) Frame(f tachyon.Frame) uint32 {
	c.frames = append(c.frames, f.Func)
	return uint32(len(c.frames) - 1)
}

func (c *counter) Sample(s *source.Sample) {
	c.samples++
	var stack []string
	for _, id := range s.Stack {
		stack = append(stack, c.frames[id])
	}
	text := strings.Join(stack, " ")
	if strings.Contains(text, "main.inGo") {
		c.inGo.Add(1)
		if !strings.Contains(text, "main.goCallback") {
			c.wrong++
			fmt.Println(text)
		}
	}
	if strings.Contains(text, "main.burnInC") {
		c.inC.Add(1)
	}
}

func (c *counter) Goroutine(g source.Goroutine) bool               { return !own.Created(g.CreatedBy) }
func (c *counter) Labels(uint64, time.Duration, map[string]string) {}
func (c *counter) Gone(uint64)                                     {}
func (*counter) Counted()                                          {}

func (c *counter) Batch(f func()) { f() }
func (c *counter) Fail(err error) { fmt.Println("Fail:", err); os.Exit(1) }

//go:noinline
func burnInC() { C.cBurn(3000000) }

//go:noinline
func callsBack() { C.cCalls(2) }

func main() {
	if len(os.Args) > 1 && os.Args[1] == "cpu" {
		cpu()
		return
	}
	C.start()
	c := &counter{}
	s := native.New()
	if err := s.Start(source.Config{Rate: 2000, Budget: 50, WaitFrames: true, Start: time.Now()}, c); err != nil {
		fmt.Println("Start:", err)
		os.Exit(1)
	}
	enough := func() bool { return c.inGo.Load() >= 50 && c.inC.Load() >= 20 }
	for end := time.Now().Add(time.Minute); !enough() && time.Now().Before(end); {
		burnInC()
		for range 30 {
			callsBack()
		}
	}
	s.Stop()
	C.stop()
	fmt.Printf("%d in Go, %d in C, %d wrong of %d, %+v\n", c.inGo.Load(), c.inC.Load(), c.wrong, c.samples, s.Progress())
	if !enough() || c.wrong > 0 {
		os.Exit(1)
	}
	fmt.Println("ok")
}
