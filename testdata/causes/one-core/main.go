// A job that packs the days of a log with four goroutines. A setting from the days of a smaller machine lets one of them run at a time.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"log"
	"runtime"
	"sync"

	"causes/run"

	"github.com/gotach/profiler"
)

type archive struct{ days chan []byte }

func (a *archive) pack() error {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	for day := range a.days {
		out.Reset()
		w.Reset(&out)
		w.Write(day) // planted
		if err := w.Close(); err != nil {
			return err
		}
	}
	return nil
}

func (a *archive) read(ctx context.Context) {
	defer close(a.days)
	day := make([]byte, 256<<10)
	for n := 0; ctx.Err() == nil; n++ {
		for i := range day {
			day[i] = byte(i*n>>6) & 0x3f
		}
		select {
		case a.days <- bytes.Clone(day):
		case <-ctx.Done():
		}
	}
}

func main() {
	runtime.GOMAXPROCS(1) // planted
	defer profiler.Start().Stop()
	a := &archive{days: make(chan []byte, 4)}
	go a.read(run.Context())
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if err := a.pack(); err != nil {
				log.Fatal(err)
			}
		})
	}
	group.Wait()
}
