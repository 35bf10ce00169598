// Command ccases runs one case of docs/harm.md that needs C, which its arguments name. If
// PROFILE_OUT is set, the case runs in a session.
package main

/*
#cgo LDFLAGS: -lpthread
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern long goAdd(long);
extern long goGrows(long);

static void *calls(void *arg) {
	long sum = 0;
	for (long i = 1; i <= 1000; i++)
		sum += goAdd(i);
	return (void *)sum;
}

// callbacks starts four threads of C that each call Go 1,000 times.
static long callbacks(void) {
	pthread_t t[4];
	long sum = 0;
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, calls, NULL);
	for (int i = 0; i < 4; i++) {
		void *r;
		pthread_join(t[i], &r);
		sum += (long)r;
	}
	return sum;
}

// callsBack calls Go with another value in the frame pointer register, as C code without frame pointers can.
static long callsBack(long n, long junk) {
	long r;
#if defined(__x86_64__)
	// The call is below the red zone, on an aligned stack.
	__asm__ volatile("mov %%rsp, %%rbx\n\tsub $128, %%rsp\n\tand $-16, %%rsp\n\tpush %%rbp\n\tpush %%rbp\n\tmov %2, %%rbp\n\t"
		"call goGrows\n\tpop %%rbp\n\tpop %%rbp\n\tmov %%rbx, %%rsp"
		: "=a"(r), "+D"(n) : "r"(junk) : "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
#else
	(void)junk;
	r = goGrows(n);
#endif
	return r;
}

static volatile sig_atomic_t got;
static void handler(int sig) { got++; }

// install installs a handler in C for a signal.
static int install(int sig) {
	struct sigaction a;
	memset(&a, 0, sizeof a);
	a.sa_handler = handler;
	a.sa_flags = SA_ONSTACK | SA_RESTART;
	return sigaction(sig, &a, NULL);
}

static int installed(int sig) {
	struct sigaction a;
	return sigaction(sig, NULL, &a) == 0 && a.sa_handler == handler;
}

enum { DEFAULT, IGNORED, OURS };

// take sets the action of SIGURG to default, ignored, or the handler above.
static int take(int action) {
	if (action == OURS)
		return install(SIGURG);
	return signal(SIGURG, action == DEFAULT ? SIG_DFL : SIG_IGN) == SIG_ERR;
}

static int taken(int action) {
	struct sigaction a;
	sigaction(SIGURG, NULL, &a);
	return a.sa_handler == (action == OURS ? handler : action == DEFAULT ? SIG_DFL : SIG_IGN);
}

static int handled(int sig, int n) {
	for (int i = 0; i < n; i++)
		raise(sig);
	return got;
}

static void atEnd(void) { (void)!write(1, "atexit\n", 7); }
static void exits(int code) { atexit(atEnd); exit(code); }
static void faults(void) { *(volatile int *)8 = 1; }

static int children(int n) {
	int ok = 0;
	for (int i = 0; i < n; i++) {
		int status = system("exit 5");
		ok += WIFEXITED(status) && WEXITSTATUS(status) == 5;
	}
	return ok;
}

// The calls that wait 1 ms. Each returns whether it was interrupted.
enum { NANOSLEEP, CLOCK_NANOSLEEP, USLEEP, POLL, SELECT, SEM_TIMEDWAIT, COND_TIMEDWAIT };

static int waits(int call) {
	struct timespec d = {0, 1000000}, until;
	struct timeval v = {0, 1000};
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += d.tv_nsec;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	int r = 0;
	errno = 0;
	switch (call) {
	case NANOSLEEP: r = nanosleep(&d, NULL); break;
	case CLOCK_NANOSLEEP: return clock_nanosleep(CLOCK_MONOTONIC, 0, &d, NULL) == EINTR;
	case USLEEP: r = usleep(1000); break;
	case POLL: r = poll(NULL, 0, 1); break;
	case SELECT: r = select(0, NULL, NULL, NULL, &v); break;
	case SEM_TIMEDWAIT: {
		sem_t s;
		sem_init(&s, 0, 0);
		r = sem_timedwait(&s, &until);
		break;
	}
	case COND_TIMEDWAIT: {
		pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
		pthread_cond_t c = PTHREAD_COND_INITIALIZER;
		pthread_mutex_lock(&m);
		r = pthread_cond_timedwait(&c, &m, &until);
		pthread_mutex_unlock(&m);
		return r == EINTR;
	}
	}
	return r < 0 && errno == EINTR;
}

struct many { int call, n, interrupted; };

static void *waitMany(void *arg) {
	struct many *m = arg;
	for (int i = 0; i < m->n; i++)
		m->interrupted += waits(m->call);
	return NULL;
}

// waitsOwn makes n waits on a new thread of C and returns how many were interrupted.
static int waitsOwn(int call, int n) {
	struct many m = {call, n, 0};
	pthread_t t;
	pthread_create(&t, NULL, waitMany, &m);
	pthread_join(t, NULL);
	return m.interrupted;
}
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	profiler "github.com/gotach/profiler"
)

//export goAdd
func goAdd(n C.long) C.long {
	if n%100 == 0 {
		time.Sleep(100 * time.Microsecond)
	}
	return n
}

//export goGrows
func goGrows(n C.long) C.long { return C.long(grows(int(n))) }

//go:noinline
func grows(n int) (sum int) {
	var room [64]int
	if n > 0 {
		room[n%64] = grows(n - 1)
	}
	for _, v := range room {
		sum += v
	}
	return sum + 1
}

var cases = map[string]func(){
	"callbacks": func() {
		sum := 0
		for range 10 {
			sum += int(C.callbacks())
		}
		fmt.Println("a sum of", sum)
	},
	"frames callbacks": func() {
		sum := 0
		for i := range 500 {
			done := make(chan int)
			go func() { done <- int(C.callsBack(100, C.long(i*8-16))) }() // a new goroutine has a small stack
			sum += <-done
			if i%20 == 0 {
				runtime.GC()
			}
		}
		fmt.Println("a sum of", sum)
	},
	"handler": func() {
		C.install(C.int(syscall.SIGUSR1))
		fmt.Println(C.handled(C.int(syscall.SIGUSR1), 10_000), "of 10000 signals")
	},
	"own SIGURG": func() {
		C.install(C.int(syscall.SIGURG))
		stop := session()
		time.Sleep(50 * time.Millisecond)
		stop()
		fmt.Println("still there:", C.installed(C.int(syscall.SIGURG)) == 1)
	},
	"own SIGURG default":  func() { takes(C.DEFAULT) },
	"own SIGURG ignored":  func() { takes(C.IGNORED) },
	"own SIGURG replaced": func() { takes(C.OURS) },

	"exits":    func() { C.exits(3) },
	"aborts":   func() { C.abort() },
	"faults":   func() { C.faults() },
	"children": func() { fmt.Println(C.children(30), "of 30 children") },
}

// takes sets the action of SIGURG in C while a session runs.
func takes(action C.int) {
	stop := session()
	spin(50 * time.Millisecond)
	if C.take(action) != 0 {
		panic("the signal cannot be set")
	}
	if current != nil {
		within := 10 * time.Second
		if current.Stats().Source == "portable" {
			within = 300 * time.Millisecond
		}
		for begin := time.Now(); current.Err() == nil && current.Stats().SignalTaken == 0 && time.Since(begin) < within; {
			spin(time.Millisecond)
		}
		spin(50 * time.Millisecond)
	}
	stop()
	fmt.Println("as C set it:", C.taken(action) == 1)
}

// waits are the values of CALL in the arguments "waits CALL [own]", which count interruptions.
var waits = map[string]C.int{
	"nanosleep": C.NANOSLEEP, "clock_nanosleep": C.CLOCK_NANOSLEEP, "usleep": C.USLEEP, "poll": C.POLL, "select": C.SELECT,
	"sem_timedwait": C.SEM_TIMEDWAIT, "pthread_cond_timedwait": C.COND_TIMEDWAIT,
}

func main() {
	name := strings.Join(os.Args[1:], " ")
	if strings.HasPrefix(name, "own ") {
		cases[name]()
		return
	}
	if strings.HasPrefix(name, "waits ") {
		n, err := strconv.Atoi(os.Args[3])
		if err != nil {
			panic(err)
		}
		defer session()()
		call, interrupted := waits[os.Args[2]], 0
		if len(os.Args) > 4 {
			go func() {
				for {
					spin(time.Millisecond)
				}
			}()
			interrupted = int(C.waitsOwn(call, C.int(n)))
		} else {
			for range n {
				spin(100 * time.Microsecond) // the signal of a tick in this time sometimes arrives in the wait
				interrupted += int(C.waits(call))
			}
		}
		fmt.Println(interrupted)
		return
	}
	defer session()()
	time.Sleep(30 * time.Millisecond)
	cases[name]()
}

// current is the session, nil if there is none.
var current *profiler.Session

// session starts a session if PROFILE_OUT is set. It returns a function that stops it.
func session() (stop func()) {
	if os.Getenv("PROFILE_OUT") == "" {
		return func() {}
	}
	current = profiler.Start()
	return func() { _ = current.Stop() } // Stop logs its error
}

func spin(d time.Duration) {
	for begin := time.Now(); time.Since(begin) < d; {
	}
}
