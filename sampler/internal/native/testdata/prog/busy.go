package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/reader"
)

func init() { modes["busy"] = busy }

// busy takes two profiles beside goroutines that never wait. Its arguments are their number, GOMAXPROCS (0: it changes all the
// time), and a folder. It prints how long Open and Stop took, in s, and which source there was.
func busy() {
	n, _ := strconv.Atoi(os.Args[2])
	procs, _ := strconv.Atoi(os.Args[3])
	if procs > 0 {
		runtime.GOMAXPROCS(procs)
	} else {
		go change()
	}
	for range n {
		go allocate()
	}
	for i := range 2 {
		begin := time.Now()
		s, err := profiler.Open(profiler.Output(filepath.Join(os.Args[4], strconv.Itoa(i)+".tach")))
		if err != nil {
			fail("Open: %v", err)
		}
		open, reason := time.Since(begin), s.Stats().Source+" "+s.Stats().Reason
		time.Sleep(50 * time.Millisecond)
		begin = time.Now()
		err = s.Stop()
		fmt.Println(open.Seconds(), time.Since(begin).Seconds(), reason)
		if samples := read(s.Path()); err != nil || samples == 0 {
			fail("%d samples: %v", samples, err)
		}
	}
}

// allocate keeps the collector busy too, which stops the world.
func allocate() {
	for keep := [][]byte(nil); ; keep = append(keep, make([]byte, 1000)) {
		if len(keep) > 1000 {
			keep = nil
		}
	}
}

func change() {
	for i := 0; ; i++ {
		runtime.GOMAXPROCS(1 + i%4)
		time.Sleep(time.Millisecond)
	}
}

// read returns how many samples a file has.
func read(path string) (samples int) {
	r, err := reader.Open(path)
	if err != nil {
		fail("%v", err)
	}
	defer r.Close()
	for _, err := range r.Samples() {
		if err != nil {
			fail("%v", err)
		}
		samples++
	}
	return samples
}
