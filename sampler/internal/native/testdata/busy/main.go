// Command busy takes two profiles beside goroutines that never wait. Its arguments are their number, and GOMAXPROCS; 0: it changes
// all the time. It prints how long Open and Stop took, in s, which source there was, and "ok" if both files are right.
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

func main() {
	n, _ := strconv.Atoi(os.Args[1])
	procs, _ := strconv.Atoi(os.Args[2])
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
		s, err := profiler.Open(profiler.Output(filepath.Join(os.Args[3], strconv.Itoa(i)+".tach")))
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		open, reason := time.Since(begin), s.Stats().Source+" "+s.Stats().Reason
		time.Sleep(50 * time.Millisecond)
		begin = time.Now()
		err = s.Stop()
		fmt.Println(open.Seconds(), time.Since(begin).Seconds(), reason)
		if samples := read(s.Path()); err != nil || samples == 0 {
			fmt.Println(samples, "samples:", err)
			os.Exit(1)
		}
	}
	fmt.Println("ok")
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

func read(path string) (samples int) {
	r, err := reader.Open(path)
	if err != nil {
		fmt.Println(err)
		return 0
	}
	defer r.Close()
	for _, err := range r.Samples() {
		if err != nil {
			fmt.Println(err)
			return 0
		}
		samples++
	}
	return samples
}
