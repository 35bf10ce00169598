//go:build linux && (amd64 || arm64)

package hold

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
)

const long = time.Hour // a bound that is not reached

func first(bound time.Duration, f func()) (end func()) {
	end, err := First(bound, f, syscall.SIGINT, syscall.SIGTERM)
	if err != nil {
		panic(err)
	}
	return end
}

// finished takes some time, in which the program must not get the signal.
func finished() {
	time.Sleep(10 * time.Millisecond)
	fmt.Println("finished")
}

// notified returns a channel that gets the signals.
func notified() chan os.Signal {
	c := make(chan os.Signal, 10)
	signal.Notify(c, syscall.SIGINT, syscall.SIGTERM)
	return c
}

// programs get a signal after they have printed "ready". Then their standard input ends.
var programs = map[string]func(){
	"dies":     func() { first(long, finished); ready() },
	"too slow": func() { first(10*time.Millisecond, func() { select {} }); ready() },
	"ended":    func() { first(long, finished)(); ready() },
	"stuck": func() { // f cannot run: with GODEBUG=asyncpreemptoff=1 nothing interrupts the loop
		runtime.GOMAXPROCS(1)
		first(20*time.Millisecond, finished)
		fmt.Println("ready")
		for n := 0; n >= 0; n++ {
		}
	},
	"handles": func() {
		c := notified()
		first(long, func() { finished(); fmt.Println(len(c)) })
		fmt.Println("ready")
		fmt.Println("got", <-c)
		time.Sleep(10 * time.Millisecond)
		fmt.Println(len(c), "more")
		os.Exit(7)
	},
	"twice": func() {
		c := notified()
		second := make(chan struct{})
		first(long, func() {
			_ = syscall.Kill(os.Getpid(), syscall.SIGINT)
			fmt.Println("got", <-c, "and", len(c))
			close(second)
		})
		fmt.Println("ready")
		<-second
		fmt.Println("got", <-c)
		os.Exit(8)
	},
	"ignores": func() {
		first(long, finished)
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM)
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(9)
	},
	"ignores meanwhile": func() {
		end := first(long, func() { signal.Ignore(syscall.SIGINT, syscall.SIGTERM) })
		fmt.Println("ready")
		for state() != stateKept {
			time.Sleep(time.Millisecond)
		}
		end()
		os.Exit(10)
	},
	"resets": func() {
		notified()
		first(long, finished)
		signal.Reset(syscall.SIGINT, syscall.SIGTERM)
		ready()
	},
}

func ready() {
	fmt.Println("ready")
	time.Sleep(time.Hour)
}

func TestMain(m *testing.M) {
	if p := programs[os.Getenv("GOTACH_TEST_HOLD")]; p != nil {
		p()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestFirst(t *testing.T) {
	for _, tc := range []struct {
		program, prints string
		exit            int // -1: ended by the signal
	}{
		{"dies", "finished\n", -1},
		{"too slow", "", -1},
		{"stuck", "*", -1}, // f may run before the loop begins
		{"handles", "finished\n0\ngot SIGNAL\n0 more\n", 7},
		{"twice", "got interrupt and 0\ngot SIGNAL\n", 8},
		{"ignores", "", 9},
		{"ignores meanwhile", "", 10},
		{"resets", "finished\n", -1},
		{"ended", "", -1},
	} {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			t.Run(fmt.Sprintf("%s %v", tc.program, sig), func(t *testing.T) {
				cmd := exec.Command(os.Args[0])
				if e := os.Getenv("GOTACH_EMULATOR"); e != "" {
					cmd = exec.Command(e, os.Args[0])
				}
				cmd.Env = append(os.Environ(), "GOTACH_TEST_HOLD="+tc.program, "GODEBUG=asyncpreemptoff=1", "GOCOVERDIR="+t.TempDir())
				cmd.Stderr = os.Stderr
				out, err1 := cmd.StdoutPipe()
				in, err2 := cmd.StdinPipe()
				if err := errors.Join(err1, err2, cmd.Start()); err != nil {
					t.Fatal(err)
				}
				printed := ""
				for lines := bufio.NewScanner(out); lines.Scan(); {
					if lines.Text() != "ready" {
						printed += lines.Text() + "\n"
						continue
					}
					if err := cmd.Process.Signal(sig); err != nil {
						t.Fatal(err)
					}
					in.Close()
				}
				_ = cmd.Wait() // ProcessState has the result
				if want := strings.ReplaceAll(tc.prints, "SIGNAL", sig.String()); printed != want && want != "*" {
					t.Errorf("prints %q, want %q", printed, want)
				}
				switch st := cmd.ProcessState.Sys().(syscall.WaitStatus); {
				case tc.exit < 0 && (!st.Signaled() || st.Signal() != sig), tc.exit >= 0 && st.ExitStatus() != tc.exit:
					t.Errorf("ends with %v", cmd.ProcessState)
				}
			})
		}
	}
}

// The program gets the signal exactly once, also if the time bound passes just when f returns.
func TestOnce(t *testing.T) {
	c := notified()
	defer signal.Stop(c)
	before := handlers(t)
	const bound = time.Millisecond
	for i := range testenv.Times(60, 3000) {
		ran := make(chan bool, 2)
		end := first(bound, func() {
			for begin, d := time.Now(), time.Duration(rand.Int64N(int64(2*bound))); time.Since(begin) < d; {
			}
			ran <- true
		})
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		<-c
		end()
		end()
		if len(ran) != 1 {
			t.Fatalf("round %d: f ran %d times", i, len(ran))
		}
		time.Sleep(time.Millisecond)
		if len(c) != 0 {
			t.Fatalf("round %d: the signal came twice", i)
		}
	}
	if after := handlers(t); after != before {
		t.Errorf("the actions were %+v, now they are %+v", before, after)
	}
	if list, _ := os.ReadFile("/proc/self/timers"); len(list) > 0 {
		t.Errorf("timers are left:\n%s", list)
	}
}

func handlers(t *testing.T) (list [2]sigaction) {
	t.Helper()
	for i, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		var err error
		if list[i], err = action(sig, nil); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// A handler that is not Go's stays, and so do those of the other signals.
func TestForeign(t *testing.T) {
	old, err := action(syscall.SIGTERM, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer action(syscall.SIGTERM, &old)
	foreign := old
	foreign.handler = 0 // the default action is not Go's either
	if _, err := action(syscall.SIGTERM, &foreign); err != nil {
		t.Fatal(err)
	}
	before := handlers(t)
	if _, err := First(long, func() {}, syscall.SIGINT, syscall.SIGTERM); !errors.Is(err, errForeign) || handlers(t) != before {
		t.Errorf("First: %v; the actions were %+v, now they are %+v", err, before, handlers(t))
	}
	_, _ = action(syscall.SIGTERM, &old)
	first(long, func() {})() // the failure has left nothing behind
}

// There is one handler, so First cannot be called twice. A child process has the default actions.
func TestInUse(t *testing.T) {
	end := first(long, func() { t.Error("there was no signal") })
	if _, err := First(long, func() {}); err == nil {
		t.Error("First succeeds twice")
	}
	cmd := exec.Command("sh", "-c", "kill -TERM $$; echo survived")
	if out, err := cmd.CombinedOutput(); err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("a child: %v, %s", err, out)
	}
	end()
	end()
	first(long, func() {})()
}
