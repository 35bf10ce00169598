// Command causes is a program whose goroutines wait for causes that are known. It profiles itself.
//
//	causes KIND DURATION PROFILE
//
// Labels say what is true: whoever waits has the label "until", and who is the cause has it in its label "is", among others
// that are separated by commas. "until" is "name:" and a text if what is waited for has a name. Only the test reads them.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/gotach/profiler"
)

// kinds start goroutines, which end when the channel is closed or never.
var kinds = map[string]func(stop <-chan struct{}){
	"consumers": consumers, "answers": answers, "children": children, "places": places, "sqlpool": sqlPool, "transport": transport, "handlers": handlers,
	"pgxpool": pgxPools, "redis": redisPools, "workers": workers, "clients": clients,
}

func main() {
	if len(os.Args) != 4 || kinds[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: causes KIND DURATION PROFILE; KIND is one of", slices.Sorted(maps.Keys(kinds)))
		os.Exit(2)
	}
	d, err := time.ParseDuration(os.Args[2])
	check(err)
	stop := make(chan struct{})
	kinds[os.Args[1]](stop)
	time.Sleep(200 * time.Millisecond)
	s, err := profiler.Open(profiler.Output(os.Args[3]))
	check(err)
	time.Sleep(d)
	check(s.Stop())
	close(stop)
	os.Exit(0) // without the ends of the goroutines
}

// wait calls a function that waits for one cause.
func wait(until string, f func()) {
	label("until", until)
	f()
	label("until", "")
}

// be calls a function, in which the goroutine is a cause.
func be(is string, f func()) {
	label("is", is)
	f()
	label("is", "")
}

// label sets one of the labels of the goroutine, which has no others than these. A goroutine begins with start.
func label(key, value string) {
	now := labels.get()
	now[key] = value
	list := []string{}
	for _, k := range []string{"until", "is"} {
		if now[k] != "" {
			list = append(list, k, now[k])
		}
	}
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels(list...)))
}

// start starts a goroutine without labels.
func start(f func()) {
	go func() {
		pprof.SetGoroutineLabels(context.Background())
		defer labels.end()
		f()
	}()
}

// until calls a function again and again, until a channel is closed.
func until(stop <-chan struct{}, f func(n int)) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
			f(n)
		}
	}
}

// pause sleeps for some milliseconds, not always the same.
func pause(ms, n int) { time.Sleep(time.Duration(ms*1000+ms*(n*7919%613)) * time.Microsecond) }

func check(err error) {
	if err != nil && !strings.Contains(err.Error(), "closed") {
		panic(err)
	}
}
