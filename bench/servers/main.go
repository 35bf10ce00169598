// Servers runs a server under load, with gotach and runtime/pprof at the same time. It writes both profiles to a folder and
// prints how the functions' shares of the CPU time differ:
//
//	servers LOAD SECONDS FOLDER
//
// The clients are in the same process. With the build tag small there are only the programs of small.go, without other modules.
// TestMeasureServers of package bench runs all loads.
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
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var seconds int
	if len(args) != 3 || loads[args[0]] == nil {
		return fmt.Errorf("usage: servers LOAD SECONDS FOLDER; LOAD is one of %s", strings.Join(slices.Sorted(maps.Keys(loads)), ", "))
	}
	if _, err := fmt.Sscan(args[1], &seconds); err != nil {
		return err
	}
	folder := args[2]
	stop := make(chan struct{})
	if err := loads[args[0]](stop, folder); err != nil {
		return err
	}
	time.Sleep(time.Second) // connections, caches
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
