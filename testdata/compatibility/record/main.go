// Command record writes a file of each layout that this version writes, for TestCompatibility. It needs Linux. When a version is
// tagged that writes something new, run
//
//	go run -trimpath ./testdata/compatibility/record testdata/compatibility/v1.2.0
//	go test ./cmd/gotach -run TestCompatibility -update
//
// and never touch the folder of an earlier version.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"sync"
	"syscall"
	"time"

	"github.com/gotach/profiler"
	_ "github.com/gotach/profiler/export"
)

func main() {
	if err := record(os.Args[1], len(os.Args) > 2); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// record writes the files into dir. With killed the process writes one of them, and ends as by kill -9.
func record(dir string, killed bool) error {
	work()
	options := func(name string, more ...profiler.Option) []profiler.Option {
		return append(more, profiler.Output(filepath.Join(dir, name)), profiler.Rate(100), profiler.Budget(50), profiler.Service("shop", "1.2"))
	}
	if killed {
		s := profiler.Start(options("killed.tach", profiler.Source(profiler.Native))...)
		time.Sleep(500 * time.Millisecond)
		return errors.Join(s.Err(), syscall.Kill(os.Getpid(), syscall.SIGKILL))
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for _, opts := range [][]profiler.Option{
		options("native.tach", profiler.Source(profiler.Native), profiler.Export("cpython315", filepath.Join(dir, "cpython315.bin"))),
		options("uncompressed.tach", profiler.Source(profiler.Native), profiler.Compression(profiler.Uncompressed)),
		options("portable.tach", profiler.Source(profiler.Portable), profiler.SystemGoroutines()),
		options("rotated.tach", profiler.Source(profiler.Native), profiler.RotateEvery(time.Second)),
	} {
		s := profiler.Start(opts...)
		time.Sleep(300 * time.Millisecond)
		for len(s.Files()) == 0 && filepath.Base(s.Path()) == "rotated.1.tach" && s.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		if err := s.Stop(); err != nil {
			return err
		}
	}
	_ = exec.Command(os.Args[0], dir, "killed").Run() // it is killed
	return pack(filepath.Join(dir, "killed.tach.journal"))
}

// pack compresses a file, most of which is empty.
func pack(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err = w.Write(b)
	return errors.Join(err, w.Close(), os.WriteFile(path+".gz", out.Bytes(), 0o644), os.Remove(path))
}

var state struct {
	sync.Mutex // a lock with a name
	n          int
}

// work starts goroutines that run and that wait in various ways, with labels.
func work() {
	for i := range 3 {
		go pprof.Do(context.Background(), pprof.Labels("worker", fmt.Sprint(i)), func(context.Context) { locks() })
	}
	for range 2 {
		go receives(make(chan int))
	}
	c := make(chan int)
	go receives(c)
	go receives(c)
	go func() {
		for {
			spin(time.Millisecond)
			time.Sleep(time.Millisecond)
		}
	}()
}

func locks() {
	for {
		state.Lock()
		state.n++
		time.Sleep(3 * time.Millisecond)
		state.Unlock()
	}
}

func receives(c chan int) { <-c }

func spin(d time.Duration) {
	for begin := time.Now(); time.Since(begin) < d; {
		state.n += 0
	}
}
