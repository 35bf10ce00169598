// Servers runs a server under load, with gotach and runtime/pprof at the same time. It writes both
// profiles to a folder and prints how the functions' shares of the CPU time differ:
//
//	servers LOAD SECONDS FOLDER
//
// With requests/LOAD it writes gotach's profile only, and what the load says of its own requests.
// With alone/LOAD it writes gotach's profile only. With idle/SERVER there are no clients, and it
// prints what a session costs. The clients are in the same process. With the build tag small there
// are only the programs of small.go, without other modules. TestMeasureServers of package bench
// runs all loads.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/gotach/profiler"
)

// A load starts servers and clients, which run until stop is closed. It returns when they run.
type load func(stop <-chan struct{}, folder string) error

var loads = map[string]load{"bursts": bursts, "tcp": tcp, "mixed": mixed, "short": short}

func main() {
	var err error
	if what := os.Getenv("SERVERS_ASK"); what != "" {
		err = asks(what)
	} else {
		err = run(os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var seconds int
	name, logged, alone, quiet := "", false, false, false
	if len(args) == 3 {
		name, logged = strings.CutPrefix(args[0], "requests/")
		name, alone = strings.CutPrefix(name, "alone/")
		name, quiet = strings.CutPrefix(name, "idle/")
	}
	if loads[name] == nil && (!quiet || idles[name] == nil) {
		return fmt.Errorf("usage: servers LOAD SECONDS FOLDER; LOAD is one of %s", strings.Join(slices.Sorted(maps.Keys(loads)), ", "))
	}
	if _, err := fmt.Sscan(args[1], &seconds); err != nil {
		return err
	}
	folder := args[2]
	if quiet {
		return idle(idles[name], time.Duration(seconds)*time.Second, folder)
	}
	stop := make(chan struct{})
	if err := loads[name](stop, folder); err != nil {
		return err
	}
	time.Sleep(time.Second) // connections, caches
	if logged {
		defer close(stop)
		return requests.record(seconds, folder)
	}
	if alone {
		session := profiler.Start(profiler.Output(filepath.Join(folder, "gotach.tach")))
		time.Sleep(time.Duration(seconds) * time.Second)
		return session.Stop()
	}
	f, err := os.Create(filepath.Join(folder, "pprof.pb.gz"))
	if err != nil {
		return err
	}
	session := profiler.Start(profiler.Output(filepath.Join(folder, "gotach.tach")))
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	time.Sleep(time.Duration(seconds) * time.Second)
	pprof.StopCPUProfile()
	if err := session.Stop(); err != nil {
		return err
	}
	close(stop)
	if err := f.Close(); err != nil {
		return err
	}
	rows, err := compare(folder)
	if err != nil {
		return err
	}
	print(os.Stdout, rows)
	return nil
}
