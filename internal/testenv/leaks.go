package testenv

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Goroutines are the ids of goroutines.
type Goroutines map[string]bool

// Running returns the goroutines that there are now.
func Running() Goroutines {
	g := Goroutines{}
	for id := range stacks() {
		g[id] = true
	}
	return g
}

// NoneLeft fails the test if goroutines are left that were not among those before and do not end
// within a second.
func NoneLeft(t testing.TB, before Goroutines) {
	t.Helper()
	if text := before.left(); text != "" {
		t.Errorf("goroutines are left:\n%s", text)
	}
}

// MainWithoutLeaks runs the tests, as TestMain. They fail if they leave goroutines.
func MainWithoutLeaks(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if text := (Goroutines{}).left(); text != "" {
			fmt.Fprintf(os.Stderr, "the tests leave goroutines:\n%s", text)
			code = 1
		}
	}
	os.Exit(code)
}

// patience is how long goroutines are waited for of which none ends.
var patience = time.Second

// left waits until there are no goroutines but those before, and returns the stacks of those that
// stay. It waits as long as some end within patience: thousands take longer.
func (before Goroutines) left() string {
	least := math.MaxInt
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		var stay []string
		for id, stack := range stacks() {
			if !before[id] {
				stay = append(stay, stack+"\n")
			}
		}
		if len(stay) < least {
			least, begin = len(stay), time.Now()
		}
		if len(stay) == 0 || time.Since(begin) > patience {
			return strings.Join(stay, "")
		}
	}
}

// ignored are functions of goroutines that package testing and the standard library start and keep.
var ignored = []string{"testing.(*T).Run(", "os/signal.signal_recv(", "os/signal.loop(", "runtime.ReadTrace("}

// stacks returns the stacks of all goroutines but this one, by their ids.
func stacks() map[string]string {
	all := make([]byte, 64<<10)
	for n := runtime.Stack(all, true); ; n = runtime.Stack(all, true) {
		if n < len(all) {
			all = all[:n]
			break
		}
		all = make([]byte, 2*len(all))
	}
	found := map[string]string{}
next:
	for _, stack := range strings.Split(string(all), "\n\n")[1:] { // the first one is this one
		for _, f := range ignored {
			if strings.Contains(stack, "\n"+f) {
				continue next
			}
		}
		id, _, _ := strings.Cut(strings.TrimPrefix(stack, "goroutine "), " ")
		found[id] = stack
	}
	return found
}
